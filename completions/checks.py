"""System checks of the room for stored replies and responses, the requests in flight, what commits wait for, and the catalog.

The last two read the database: they run with ``check --database default`` and before ``migrate``.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import ProgrammingError, transaction

from completions.catalog import lookup, rules
from completions.charging import idempotency, stored_responses
from completions.models import LanguageModel, Obstacle, Provider
from completions.relay import slots
from gateway_project import installation
from gateway_project.db import cell
from gateway_project.environment import Findings, check

TRACES_ARE_SENT_BY = "opentelemetry.exporter.otlp.proto.http"


@check
def check_idempotent_replies() -> Findings:
    """W007: no account has room for the largest reply."""
    if idempotency.sealed_bytes_max() > settings.IDEMPOTENT_ACCOUNT_BYTES_MAX:
        message = (
            "GATEWAY_IDEMPOTENT_ACCOUNT_BYTES_MAX has no room for the largest reply, which is then not stored for retries."
        )
        hint = f"Set it to {idempotency.sealed_bytes_max()} or more, or lower GATEWAY_IDEMPOTENT_REPLY_BYTES_MAX."
        yield Warning(message, hint=hint, id="gateway.W007")


@check
def check_stored_responses() -> Findings:
    """W012: no account has room for the largest response."""
    needed_bytes = stored_responses.sealed_bytes_max()
    if stored_responses.are_kept() and needed_bytes > settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX:
        message = "GATEWAY_STORED_RESPONSE_ACCOUNT_BYTES_MAX has no room for the largest response, which is then not stored."
        hint = f"Set it to {needed_bytes} or more, or lower GATEWAY_STORED_RESPONSE_BYTES_MAX."
        yield Warning(message, hint=hint, id="gateway.W012")


@check
def check_retention() -> Findings:
    """E018: responses keep details that are to be dropped. E019: no place. W015, W016: one setting without the other."""
    days, directory = settings.RETENTION_DETAIL_DAYS, settings.ARCHIVE_DIR
    if days is not None and stored_responses.are_kept() and stored_responses.retention() >= timedelta(days=days):
        message = "GATEWAY_RETENTION_DETAIL_DAYS is not longer than responses are stored, which keep their completions."
        yield Error(message, hint="Raise it, or lower GATEWAY_STORED_RESPONSE_DAYS.", id="gateway.E018")
    if directory and not Path(directory).is_absolute():
        message = f"GATEWAY_ARCHIVE_DIR must be an absolute path; it is {directory!r}."
        yield Error(message, hint="Such as /var/lib/model-gateway/archive, on a disk of its own.", id="gateway.E019")
    if days is not None and not directory:
        message = "Details of completions are deleted after GATEWAY_RETENTION_DETAIL_DAYS, and not archived."
        yield Warning(message, hint="Set GATEWAY_ARCHIVE_DIR, or silence this check.", id="gateway.W015")
    if days is None and directory:
        message = "GATEWAY_ARCHIVE_DIR is set, and nothing is archived."
        yield Warning(message, hint="Set GATEWAY_RETENTION_DETAIL_DAYS.", id="gateway.W016")


@check
def check_tracing() -> Findings:
    """E017: traces are wanted, and what sends them is not installed."""
    if settings.TRACING_ENDPOINT and not installation.has_module(TRACES_ARE_SENT_BY):
        hint = "Install the wheel with it, as docs/operating/monitoring.md says, or remove the variable."
        yield Error("OTEL_EXPORTER_OTLP_ENDPOINT is set without the extra `tracing`.", hint=hint, id="gateway.E017")


@register(Tags.database)
def check_commits(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W013: a failover to a standby can lose charges unseen. W017: a crash can."""
    if "default" not in (databases or []) or settings.SETTLEMENT_JOURNAL_MINUTES:
        return []
    [(has_standbys, awaited, commits)] = cell.execute(
        "SELECT EXISTS (SELECT FROM pg_stat_replication), current_setting('synchronous_standby_names'),"
        " current_setting('synchronous_commit')"
    )
    found: list[CheckMessage] = []
    if has_standbys and (not awaited or commits in ("local", "off")):
        message = "PostgreSQL has standbys, and no commit waits for them: a failover can lose charges without notice."
        hint = (
            "Set GATEWAY_SETTLEMENT_JOURNAL_MINUTES, or synchronous_standby_names of PostgreSQL with synchronous_commit at on."
        )
        found.append(Warning(message, hint=hint, id="gateway.W013"))
    if commits == "off":
        message = "No commit of PostgreSQL waits for its disk: a crash can lose charges without notice."
        hint = "Set synchronous_commit of PostgreSQL to on, or GATEWAY_SETTLEMENT_JOURNAL_MINUTES."
        found.append(Warning(message, hint=hint, id="gateway.W017"))
    return found


