"""Lists the dead letters of this host, settlements on disk that could not be applied, and books or discards them.

A completion that the database forgot is admitted again and settled (``owed``), as soon as its account can pay it. One whose
caller has sent the request again under its Idempotency-Key, and paid for that, is not booked. Safe while the gateway runs, and
safe to repeat.
"""

import json
import logging
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from msgspec import structs

from completions.charging.recovery import journal, outbox, owed, record
from completions.charging.resolution import Resolution
from gateway_project.cells import directory
from gateway_project.db import cell
from gateway_project.db.group_commit import Skipped
from gateway_project.operator_command import OperatorCommand
from gateway_project.text import dollars

logger = logging.getLogger("gateway.outbox")

_ALL = "all"


class Kind(Enum):
    FORGOTTEN = "the database forgot its admission"
    REPEATABLE = owed.REPEATABLE
    KNOWN = "the database knows it: its hold is open, or was resolved otherwise"
    UNREADABLE = "the file cannot be read"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    path: Path
    kind: Kind
    resolution: Resolution | None = None

    @property
    def completion_id(self) -> str:
        return self.path.stem

    def facts(self) -> dict[str, Any]:
        """Return what an operator decides by, for JSON."""
        found = {"completion": self.completion_id, "kind": self.kind.name.lower()}
        if self.resolution is None:
            return found
        completion, usage = self.resolution.completion, self.resolution.usage
        return found | {
            "account": str(completion.account_id),
            "key": completion.key_id,
            "model": self.resolution.served_by.model_id,
            "admittedAt": completion.created_at.isoformat(),
            "settlement": str(self.resolution.settlement),
            "usage": structs.asdict(usage) if usage else None,
            "costNanos": self.resolution.cost_nanos,
        }

    def __str__(self) -> str:
        if self.resolution is None:
            return f"{self.completion_id}: {self.kind.value}"
        cost, account_id = dollars.format_usd(self.resolution.cost_nanos or 0), self.resolution.account_id
        return f"{self.completion_id}: {cost}, account {account_id}, {self.kind.value}"


class Command(OperatorCommand):
    help = (
        "List the settlements on this host's disk that could not be applied; charge or delete them. Exits with 1 if one stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        chosen = parser.add_mutually_exclusive_group()
        chosen.add_argument("--book", nargs="+", metavar="COMPLETION", help="Charge these, or all of them.")
        chosen.add_argument("--discard", nargs="+", metavar="COMPLETION", help="Delete these, or all, without a charge.")

    def handle(self, *args: Any, **options: Any) -> None:
        letters = [_open(path) for path in outbox.dead_letters()]  # oldest completion first
        if options["book"]:
            self._book(_chosen(letters, options["book"]), options)
        elif options["discard"]:
            discarded = [_discard(letter) for letter in _chosen(letters, options["discard"])]
            self.write_result(options, {"discarded": discarded}, f"{len(discarded)} discarded. The log has what they said.")
        else:
            facts = {"deadLetters": [letter.facts() for letter in letters]}
            self.write_result(options, facts, "\n".join(map(str, letters)) or "There are no dead letters.")

    def _book(self, letters: list[DeadLetter], options: dict[str, Any]) -> None:
        outcomes = {letter.completion_id: _charge(letter) for letter in letters}
        charged_nanos = {id: outcome for id, outcome in outcomes.items() if isinstance(outcome, int)}
        reasons = {id: outcome for id, outcome in outcomes.items() if isinstance(outcome, str)}
        sentence = f"{len(charged_nanos)} booked, {dollars.format_usd(sum(charged_nanos.values()))}."
        self.write_result(options, {"booked": charged_nanos, "notBooked": reasons}, sentence)
        if reasons:
            raise CommandError("\n".join(f"{completion_id} stays: {reason}" for completion_id, reason in reasons.items()))


def _chosen(letters: list[DeadLetter], completion_ids: list[str]) -> list[DeadLetter]:
    if completion_ids == [_ALL]:
        return letters
    found = {letter.completion_id: letter for letter in letters}
    if unknown := [each for each in completion_ids if each not in found]:
        raise CommandError(f"There is no such dead letter: {', '.join(unknown)}.")
    return [found[each] for each in completion_ids]


def _open(path: Path) -> DeadLetter:
    with cell.use(directory.find_again(record.account_of(path))):
        row = owed.find_rows([path.stem]).get(path.stem)
    try:
        resolution = record.load(path, row)
    except (record.Unreadable, OSError):
        return DeadLetter(path, Kind.UNREADABLE)
    if row:
        return DeadLetter(path, Kind.KNOWN, resolution)
    is_key_unknown = resolution.reply_retention and not resolution.reply_retention.key  # in files of earlier releases
    return DeadLetter(path, Kind.REPEATABLE if is_key_unknown else Kind.FORGOTTEN, resolution)


def _charge(letter: DeadLetter) -> int | str:
    """Charge a dead letter and delete its file. Return the nanodollars charged, or why it stays. Safe to repeat."""
    resolution = letter.resolution
    if resolution is None or letter.kind is Kind.REPEATABLE:
        return letter.kind.value
    with resolution.in_its_cell():
        known_ids = [letter.completion_id] if letter.kind is Kind.KNOWN else []
        [outcome] = owed.settle_all([resolution], known_ids=known_ids)
    if isinstance(outcome, Skipped):
        return "another session locks its account"
    if not isinstance(outcome, int):
        return str(outcome) if outcome else "its hold was resolved before"
    letter.path.unlink(missing_ok=True)
    return outcome


def _discard(letter: DeadLetter) -> str:
    """Delete the file. The log keeps what it said, and no journal gives it back. Return the id of the completion."""
    facts = letter.facts()
    logger.warning("%s is discarded: %s", letter.path.name, json.dumps(facts), extra={"completion": letter.completion_id})
    journal.discard(letter.completion_id)
    letter.path.unlink(missing_ok=True)
    return letter.completion_id
