"""Requests and tokens per minute: the generic cell rate algorithm over one timestamp a limit. Pure.

The timestamp says when the whole allowance will be back. A minute's allowance may be used in one burst, after which it
returns evenly: one unit every minute divided by the limit, up to the next whole microsecond. The allowance is that many units
of that length, so exactly the limit passes in a burst, whether or not the limit divides a minute.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)
_CORRECTION_MAX = 60  # minutes' allowances: however wrong a count was, and however wrong its correction


@dataclass(frozen=True)
class Decision:
    """What became of one request for ``cost`` units of a limit of ``limit`` a minute."""

    limit: int
    allowed: bool
    full_at: datetime  # the new state where allowed, the old one where not
    remaining: int
    resets_in: timedelta
    retry_in: timedelta | None  # None: allowed, or never allowed because the cost exceeds the limit itself


def decide(*, limit: int, full_at: datetime | None, now: datetime, cost: int = 1) -> Decision:
    """Whether ``cost`` more units fit, and the state afterwards."""
    before = max(full_at or now, now)
    wait = before - now + cost * _unit(limit) - limit * _unit(limit)
    allowed = wait <= timedelta(0)
    state = before + cost * _unit(limit) if allowed else before
    retry_in = None if allowed or cost > limit else wait
    return Decision(limit, allowed, state, _remaining(limit, state - now), state - now, retry_in)


def correct_full_at(*, limit: int, full_at: datetime | None, now: datetime, difference: int) -> datetime:
    """The state after finding that a request cost ``difference`` units more (or fewer) than was counted.

    Takes an hour's allowance at most: what an upstream claims must not lock a key for years, nor leave the calendar.
    """
    difference = max(min(difference, _CORRECTION_MAX * limit), -_CORRECTION_MAX * limit)
    return max(max(full_at or now, now) + difference * _unit(limit), now)


def _unit(limit: int) -> timedelta:
    return -(-(MINUTE // _MICROSECOND) // limit) * _MICROSECOND


def _remaining(limit: int, used: timedelta) -> int:
    return max(limit - -(-used // _unit(limit)), 0)
