"""Books or discards dead letters: settlements on disk that could not be applied. An operator decides.

A completion that the database forgot is admitted again and settled (``owed``), as soon as its account can pay it. One whose
caller has sent the request again under its Idempotency-Key, and paid for that, is not booked.
"""

import json
import logging
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from msgspec import structs

from completions.charging.recovery import journal, outbox, owed, readmission, record
from completions.charging.resolution import Resolution
from gateway_project.cells import directory
from gateway_project.db import cell
from gateway_project.db.group_commit import Skipped

logger = logging.getLogger("gateway.outbox")


class Kind(Enum):
    FORGOTTEN = "the database forgot its admission"
    REPEATABLE = readmission.REPEATABLE
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


class NotBooked(Exception):
    """A dead letter that stays. The message says why."""


def find() -> list[DeadLetter]:
    """Return the dead letters of this host, oldest completion first. Raises the database's errors."""
    return [_open(path) for path in outbox.dead_letters()]


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


def book(letter: DeadLetter) -> int:
    """Charge a dead letter and delete its file. Return the nanodollars charged. Safe to repeat. Raises NotBooked."""
    resolution = letter.resolution
    if resolution is None or letter.kind is Kind.REPEATABLE:
        raise NotBooked(letter.kind.value)
    with resolution.in_its_cell():
        known_ids = [letter.completion_id] if letter.kind is Kind.KNOWN else []
        [outcome] = owed.settle_all([resolution], known_ids=known_ids)
    if isinstance(outcome, Skipped):
        raise NotBooked("another session locks its account")
    if not isinstance(outcome, int):
        raise NotBooked(str(outcome) if outcome else "its hold was resolved before")
    letter.path.unlink(missing_ok=True)
    return outcome


def discard(letter: DeadLetter) -> None:
    """Delete the file. The log keeps what it said, and no journal gives it back."""
    facts = letter.facts()
    logger.warning("%s is discarded: %s", letter.path.name, json.dumps(facts), extra={"completion": letter.completion_id})
    journal.discard(letter.completion_id)
    letter.path.unlink(missing_ok=True)
