"""System checks of the catalog. They read the database: they run with ``check --database default`` and before ``migrate``."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import ProgrammingError, transaction

from completions.catalog import lookup
from completions.models import LanguageModel, Obstacle, Provider
from gateway_project import secretbox


@register(Tags.database)
def check_catalog(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W002: no price in force. W003: no enabled route. E008: a provider's key that cannot be read."""
    if "default" not in (databases or []):
        return []
    try:
        with transaction.atomic():
            return [*_incomplete_models(), *_unreadable_keys()]
    except ProgrammingError:  # not migrated yet: there is no catalog to check
        return []


def _incomplete_models() -> list[CheckMessage]:
    return [_warning(model, obstacle) for model, obstacle in lookup.incomplete_models(LanguageModel.objects.all())]


def _warning(model: LanguageModel, obstacle: Obstacle) -> CheckMessage:
    message = f"{model.pk} is enabled but {obstacle}, so it is not served."
    if obstacle is Obstacle.UNPRICED:
        return Warning(message, hint=_HINT, id="gateway.W002")
    return Warning(message, hint=_HINT, id="gateway.W003")


_HINT = "Give it one in a catalog file (manage.py load_catalog FILE.toml) or in the admin, or disable the model."


def _unreadable_keys() -> list[CheckMessage]:
    return [
        Error(
            f"The key of provider {provider.pk} cannot be read with GATEWAY_ENCRYPTION_KEYS.",
            hint="Put the encryption key that sealed it back into the list, or enter the provider's key again in the admin.",
            id="gateway.E008",
        )
        for provider in Provider.objects.exclude(sealed_api_key="").order_by("pk")
        if not _is_readable(provider)
    ]


def _is_readable(provider: Provider) -> bool:
    try:
        secretbox.decrypt(provider.sealed_api_key, purpose=f"provider:{provider.pk}")
    except (secretbox.Unreadable, ValueError):  # ValueError: a setting is not a Fernet key; E003 reports that
        return False
    return True
