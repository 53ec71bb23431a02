"""Settle what waits in the spool of this host. Safe while the gateway runs, and again."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from completions.charging import outbox, settlement
from completions.charging.outbox import Outcome
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Settle what waits on this host's disk since the database was away. Exits with 1 if something is left."

    def handle(self, *args: Any, **options: Any) -> None:
        found = outbox.drain(settlement.resolve, progress=self.say)
        facts = {
            "resolved": found[Outcome.RESOLVED],
            "resolvedBefore": found[Outcome.KNOWN],
            "setAside": found[Outcome.SET_ASIDE],
            "waiting": found[Outcome.WAITING],
        }
        self.answer(options, facts, "{resolved} settled, {resolvedBefore} were before.".format(**facts))
        if facts["setAside"] or facts["waiting"]:
            left = "{waiting} still wait, {setAside} were set aside as *.bad".format(**facts)
            raise CommandError(f"Not all of {settings.SPOOL_DIR} could be settled: {left}. The log says why.")