@check
def check_requests_in_flight() -> Findings:
    """W008: the requests of one key can take every slot of a process, and so stop it for all others."""
    if slots.slots_max() <= slots.REPEATABLE_FACTOR * settings.KEY_REQUESTS_IN_FLIGHT:
        message = "With GATEWAY_KEY_REQUESTS_IN_FLIGHT as it is, one key can stop a web process for all others."
        hint = f"Set it well below {slots.slots_max() // slots.REPEATABLE_FACTOR}, or raise GATEWAY_WORKER_CONNECTIONS."
        yield Warning(message, hint=hint, id="gateway.W008")


@register(Tags.database)
def check_catalog(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W002: no price in force. W003: no enabled route. W006: a private address. E008: a provider's key that cannot be read.

    E024: the library that fetches it is not installed.
    """
    if "default" not in (databases or []):
        return []
    try:
        with transaction.atomic():
            models = lookup.incomplete_models(LanguageModel.objects.all())
            return [*(_warning(*found) for found in models), *_private_addresses(), *_unreadable_keys(), *_lacking_extras()]
    except ProgrammingError:  # not migrated yet: there is no catalog to check
        return []


def _warning(model: LanguageModel, obstacle: Obstacle) -> CheckMessage:
    message = f"{model.pk} is enabled but {obstacle}, so it is not served."
    is_unpriced = obstacle is Obstacle.UNPRICED
    return Warning(message, hint=_HINT, id="gateway.W002") if is_unpriced else Warning(message, hint=_HINT, id="gateway.W003")


_HINT = f"Give it one in a catalog file ({installation.COMMAND} load_catalog FILE.toml) or in the admin, or disable the model."


def _private_addresses() -> Findings:
    """Report providers from before the setting was narrowed. A name that is resolved to a private address is not found here."""
    for provider in Provider.objects.filter(is_enabled=True).exclude(base_url="").order_by("pk"):
        try:
            rules.clean_base_url(provider.base_url)
        except ValueError as error:
            message = f"The base_url of provider {provider.pk} {error}."
            yield Warning(message, hint="Its models fail until that is changed.", id="gateway.W006")


def _unreadable_keys() -> Findings:
    hint = "Put the encryption key that sealed it back into the list, or enter the provider's key again in the admin."
    for provider in Provider.objects.exclude(sealed_api_key="").order_by("pk"):
        is_readable = False
        with suppress(ValueError):  # a setting is not a Fernet key; E003 reports that
            is_readable = provider.is_key_readable
        if not is_readable:
            message = f"The key of provider {provider.pk} cannot be read with GATEWAY_ENCRYPTION_KEYS."
            yield Error(message, hint=hint, id="gateway.E008")


def _lacking_extras() -> Findings:
    hint = "Its models fail until that is installed."
    for provider in Provider.objects.filter(is_enabled=True).order_by("pk"):
        if lacking := rules.lacking_extra(provider):
            yield Error(f"Provider {provider.pk}: {lacking}.", hint=hint, id="gateway.E024")
