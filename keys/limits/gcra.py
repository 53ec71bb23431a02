"""The generic cell rate algorithm (GCRA): limits per minute over one timestamp for each limit. Pure.

The timestamp ``full_at`` is when the whole allowance is available again. A minute's allowance may be used in one burst; then
it returns evenly, one unit at a time. A unit takes a minute divided by the limit, rounded up to a whole microsecond. The
allowance is ``limit`` units of that length, so exactly ``limit`` requests pass in a burst even if it does not divide a minute.

A request may cost more than was counted at its admission, even more than a whole allowance. The excess over an allowance is
``owed``: a number of units, which is paid back before anything is available again.

So no ``full_at`` is written further ahead than one allowance. One that is further ahead was written before the clock was set
back, and counts as no use at all: so that delays a limit by at most a minute. (One second more is accepted, because a reader
without the lock may have taken the time before the write.) A debt of units stays.
"""

from datetime import datetime, timedelta

import msgspec

MINUTE = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)
_UNLOCKED_READ = timedelta(seconds=1)
_OWED_MAX = 60  # allowances that may be owed, and that one correction may add or remove


class Decision(msgspec.Struct, frozen=True):
    """The result of one request for some units of a limit of ``limit`` units a minute."""

    limit: int
    allowed: bool
    full_at: datetime  # the new state if allowed; otherwise, when all that is used and owed is available again
    remaining: int
    resets_in: timedelta
    retry_in: timedelta | None  # None: it is allowed, or never will be, because the cost exceeds the limit


def decide(*, limit: int, full_at: datetime | None, now: datetime, cost: int = 1, owed: int = 0) -> Decision:
    """Decide whether ``cost`` more units fit now. If they do, nothing is owed afterwards. ``full_at`` None: nothing is used."""
    used = _used(now, limit, full_at, owed)
    wait = used + cost * _unit(limit) - _allowance(limit)
    allowed = wait <= timedelta(0)
    if allowed:
        used += cost * _unit(limit)
    retry_in = None if allowed or cost > limit else wait
    remaining = max(limit - -(-used // _unit(limit)), 0)
    return Decision(limit, allowed, now + used, remaining, used, retry_in)


def correct(*, limit: int, full_at: datetime | None, now: datetime, difference: int, owed: int = 0) -> tuple[datetime, int]:
    """Return ``full_at`` and ``owed`` after a request cost ``difference`` units more (or fewer) than was counted.

    Both are at most an hour's allowance: false figures of a provider must not block a key for years, nor overflow the time.
    """
    difference = max(min(difference, _OWED_MAX * limit), -_OWED_MAX * limit)
    used = max(_used(now, limit, full_at, owed) + difference * _unit(limit), timedelta(0))
    used = min(used, (1 + _OWED_MAX) * _allowance(limit))
    owed = max(-((_allowance(limit) - used) // _unit(limit)), 0)  # rounded up, so that full_at is within an allowance
    return now + used - owed * _unit(limit), owed


def _used(now: datetime, limit: int, full_at: datetime | None, owed: int) -> timedelta:
    ahead = full_at - now if full_at else timedelta(0)
    if ahead > _allowance(limit) + _UNLOCKED_READ:
        ahead = timedelta(0)
    return max(ahead + owed * _unit(limit), timedelta(0))


def _allowance(limit: int) -> timedelta:
    return limit * _unit(limit)


def _unit(limit: int) -> timedelta:
    return -(-(MINUTE // _MICROSECOND) // limit) * _MICROSECOND
