"""The base class of operators' commands: a result in sentences or as JSON, progress on stderr, readable failures."""

import getpass
import json
import socket
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import ProgrammingError, connection

from gateway_project import errors
from gateway_project.db import direct_connections, pool


def operator() -> str:
    """Return who runs this process, for records of what a command did: "deploy@db-1"."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # it has no name, as in many containers
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:200]


class OperatorCommand(BaseCommand):
    """A management command with ``--json``."""

    def create_parser(self, *args: Any, **options: Any) -> CommandParser:
        parser = super().create_parser(*args, **options)
        parser.add_argument("--json", action="store_true", help="Print one JSON object instead of sentences.")
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except pool.UNAVAILABLE as error:
            raise CommandError(f"The database is unavailable: {direct_connections.refusal() or error}") from None
        except ProgrammingError as error:
            if not isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
                raise
            refused = f"The role {connection.settings_dict['USER']} of the database may not do this: {errors.reason(error)}."
            advice = "Run it as root on the server that has owner.env, or with its DATABASE_URL."
            raise CommandError(f"{refused} {advice}") from None

    def write_result(self, options: dict[str, Any], facts: dict[str, Any], sentences: str) -> None:
        """Print ``facts`` as JSON with ``--json``, otherwise ``sentences``."""
        self.stdout.write(json.dumps(facts, cls=DjangoJSONEncoder) if options["json"] else sentences)

    def write_progress(self, line: str) -> None:
        self.stderr.write(line, self.style.NOTICE)
