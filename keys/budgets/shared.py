"""A budget of several requests while a batch decides: what is left, and the refusal."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from gateway_project import errors
from gateway_project.text import dollars, timestamps
from keys.limits.allowance import Allowance


@dataclass
class SharedBudget(Allowance):
    """A budget in force. Its string is its name: "budget of $2.50 of the run nightly"."""

    id: str
    stops: bool
    source: ClassVar[str]  # what refusals name: run or budget
    advice: ClassVar[str]

    @property
    def resets_at(self) -> datetime | None:
        return None

    def require_available(self, need_nanos: int) -> None:
        """Raises TiedUp (429) when it would fit without what running requests hold, otherwise BudgetExceeded (402)."""
        if self.available_nanos >= need_nanos:
            return
        if self.unspent_nanos >= need_nanos:
            raise self.refusal(errors.TiedUp, f"The {self} is enough, but running requests hold it. Try again in a moment.")
        left, need = dollars.format_usd(self.unspent_nanos), dollars.format_usd(need_nanos)
        refusal = self.refusal(errors.BudgetExceeded, f"The {self} has {left} left, and this request may cost up to {need}.")
        refusal.reached = self.reached(need_nanos, source=self.source, counted_id=self.id, resets_at=self.resets_at)
        raise refusal

    def refusal(self, error: type[errors.MoneyRefused], message: str) -> errors.MoneyRefused:
        resets_at = timestamps.iso_millis(self.resets_at) if self.resets_at else None
        message = f"{message} {self.advice}" if error is errors.BudgetExceeded else message
        refusal = error(message, limit_source=self.source, held_nanos=self.held_nanos, resets_at=resets_at)
        refusal.counted_id = self.id
        amounts = {"budget": self.limit_nanos, "left": self.available_nanos}
        refusal.details = {**(refusal.details or {}), f"{self.source}_id": self.id} | {
            name: dollars.format_plain(nanos) for name, nanos in amounts.items()
        }
        return refusal
