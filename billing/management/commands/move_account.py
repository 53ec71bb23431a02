from typing import Any

from django.core.management.base import CommandError, CommandParser

from billing.ledger import moves
from billing.management import arguments
from gateway_project.cells import moving
from gateway_project.db import cell, pool
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Move the account of EMAIL to another cell. Its requests wait meanwhile. It is in one of the two cells at any time."

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_account_arguments(parser)
        parser.add_argument("cell", metavar="CELL", help="The number of the cell to which it moves.")

    def handle(self, *args: Any, **options: Any) -> None:
        pool.stop_pooling()
        cell.read_again()
        account = arguments.account(options)
        source = cell.current()
        target = arguments.whole_number("CELL", options["cell"], minimum=1, maximum=max(cell.numbers()))
        if target not in cell.numbers():
            raise CommandError(f"CELL: there is no cell {target}.")
        if target == source:
            return self.write_result(options, self._facts(account, source, 0), f"{account.pk} is in cell {target} already.")
        try:
            rows = moves.move(account.pk, target, self.write_progress)
        except (moves.MoveRefused, moving.NotAllowed, moving.Unequal) as error:
            raise CommandError(f"{account.pk} was not moved: {error}.") from None
        sentence = f"Moved {account.pk} from cell {source} to cell {target}: {rows:,} rows."
        return self.write_result(options, self._facts(account, target, rows), sentence)

    def _facts(self, account: Any, number: int, rows: int) -> dict[str, Any]:
        return {"account": str(account.pk), "cell": number, "rows": rows}
