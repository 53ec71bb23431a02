from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from billing.accounts import lifecycle
from billing.facts import AUDIT
from billing.ledger import audit
from billing.management import arguments
from billing.models import Account
from gateway_project import errors
from gateway_project.db import cell
from gateway_project.monitoring.models import TaskRun
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = (
        "Check the invariants of the ledger, of all accounts or of one. Exits with 1 and lists the violations if there are any."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--account", metavar="ID", help="Check this account only.")

    def handle(self, *args: Any, **options: Any) -> None:
        account_id = None if options["account"] is None else arguments.account_id("--account", options["account"])
        if account_id:
            lifecycle.enter_cell(account_id)
            if not Account.objects.filter(pk=account_id).exists():
                raise CommandError(f"--account: there is no account {account_id}.")
        numbers = [cell.current()] if account_id else cell.numbers()
        checked, everywhere = len(audit.invariants(account_id)), f" in each of {len(numbers)} cells" if len(numbers) > 1 else ""
        violations = [(number, each) for number in numbers for each in self._verify(number, account_id)]
        if account_id is None:
            self._note(len(violations))
        facts = {"ok": not violations, "violations": [_facts(*each) for each in violations], "questions": checked}
        sentence = "\n".join(_lines(*each) for each in violations)
        self.write_result(options, facts, sentence or f"The ledger is consistent: {checked} invariants hold{everywhere}.")
        if violations:
            raise CommandError(f"The ledger is not consistent: {len(violations)} of {checked} invariants are violated.")

    def _note(self, violations: int) -> None:
        """Let this count as an audit for alerts and staff."""
        try:
            with cell.use(cell.FIRST):
                TaskRun.record(AUDIT, violations)
        except DatabaseError as error:  # of a standby, or with a role that only reads
            self.write_progress(f"The metrics are not told: {errors.reason(error)}")

    def _verify(self, number: int, account_id: UUID | None) -> list[audit.Violation]:
        with cell.use(number):
            if cell.are_several():
                self.write_progress(f"Cell {number}")
            return audit.verify(account_id, progress=self.write_progress)


def _facts(number: int, violation: audit.Violation) -> dict[str, Any]:
    invariant = violation.invariant
    where = {"cell": number} if cell.are_several() else {}
    return where | {
        "question": invariant.name,
        "kind": invariant.kind,
        "invariant": invariant.sentence,
        "count": violation.count,
        "rows": violation.rows,
    }


def _lines(number: int, violation: audit.Violation) -> str:
    rows = ["  " + ", ".join(f"{name}={value}" for name, value in row.items()) for row in violation.rows]
    where = f"Cell {number}: " if cell.are_several() else ""
    return "\n".join([f"{where}{violation}", *rows])
