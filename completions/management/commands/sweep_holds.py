"""Settle or give back what processes that died were holding. Safe while the gateway runs, and again."""

from typing import Any

from completions import tasks
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Settle or give back what processes that died were holding, as beat has it done every minute."

    def handle(self, *args: Any, **options: Any) -> None:
        resolved = tasks.release_expired_holds()
        self.answer(options, {"resolved": resolved}, f"{resolved} holds of processes that died are resolved.")
