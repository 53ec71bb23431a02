"""A spending limit. Forms, the API, the command, the CHECK of its columns and SQL have its rules from here."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from django.db import models
from django.db.models import Q

from billing import money
from gateway_project.text import dollars


class SpendingType(models.TextChoices):
    FIXED = "FIXED", "one-time limit"
    RECURRING = "RECURRING", "resets each period"


class SpendingPeriod(models.TextChoices):
    DAILY = "DAILY", "per day"
    WEEKLY = "WEEKLY", "per week"
    MONTHLY = "MONTHLY", "per month"


class Period(NamedTuple):
    """When a limit resets: its PostgreSQL unit of ``date_trunc``, its most days, and words."""

    unit: str
    days_max: int
    resets: str


PERIODS: dict[str, Period] = {
    SpendingPeriod.DAILY: Period("day", 1, "every day at 00:00 UTC"),
    SpendingPeriod.WEEKLY: Period("week", 7, "every Monday at 00:00 UTC"),
    SpendingPeriod.MONTHLY: Period("month", 31, "on the first of every month at 00:00 UTC"),
}


class Flaw(Enum):
    """Why an amount, a type and a period are no limit, in an operator's words."""

    NO_AMOUNT = "a type or period needs a spending limit"
    OUT_OF_RANGE = f"a spending limit is between 0 and {money.CENTS_MAX} cents"
    NO_TYPE = "a spending limit needs a type, FIXED or RECURRING"
    NO_PERIOD = "a RECURRING limit needs a period: DAILY, WEEKLY or MONTHLY"
    NEEDLESS_PERIOD = "a FIXED limit has no period"


def find_flaws(cents: int | None, type: str | None, period: str | None) -> list[Flaw]:
    """Return all that is wrong. A limit has an amount, a type and, if it is RECURRING, a period; without one all are None."""
    is_wrong = {
        Flaw.NO_AMOUNT: cents is None and (type, period) != (None, None),
        Flaw.OUT_OF_RANGE: cents is not None and not 0 <= cents <= money.CENTS_MAX,
        Flaw.NO_TYPE: cents is not None and type not in SpendingType.values,
        Flaw.NO_PERIOD: type == SpendingType.RECURRING and period not in PERIODS,
        Flaw.NEEDLESS_PERIOD: type == SpendingType.FIXED and period is not None,
    }
    return [flaw for flaw in Flaw if is_wrong[flaw]]


# The same for the columns. isnull stands beside each comparison: a CHECK accepts a condition that is NULL.
HAS_NO_FLAWS = (
    Q(spending_limit_cents__isnull=True, spending_type__isnull=True, spending_period__isnull=True)
    | Q(spending_limit_cents__isnull=False, spending_type__isnull=False, spending_type=SpendingType.FIXED.value)
    & Q(spending_period__isnull=True)
    | Q(spending_limit_cents__isnull=False, spending_type__isnull=False, spending_type=SpendingType.RECURRING.value)
    & Q(spending_period__isnull=False, spending_period__in=SpendingPeriod.values)
)


class InvalidLimit(ValueError):
    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.value)
        self.flaw = flaw


@dataclass(frozen=True)
class SpendingLimit:
    """A limit, or none. Raises InvalidLimit."""

    cents: int | None = None
    type: str | None = None
    period: str | None = None

    def __post_init__(self) -> None:
        if flaws := find_flaws(self.cents, self.type, self.period):
            raise InvalidLimit(flaws[0])

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of ``ApiKey``."""
        return {"spending_limit_cents": self.cents, "spending_type": self.type, "spending_period": self.period}

    @property
    def terms(self) -> str:
        return SpendingPeriod(self.period).label if self.period else "in total"

    @property
    def resets(self) -> str:
        """When it resets, in words; "" if it does not."""
        return PERIODS[self.period].resets if self.period else ""

    def __str__(self) -> str:
        """Return "$5.00 per day", "$5.00 in total", "no limit"."""
        return "no limit" if self.cents is None else f"{dollars.format_cents(self.cents)} {self.terms}"

    def is_lower(self, before: "SpendingLimit") -> bool:
        """Return whether a key plainly spends less than before: it had no limit, or a higher one of this type and period."""
        if self.cents is None or before.cents is None:
            return self.cents is not None
        return (self.type, self.period) == (before.type, before.period) and self.cents < before.cents


NO_LIMIT = SpendingLimit()
