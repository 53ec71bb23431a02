from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from completions.charging.recovery import drains
from completions.charging.recovery.drains import Outcome
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Settle what was stored on this host's disk while the database was unavailable. Exits with 1 if something is left."

    def handle(self, *args: Any, **options: Any) -> None:
        outcomes = drains.drain(progress=self.write_progress, waits_for_others=True)
        facts = {
            "resolved": outcomes[Outcome.RESOLVED],
            "alreadyResolved": outcomes[Outcome.ALREADY_RESOLVED],
            "deadLetters": outcomes[Outcome.DEAD_LETTER],
            "waiting": outcomes[Outcome.WAITING],
        }
        self.write_result(options, facts, "{resolved} settled, {alreadyResolved} were settled before.".format(**facts))
        if facts["deadLetters"] or facts["waiting"]:
            left = "{waiting} still wait, {deadLetters} became dead letters (*.dead)".format(**facts)
            raise CommandError(f"Not all of {settings.OUTBOX_DIR} could be settled: {left}. The log says why.")
