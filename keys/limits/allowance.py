from dataclasses import dataclass
from typing import Any

NEAR_PERCENT = 80  # spent of an amount: alerts are written


@dataclass
class Allowance:
    """An amount, and what is spent and held of it. A batch keeps it up to date while it decides."""

    limit_nanos: int
    spent_nanos: int
    held_nanos: int

    @property
    def unspent_nanos(self) -> int:
        """The money that would be left if every running request turned out free."""
        return max(self.limit_nanos - self.spent_nanos, 0)

    @property
    def available_nanos(self) -> int:
        """The money that a new request may still hold."""
        return max(self.limit_nanos - self.spent_nanos - self.held_nanos, 0)

    def reached(self, need_nanos: int, **place: Any) -> dict[str, Any] | None:
        """Return what ``limit_marks.tell`` takes of a refusal. Before 80 % is spent, only an enormous request does not fit."""
        if not self.limit_nanos * NEAR_PERCENT <= self.spent_nanos * 100 < self.limit_nanos * 100:
            return None
        amounts = {"amount_nanos": self.limit_nanos, "spent_nanos": self.spent_nanos}
        return {**place, **amounts, "more_nanos": need_nanos, "needed_nanos": need_nanos}
