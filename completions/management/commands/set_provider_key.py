import getpass
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from completions.catalog import rules
from completions.management import arguments
from completions.models import Provider
from gateway_project.activity import log
from gateway_project.db import cell
from gateway_project.operator_command import OperatorCommand, operator

_READ_CHARACTERS_MAX = 2 * rules.SERVICE_ACCOUNT_CHARACTERS_MAX  # with the white space of a file


class Command(OperatorCommand):
    help = "Read the API key of the provider NAME from standard input, and store it encrypted. It precedes a variable."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="The provider, by its name in the catalog.")
        parser.add_argument("--forget", action="store_true", help="Read nothing, and delete the key that is stored.")

    def handle(self, *args: Any, **options: Any) -> None:
        provider = arguments.provider("NAME", options["name"])
        if provider.kind == Provider.Kind.ECHO:
            raise CommandError("NAME: the built-in echo needs no key.")
        typed = "" if options["forget"] else _read(provider.pk)
        with transaction.atomic():
            cell.take_turn(f"{Provider._meta.label_lower} {provider.pk}")
            provider = Provider.objects.select_for_update().get(pk=provider.pk)  # a file may change its auth
            key = "" if options["forget"] else _clean(typed, provider)
            is_changed = bool(key or provider.sealed_api_key)
            if is_changed:
                _store(provider, key)
        facts = {"provider": provider.pk, "isStored": bool(provider.sealed_api_key)}
        self.write_result(options, facts, _sentence(provider) if is_changed else "No key was stored. Nothing was changed.")


def _read(name: str) -> str:
    """Return what is typed, or what another program writes."""
    if sys.stdin.isatty():
        return getpass.getpass(f"API key of {name}: ").strip()
    try:
        return sys.stdin.read(_READ_CHARACTERS_MAX).strip()
    except UnicodeDecodeError:
        raise CommandError("Standard input is no text.") from None


def _clean(key: str, provider: Provider) -> str:
    if not key:
        raise CommandError("Standard input has no key. Nothing was changed.")
    try:
        return rules.clean_api_key(key, provider.access.get("auth", {}))
    except ValueError as error:
        raise CommandError(f"{error}. Nothing was changed.") from None


def _store(provider: Provider, key: str) -> None:
    provider.sealed_api_key = ""
    if key:
        provider.seal_api_key(key)
    provider.refused_key, provider.key_refused_at, provider.key_refusal = "", None, ""
    provider.save(update_fields=["sealed_api_key", "refused_key", "key_refused_at", "key_refusal"])
    what = "Stored an API key" if key else "Deleted the stored API key"
    log.record(None, log.Act.CHANGED, provider, f"{what}, as {operator()}.")


def _sentence(provider: Provider) -> str:
    others = f"that in {provider.api_key_env}" if provider.api_key_env else "none"
    what = "is stored, encrypted" if provider.sealed_api_key else f"is no longer stored: {others} is used"
    return f"The key of {provider.pk} {what}. Within {settings.CATALOG_CACHE_SECONDS} s all processes go by it."
