from typing import Any

from django.core.management.base import CommandError, CommandParser

from gateway_project.operator_command import OperatorCommand
from gateway_project.text import timestamps
from keys import lifecycle, rotation, secret
from keys.models import ApiKey


class Command(OperatorCommand):
    help = "Revoke KEY, given by its id or its secret (of a leaked key, say). Revoking twice changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", metavar="KEY", help="The key's id, or its secret.")

    def handle(self, *args: Any, **options: Any) -> None:
        key = _find(options["key"].strip())
        lifecycle.revoke_key(key)
        assert key.revoked_at is not None
        revoked_at = timestamps.iso_millis(key.revoked_at)
        self.write_result(options, {"key": key.pk, "revokedAt": revoked_at}, f"Key {key.pk} is revoked, since {revoked_at}.")


def _find(typed: str) -> ApiKey:
    # The argument may be a secret, or most of one, so no message repeats it. A text with this key's id in the format of a
    # secret is not enough: only the real secret revokes the key.
    key = None
    if secret.key_id(typed):
        key = rotation.find_key(typed)
    elif secret.is_key_id(typed):
        key = rotation.find_by_id(typed)
    if key is None:
        raise CommandError("KEY: there is no key with this id or secret.")
    return key
