from typing import Any

from billing.proof import signing
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Make a new key that signs the roots of the ledger from the next hour on."

    def handle(self, *args: Any, **options: Any) -> None:
        key = signing.make_key()
        self.write_result(options, {"key": key.pk}, f"The key {key.pk} signs from now on.")
