"""Requests and tokens per minute: the generic cell rate algorithm over one timestamp a limit. Pure.

The timestamp says when the whole allowance will be back. A minute's allowance may be used in one burst, after which it
returns evenly. In whole microseconds; what does not divide is rounded against the burst, so no more than the limit passes.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)


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
    after = before + _cost(limit, cost)
    allowed = after - now <= MINUTE
    state = after if allowed else before
    retry_in = None if allowed or cost > limit else after - now - MINUTE
    return Decision(limit, allowed, state, _remaining(limit, state - now), state - now, retry_in)


def correct(*, limit: int, full_at: datetime | None, now: datetime, difference: int) -> datetime:
    """The state after finding that a request cost ``difference`` units more (or fewer) than was counted."""
    state = max(full_at or now, now)
    return max(state + _cost(limit, difference), now)


def _cost(limit: int, units: int) -> timedelta:
    return -(-units * (MINUTE // _MICROSECOND) // limit) * _MICROSECOND


def _remaining(limit: int, used: timedelta) -> int:
    return max((MINUTE - used) * limit // MINUTE, 0)
