from typing import Any

from completions.charging.recovery import sweeper
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Settle or release the holds of processes that died, as Celery's beat does every minute."

    def handle(self, *args: Any, **options: Any) -> None:
        resolved = sweeper.release_expired_holds()
        self.write_result(options, {"resolved": resolved}, f"{resolved} holds of processes that died are resolved.")
