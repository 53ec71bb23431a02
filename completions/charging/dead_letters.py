"""Books or discards dead letters: settlements on disk that could not be applied (``outbox``). An operator decides.

A completion that a crash of the database forgot has no hold that could be settled. ``book`` admits it again, holding exactly
what it costs, and settles it. It was admitted within its key's limits once: they are not asked again, but its cost counts in
them. One with an Idempotency-Key is not booked: its caller may have sent the request again, and paid for that.
"""

import json
import logging
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from completions.charging import batch, outbox, settlement
from completions.charging.batch import AdmissionLost, CompletionOperation, LockedRows
from completions.charging.records import CompletionRecord
from completions.charging.resolution import Resolution
from gateway_project import errors

logger = logging.getLogger("gateway.outbox")

_HOLD_LIFETIME = timedelta(minutes=5)  # it is settled at once; if that fails, the sweeper releases it


class Kind(Enum):
    FORGOTTEN = "the database forgot its admission"
    REPEATABLE = "the database forgot its admission, and its caller may have repeated it under its Idempotency-Key"
    KNOWN = "the database knows it: its hold is open, or was resolved otherwise"
    UNREADABLE = "the file cannot be read"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A file, and the resolution in it unless it is unreadable."""

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
            "usage": asdict(usage) if usage else None,
            "costNanos": self.resolution.cost_nanos,
        }


class NotBooked(Exception):
    """A dead letter that stays. The message says why."""


def find() -> list[DeadLetter]:
    """Return the dead letters of this host, oldest completion first. Raises the database's errors."""
    return [_open(path) for path in outbox.dead_letters()]


def _open(path: Path) -> DeadLetter:
    try:
        return DeadLetter(path, Kind.KNOWN, outbox.load(path))
    except AdmissionLost:
        pass
    except (outbox.Unreadable, OSError):
        return DeadLetter(path, Kind.UNREADABLE)
    try:
        resolution = outbox.load_forgotten(path)
    except (outbox.Unreadable, OSError):
        return DeadLetter(path, Kind.UNREADABLE)
    return DeadLetter(path, Kind.REPEATABLE if resolution.reply_retention else Kind.FORGOTTEN, resolution)


def book(letter: DeadLetter) -> int:
    """Charge a dead letter and delete its file. Return the nanodollars charged. Raises NotBooked, or the database's errors.

    Safe to repeat, also after a failure in the middle of it.
    """
    resolution = letter.resolution
    if resolution is None or letter.kind is Kind.REPEATABLE:
        raise NotBooked(letter.kind.value)
    if letter.kind is Kind.FORGOTTEN:
        resolution = replace(resolution, completion=_readmit(resolution))
    charged_nanos = settlement.resolve(resolution)
    if charged_nanos is None:
        raise NotBooked("its hold was resolved before")
    letter.path.unlink(missing_ok=True)
    return charged_nanos


def discard(letter: DeadLetter) -> None:
    """Delete the file. The log keeps what it said."""
    facts = letter.facts()
    logger.warning("%s is discarded: %s", letter.path.name, json.dumps(facts), extra={"completion": letter.completion_id})
    letter.path.unlink(missing_ok=True)


def _readmit(resolution: Resolution) -> CompletionRecord:
    usage = resolution.usage
    tokens = usage.prompt_tokens + usage.completion_tokens if usage else 0
    try:
        readmitted: CompletionRecord = batch.commit(_Readmission(resolution.completion, resolution.cost_nanos or 0, tokens))
    except (errors.ApiError, AdmissionLost) as error:
        raise NotBooked(str(error)) from error
    return readmitted


@dataclass(frozen=True, slots=True)
class _Readmission(CompletionOperation):
    """Admits a forgotten completion again, as of now, with a hold of what it costs. ``tokens`` is what it used."""

    completion: CompletionRecord
    amount_nanos: int
    tokens: int
    is_settlement = False
    had_spending_limit = False

    def decide(self, rows: LockedRows) -> CompletionRecord:
        """Return the completion as it is admitted now. Raises InsufficientQuota, TiedUp, or AdmissionLost."""
        if self.completion_id in rows.holds:
            return CompletionRecord.from_row(rows.completions[self.completion_id])
        if self.account_id not in rows.accounts or self.key_id not in rows.keys:
            raise AdmissionLost("the database knows no such account or key")
        # No limit, because none was asked; and the tokens that it used, so that its settlement corrects nothing.
        completion = replace(
            self.completion,
            spending_day=rows.now.date(),
            counted_tokens=self.tokens,
            limit_nanos=None,
            limit_since=None,
            created_at=rows.now,
        )
        rows.begin(completion, self.amount_nanos, _HOLD_LIFETIME)
        return completion
