from typing import Any

from completions.charging.recovery import journal
from completions.charging.recovery.journal import Found
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Compare this host's journal of charges with the database, and give the outbox what the database has lost."

    def handle(self, *args: Any, **options: Any) -> None:
        found = journal.replay(progress=self.write_progress)
        facts = {"settled": found[Found.SETTLED], "lost": found[Found.LOST], "deadLetters": found[Found.KEPT]}
        sentence = (
            f"{facts['settled']} charges are there, {facts['lost']} were lost and are in the outbox,"
            f" {facts['deadLetters']} are dead letters already, or discarded."
        )
        self.write_result(options, facts, sentence)
