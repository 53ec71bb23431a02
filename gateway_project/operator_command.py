"""LEAF. What all commands of operators do: answer in sentences, or by one JSON object; tell how it goes on; fail in words."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from gateway_project.db import pool


class OperatorCommand(BaseCommand):
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print one JSON object instead of sentences.")

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except pool.UNAVAILABLE as error:
            raise CommandError(f"The database is away: {error}") from None

    def answer(self, options: dict[str, Any], facts: dict[str, Any], sentences: str) -> None:
        """Print ``facts`` for programs or ``sentences`` for people."""
        self.stdout.write(json.dumps(facts, cls=DjangoJSONEncoder) if options["json"] else sentences)

    def say(self, line: str) -> None:
        """How it goes on, beside the answer: on stderr."""
        self.stderr.write(line, self.style.NOTICE)
