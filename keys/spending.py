"""What a key spends against its limit: reserved at admission, committed or released at settlement.

The writing functions need the key locked. The window of a limit is the sum of the key's days in it, so changing a limit,
its type or its period means what it says at once: the new limit applies to what was really spent in the new window.
"""

import math
from dataclasses import dataclass
from datetime import date, datetime

from django.db.models import F, Sum

from billing import money
from gateway_project import errors
from keys import periods
from keys.models import ApiKey, SpendingDay


@dataclass(frozen=True)
class Window:
    """A key's limit, and what of it is spent and held in the window that now is in."""

    limit_nanos: int
    spent_nanos: int
    held_nanos: int
    resets_at: datetime | None

    @property
    def unspent_nanos(self) -> int:
        """What is left when every running request should turn out free."""
        return max(self.limit_nanos - self.spent_nanos, 0)

    @property
    def available_nanos(self) -> int:
        """What a new request may still hold."""
        return max(self.limit_nanos - self.spent_nanos - self.held_nanos, 0)


def window(key: ApiKey, now: datetime) -> Window | None:
    """The window of the key's limit, or None when it has no limit."""
    if key.spending_limit_nanos is None:
        return None
    days = SpendingDay.objects.filter(key=key, day__gte=periods.first_day(key.spending_period, now.date()))
    sums = days.aggregate(spent=Sum("spent_nanos", default=0), held=Sum("held_nanos", default=0))
    return Window(
        limit_nanos=key.spending_limit_nanos,
        spent_nanos=int(sums["spent"]),
        held_nanos=int(sums["held"]),
        resets_at=periods.resets_at(key.spending_period, now.date()),
    )


def refusal(window: Window, need_nanos: int, now: datetime) -> errors.ApiError:
    """Why the window cannot hold ``need_nanos``: the limit is reached, or it is only tied up."""
    if window.unspent_nanos >= need_nanos:
        return errors.TiedUp("The key's spending limit would do, but running requests hold it. Try again in a moment.")
    headers = {}
    if window.resets_at:
        headers["Retry-After"] = str(math.ceil((window.resets_at - now).total_seconds()))
    return errors.SpendingLimitReached(
        f"The key's spending limit of ${money.dollars(window.limit_nanos)} is reached: ${money.dollars(window.spent_nanos)}"
        f" is spent and this request may cost up to ${money.dollars(need_nanos)}.",
        headers=headers,
    )


def reserve(key: ApiKey, *, day: date, amount_nanos: int) -> None:
    """Hold part of the key's window. The caller has checked the window under the same lock."""
    SpendingDay.objects.get_or_create(key=key, day=day)
    SpendingDay.objects.filter(key=key, day=day).update(held_nanos=F("held_nanos") + amount_nanos)


def commit(key: ApiKey, *, day: date, held_nanos: int, spent_nanos: int, prompt_tokens: int, completion_tokens: int) -> None:
    """Turn what was reserved into what was spent, and count the completion."""
    SpendingDay.objects.filter(key=key, day=day).update(
        held_nanos=F("held_nanos") - held_nanos,
        spent_nanos=F("spent_nanos") + spent_nanos,
        completions=F("completions") + 1,
        prompt_tokens=F("prompt_tokens") + prompt_tokens,
        completion_tokens=F("completion_tokens") + completion_tokens,
    )


def release(key: ApiKey, *, day: date, held_nanos: int) -> None:
    """Give back what was reserved."""
    SpendingDay.objects.filter(key=key, day=day).update(held_nanos=F("held_nanos") - held_nanos)
