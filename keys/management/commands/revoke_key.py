"""Stop a key for good, at once and everywhere."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from gateway_project import timestamps
from gateway_project.operator_command import OperatorCommand
from keys import lifecycle, secret
from keys.models import ApiKey


class Command(OperatorCommand):
    help = "Revoke KEY: its id, or the secret itself where that is all somebody found. Revoking twice is fine."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("key", metavar="KEY", help="The key's id, or its secret.")

    def handle(self, *args: Any, **options: Any) -> None:
        key = _find(options["key"].strip())
        lifecycle.revoke_key(key)
        assert key.revoked_at is not None
        revoked_at = timestamps.iso_millis(key.revoked_at)
        self.answer(options, {"key": key.pk, "revokedAt": revoked_at}, f"Key {key.pk} is revoked, since {revoked_at}.")


def _find(typed: str) -> ApiKey:
    # What was typed may be most of a secret, so it is never repeated, not even in an error. A text that only looks like
    # a secret of this key proves nothing: whoever invents one must not get the key revoked.
    embedded_id = secret.key_id(typed)
    key = ApiKey.objects.filter(pk=embedded_id or typed).first() if typed.isascii() else None
    if key is None or (embedded_id and not secret.matches(typed, key.digest, settings.KEY_PEPPERS)):
        raise CommandError("KEY: there is no key with this id or secret.")
    return key
