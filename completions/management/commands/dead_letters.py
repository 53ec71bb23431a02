"""Lists the dead letters of this host, and books or discards them. Safe while the gateway runs, and safe to repeat."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from completions.charging.recovery import dead_letters
from completions.charging.recovery.dead_letters import DeadLetter, NotBooked
from gateway_project.operator_command import OperatorCommand
from gateway_project.text import dollars

_ALL = "all"


class Command(OperatorCommand):
    help = (
        "List the settlements on this host's disk that could not be applied; charge or delete them. Exits with 1 if one stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        chosen = parser.add_mutually_exclusive_group()
        chosen.add_argument("--book", nargs="+", metavar="COMPLETION", help="Charge these, or all of them.")
        chosen.add_argument("--discard", nargs="+", metavar="COMPLETION", help="Delete these, or all, without a charge.")

    def handle(self, *args: Any, **options: Any) -> None:
        letters = dead_letters.find()
        if options["book"]:
            self._book(_chosen(letters, options["book"]), options)
        elif options["discard"]:
            self._discard(_chosen(letters, options["discard"]), options)
        else:
            facts = {"deadLetters": [letter.facts() for letter in letters]}
            self.write_result(options, facts, "\n".join(map(_line, letters)) or "There are no dead letters.")

    def _book(self, letters: list[DeadLetter], options: dict[str, Any]) -> None:
        charged_nanos, reasons = {}, {}
        for letter in letters:
            try:
                charged_nanos[letter.completion_id] = dead_letters.book(letter)
            except NotBooked as reason:
                reasons[letter.completion_id] = str(reason)
        sentence = f"{len(charged_nanos)} booked, {dollars.format_usd(sum(charged_nanos.values()))}."
        self.write_result(options, {"booked": charged_nanos, "notBooked": reasons}, sentence)
        if reasons:
            raise CommandError("\n".join(f"{completion_id} stays: {reason}" for completion_id, reason in reasons.items()))

    def _discard(self, letters: list[DeadLetter], options: dict[str, Any]) -> None:
        for letter in letters:
            dead_letters.discard(letter)
        discarded = [letter.completion_id for letter in letters]
        self.write_result(options, {"discarded": discarded}, f"{len(discarded)} discarded. The log has what they said.")


def _chosen(letters: list[DeadLetter], completion_ids: list[str]) -> list[DeadLetter]:
    if completion_ids == [_ALL]:
        return letters
    found = {letter.completion_id: letter for letter in letters}
    if unknown := [each for each in completion_ids if each not in found]:
        raise CommandError(f"There is no such dead letter: {', '.join(unknown)}.")
    return [found[each] for each in completion_ids]


def _line(letter: DeadLetter) -> str:
    resolution = letter.resolution
    if resolution is None:
        return f"{letter.completion_id}: {letter.kind.value}"
    cost = dollars.format_usd(resolution.cost_nanos or 0)
    return f"{letter.completion_id}: {cost}, account {resolution.completion.account_id}, {letter.kind.value}"
