from typing import Any

from django.core.management.base import CommandError, CommandParser

from gateway_project.cells import structure
from gateway_project.db import direct_connections, pool
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Add a cell: tables of its own for the accounts that are opened from then on. The gateway may serve meanwhile."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--closed", action="store_true", help="Open no new accounts there. Accounts can be moved there.")

    def handle(self, *args: Any, **options: Any) -> None:
        pool.stop_pooling()
        if direct_connections.are_shared():
            raise CommandError(
                "A pooler lends connections for single transactions. Each of several cells needs sessions:"
                " let the pooler lend whole sessions, or connect without it."
            )
        added = structure.add(is_open=not options["closed"], progress=self.write_progress)
        facts = {"cell": added.number, "is_open": added.is_open}
        where = "New accounts are opened there." if added.is_open else "No account is opened there."
        self.write_result(options, facts, f"Cell {added.number} is ready. {where}")
