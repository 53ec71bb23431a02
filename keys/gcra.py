"""The generic cell rate algorithm (GCRA): limits per minute over one timestamp for each limit. Pure.

The timestamp ``full_at`` is when the whole allowance is available again. A minute's allowance may be used in one burst; then
it returns evenly, one unit at a time. A unit takes a minute divided by the limit, rounded up to a whole microsecond. The
allowance is ``limit`` units of that length, so exactly ``limit`` requests pass in a burst even if it does not divide a minute.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)
_CORRECTION_MAX = 60  # minutes of allowance that one correction may add or remove


@dataclass(frozen=True)
class Decision:
    """The result of one request for some units of a limit of ``limit`` units a minute."""

    limit: int
    allowed: bool
    full_at: datetime  # the new state if allowed, otherwise the old one
    remaining: int
    resets_in: timedelta
    retry_in: timedelta | None  # None: it is allowed, or never will be, because the cost exceeds the limit


def decide(*, limit: int, full_at: datetime | None, now: datetime, cost: int = 1) -> Decision:
    """Decide whether ``cost`` more units fit now, and return the state afterwards. ``full_at`` None: nothing is used."""
    before = max(full_at or now, now)
    wait = before - now + cost * _unit(limit) - limit * _unit(limit)
    allowed = wait <= timedelta(0)
    state = before + cost * _unit(limit) if allowed else before
    retry_in = None if allowed or cost > limit else wait
    return Decision(limit, allowed, state, _remaining(limit, state - now), state - now, retry_in)


def correct_full_at(*, limit: int, full_at: datetime | None, now: datetime, difference: int) -> datetime:
    """Return the state after a request cost ``difference`` units more (or fewer) than was counted.

    A correction is at most an hour's allowance: a false figure of an upstream must not block a key for years, nor overflow
    the datetime.
    """
    difference = max(min(difference, _CORRECTION_MAX * limit), -_CORRECTION_MAX * limit)
    return max(max(full_at or now, now) + difference * _unit(limit), now)


def _unit(limit: int) -> timedelta:
    return -(-(MINUTE // _MICROSECOND) // limit) * _MICROSECOND


def _remaining(limit: int, used: timedelta) -> int:
    return max(limit - -(-used // _unit(limit)), 0)
