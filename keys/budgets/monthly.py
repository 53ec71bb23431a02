"""Monthly budgets: of an account, of its keys with a tag, or of the keys that a member created. Months are those of UTC.

``Account.has_budgets`` says whether an account has any: admissions of others read none. A request counts on the budgets that
fit its key when it is admitted, in that month. The tags are those of keys, which owners set: a caller could leave out its own.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.db.models.functions import Now

from billing import locks, money
from billing.models import Account
from gateway_project import errors
from gateway_project.db import pool
from gateway_project.db.pipelined_transaction import Statement
from gateway_project.text import dollars, timestamps
from keys.budgets.shared import SharedBudget
from keys.models import ApiKey, Budget

BUDGETS_MAX = 100  # in force, of an account: each admission reads them


@dataclass
class MonthState(SharedBudget):
    """A budget in the current month."""

    scope: str
    tag: str
    member_id: int | None
    month: date
    source: ClassVar[str] = "budget"
    advice: ClassVar[str] = "Sending it again does not help before. End here, or ask an owner to raise the budget."

    def __str__(self) -> str:
        of_what: dict[str, str] = {
            Budget.Scope.TAG: f"keys with the tag {self.tag!r}",
            Budget.Scope.MEMBER: "the keys of its member",
        }
        whose, ends = of_what.get(self.scope, "the account"), timestamps.in_words(self.resets_at)
        return f"monthly budget of {dollars.format_usd(self.limit_nanos)} of {whose}, which resets {ends},"

    @property
    def resets_at(self) -> datetime:
        return resets_at(self.month)

    def counts(self, key: ApiKey) -> bool:
        """Return whether requests of the key count on it."""
        if self.scope == Budget.Scope.TAG:
            return self.tag in (key.tags or ())
        return self.scope == Budget.Scope.ACCOUNT or self.member_id == key.created_by_id


def resets_at(month: date) -> datetime:
    """Return when a month ends that begins on this day."""
    return datetime.combine((month + timedelta(days=31)).replace(day=1), time.min, UTC)


def select_months_statement(account_ids: Collection[UUID], month: date) -> Statement:
    """SQL for ``build_months``. Run it with the accounts locked."""
    return Statement(
        """
        SELECT json_build_array(account_id, budget.amount_cents, coalesce(spent_nanos, 0), coalesce(held_nanos, 0), budget.id,
            action = 'STOP', scope, tag, member_id)
        FROM json_to_recordset($1::json) AS asked (id uuid, month date)
        JOIN keys_budget AS budget ON account_id = asked.id AND ended_at IS NULL
        LEFT JOIN keys_budgetmonth AS counted ON budget_id = budget.id AND counted.month = asked.month
        ORDER BY budget.id
        """,
        [{"id": account_id, "month": month} for account_id in account_ids],
    )


def build_months(rows: Iterable[Sequence[Any]], month: date) -> dict[UUID, list[MonthState]]:
    """Return the budgets in force of each account."""
    found: dict[UUID, list[MonthState]] = {}
    for account_id, cents, *others in rows:
        found.setdefault(UUID(account_id), []).append(MonthState(*(money.nanos(cents), *others, month)))
    return found


def set_budget(account: Account, *, amount_cents: int, action: str, **place: Any) -> Budget:
    """Set the one budget of a place, ``scope`` with ``tag`` or ``member``, from the next request on. Raises MaximumReached.

    A new one counts what is admitted from then on. A changed amount holds for this month, too. Must run in a transaction.
    """
    account = locks.lock_account(account.pk)
    place = {"scope": Budget.Scope.ACCOUNT, "tag": "", "member": None} | place
    in_force = account.budgets.filter(ended_at=None)
    values = {"amount_cents": amount_cents, "action": action}
    if in_force.filter(**place).update(**values):
        budget = in_force.get(**place)
        budget.months.filter(month=pool.database_time().date().replace(day=1)).update(amount_cents=amount_cents)
        return budget
    if in_force.count() >= BUDGETS_MAX:
        raise errors.MaximumReached(f"The account has {BUDGETS_MAX} budgets, which is its maximum. Remove one.")
    budget = account.budgets.create(**place, **values)
    _set_has_budgets(account)
    return budget


def end_budget(budget: Budget) -> None:
    """Let nothing count on it from the next request on. Must run in a transaction."""
    account = locks.lock_account(budget.account_id)
    account.budgets.filter(pk=budget.pk, ended_at=None).update(ended_at=Now())
    _set_has_budgets(account)


def _set_has_budgets(account: Account) -> None:
    account.has_budgets = account.budgets.filter(ended_at=None).exists()
    account.save(update_fields=["has_budgets"])
