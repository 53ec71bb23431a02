"""The generic cell rate algorithm (GCRA): limits per minute over one timestamp for each limit. Pure.

The timestamp ``full_at`` is when the whole allowance is available again. A minute's allowance may be used in one burst; then
it returns evenly, one unit at a time. A unit takes a minute divided by the limit, rounded up to a whole microsecond. The
allowance is ``limit`` units of that length, so exactly ``limit`` requests pass in a burst even if it does not divide a minute.

No state is written further ahead than ``bursts_max`` whole allowances. One that lies ahead of that by another allowance was
written before the clock was set back. It counts as no use at all: else the limit would refuse until the clock is there again.
The other allowance covers a caller who took the time before it waited for the row.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)
_CORRECTION_MAX = 60  # minutes of allowance that one correction may add or remove
CORRECTED_BURSTS_MAX = 1 + _CORRECTION_MAX  # how far ahead a state that is corrected may lie, in whole allowances


@dataclass(frozen=True)
class Decision:
    """The result of one request for some units of a limit of ``limit`` units a minute."""

    limit: int
    allowed: bool
    full_at: datetime  # the new state if allowed, otherwise the old one
    remaining: int
    resets_in: timedelta
    retry_in: timedelta | None  # None: it is allowed, or never will be, because the cost exceeds the limit


def decide(*, limit: int, full_at: datetime | None, now: datetime, cost: int = 1, bursts_max: int = 1) -> Decision:
    """Decide whether ``cost`` more units fit now, and return the state afterwards. ``full_at`` None: nothing is used.

    ``bursts_max`` is CORRECTED_BURSTS_MAX for a state that ``correct_full_at`` changes.
    """
    before = _state_at(now, limit, full_at, bursts_max)
    wait = before - now + cost * _unit(limit) - limit * _unit(limit)
    allowed = wait <= timedelta(0)
    state = before + cost * _unit(limit) if allowed else before
    retry_in = None if allowed or cost > limit else wait
    return Decision(limit, allowed, state, _remaining(limit, state - now), state - now, retry_in)


def correct_full_at(*, limit: int, full_at: datetime | None, now: datetime, difference: int) -> datetime:
    """Return the state after a request cost ``difference`` units more (or fewer) than was counted.

    A correction is at most an hour's allowance, and so are all together beyond a burst: false figures of an upstream must not
    block a key for years, nor overflow the datetime.
    """
    difference = max(min(difference, _CORRECTION_MAX * limit), -_CORRECTION_MAX * limit)
    corrected = _state_at(now, limit, full_at, CORRECTED_BURSTS_MAX) + difference * _unit(limit)
    return min(max(corrected, now), now + CORRECTED_BURSTS_MAX * limit * _unit(limit))


def _state_at(now: datetime, limit: int, full_at: datetime | None, bursts_max: int) -> datetime:
    if full_at is None or full_at - now > (bursts_max + 1) * limit * _unit(limit):
        return now
    return max(full_at, now)


def _unit(limit: int) -> timedelta:
    return -(-(MINUTE // _MICROSECOND) // limit) * _MICROSECOND


def _remaining(limit: int, used: timedelta) -> int:
    return max(limit - -(-used // _unit(limit)), 0)
