"""Check the invariants of the ledger. Read-only; safe while the gateway runs."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from billing.ledger import audit
from billing.ledger.audit import Violation
from billing.management import arguments
from billing.models import Account
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = (
        "Check the invariants of the ledger, of all accounts or of one. Exits with 1 and lists the violations if there are any."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--account", metavar="ID", help="Check this account only.")

    def handle(self, *args: Any, **options: Any) -> None:
        account_id = None if options["account"] is None else arguments.account_id("--account", options["account"])
        if account_id and not Account.objects.filter(pk=account_id).exists():
            raise CommandError(f"--account: there is no account {account_id}.")
        checked = len(audit.invariants(account_id))
        violations = audit.verify(account_id, progress=self.write_progress)
        facts = {"ok": not violations, "violations": list(map(_facts, violations)), "questions": checked}
        sentence = "\n".join(map(_lines, violations)) or f"The ledger is consistent: {checked} invariants hold."
        self.write_result(options, facts, sentence)
        if violations:
            raise CommandError(f"The ledger is not consistent: {len(violations)} of {checked} invariants are violated.")


def _facts(violation: Violation) -> dict[str, Any]:
    invariant = violation.invariant
    return {
        "question": invariant.name,
        "kind": invariant.kind,
        "invariant": invariant.sentence,
        "count": violation.count,
        "rows": violation.rows,
    }


def _lines(violation: Violation) -> str:
    rows = ["  " + ", ".join(f"{name}={value}" for name, value in row.items()) for row in violation.rows]
    return "\n".join([str(violation), *rows])
