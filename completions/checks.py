"""System checks of the catalogue. They ask the database: they run with ``check --database default``, and before ``migrate``."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import ProgrammingError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from completions.models import LanguageModel, Price, Provider, Route
from gateway_project import secretbox


@register(Tags.database)
def check_catalogue(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W002 no price in force, W003 no enabled route, E008 a provider's key that cannot be read."""
    if "default" not in (databases or []):
        return []
    try:
        with transaction.atomic():
            return [*_unpriced(), *_unrouted(), *_unreadable()]
    except ProgrammingError:  # not migrated yet: there is no catalogue to check
        return []


def _unpriced() -> list[CheckMessage]:
    prices = Price.objects.filter(model=OuterRef("pk"), effective_from__lte=Now())
    return [
        Warning(f"{model_id} is enabled but has no price in force, so it is not served.", hint=_SERVE, id="gateway.W002")
        for model_id in _enabled_without(prices)
    ]


def _unrouted() -> list[CheckMessage]:
    routes = Route.objects.filter(model=OuterRef("pk"), is_enabled=True)
    return [
        Warning(f"{model_id} is enabled but has no enabled route, so it is not served.", hint=_SERVE, id="gateway.W003")
        for model_id in _enabled_without(routes)
    ]


_SERVE = "Give it one in a catalogue file (manage.py load_catalog FILE.toml) or in the admin, or disable the model."


def _enabled_without(rows: QuerySet[Any]) -> QuerySet[LanguageModel, str]:
    return LanguageModel.objects.filter(~Exists(rows), is_enabled=True).order_by("pk").values_list("pk", flat=True)


def _unreadable() -> list[CheckMessage]:
    return [
        Error(
            f"The key of provider {provider.pk} cannot be read with GATEWAY_ENCRYPTION_KEYS.",
            hint="Put the key it was encrypted with back into the list, or enter the provider's key again in the admin.",
            id="gateway.E008",
        )
        for provider in Provider.objects.exclude(sealed_api_key="").order_by("pk")
        if not _is_readable(provider)
    ]


def _is_readable(provider: Provider) -> bool:
    try:
        secretbox.decrypt(provider.sealed_api_key, purpose=f"provider:{provider.pk}")
    except (secretbox.Unreadable, ValueError):  # ValueError: E003, a key of ours is no Fernet key
        return False
    return True
