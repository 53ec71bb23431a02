from dataclasses import dataclass


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
