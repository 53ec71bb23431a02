"""Spending limits of keys: money is reserved at admission, and spent or given back at settlement.

A key has one row for each UTC day (``SpendingDay``). The window of its limit is the sum of the rows since the first day of the
window, so nothing is ever reset, and a changed limit, type or period applies at once to what was really spent.

``select_spending_statement`` is the only place that decides where a window begins, and whether a limit is raised for a time, by
the database's clock. The other statements write what was decided while the key was locked.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from operator import add
from typing import Any

import msgspec

from billing import money
from gateway_project import errors
from gateway_project.db import pipelined_transaction
from gateway_project.db.pipelined_transaction import Statement
from gateway_project.text import dollars, timestamps
from keys.limits.allowance import Allowance
from keys.models import ApiKey
from keys.spending_limit import PERIODS, SpendingPeriod

_UNITS = " ".join(f"WHEN '{name}' THEN '{period.unit}'" for name, period in PERIODS.items())


@dataclass
class SpendingWindow(Allowance):
    """A key's limit in its current window."""

    first_day: date
    resets_at: datetime | None

    def settle(self, change: "SpendingChange") -> None:
        """Replace what a completion held by what it spent. A day before the window changes nothing."""
        if change.day >= self.first_day:
            self.held_nanos -= change.held_nanos + change.provider_held_nanos
            self.spent_nanos += change.spent_nanos + change.provider_spent_nanos


def read_window(key: ApiKey) -> SpendingWindow | None:
    """Return the current window of the key's limit, or None without one."""
    return None if key.spending_limit_nanos is None else read_windows([key])[key.id]


def read_windows(keys: Collection[ApiKey]) -> dict[str, SpendingWindow | None]:
    """Return the current window of each key by key id, with one query and without locks."""
    return build_windows(keys, pipelined_transaction.execute(select_spending_statement([key.id for key in keys])))


def select_spending_statement(key_ids: Collection[str]) -> Statement:
    """For each of these keys: key id, open holds, and of the limit in force cents, first day, nanos spent and held since.

    Run it after the keys are locked; otherwise the sums may be older than the locks. The window of a FIXED limit begins with
    the first day that a Python date can be. Open holds are of today and yesterday, because no completion runs for a day.
    """
    return Statement(
        f"""
        SELECT json_build_array(
            counted.id, coalesce(sum(open_holds) FILTER (WHERE day >= yesterday), 0), limit_cents, first_day,
            coalesce(sum(spent_nanos + provider_spent_nanos) FILTER (WHERE day >= first_day), 0),
            coalesce(sum(held_nanos + provider_held_nanos) FILTER (WHERE day >= first_day), 0))
        FROM (
            SELECT id, (statement_timestamp() AT TIME ZONE 'UTC')::date - 1 AS yesterday,
                CASE WHEN raised_until > statement_timestamp() THEN raised_limit_cents ELSE spending_limit_cents END
                    AS limit_cents,
                CASE WHEN spending_limit_cents IS NOT NULL THEN coalesce(
                    date_trunc(CASE spending_period {_UNITS} END, statement_timestamp() AT TIME ZONE 'UTC')::date,
                    '0001-01-01') END AS first_day
            FROM keys_apikey
            WHERE id = ANY (ARRAY(SELECT json_array_elements_text($1::json)))
        ) AS counted
        LEFT JOIN keys_spendingday ON key_id = counted.id AND day >= least(first_day, yesterday)
        GROUP BY counted.id, limit_cents, first_day, yesterday
        """,  # noqa: S608  constants of this code
        list(key_ids),
    )


def build_open_holds(rows: Iterable[Sequence[Any]]) -> dict[str, int]:
    """Return how many holds each key has open, by key id, by rows of ``select_spending_statement``."""
    return {key_id: open_holds for key_id, open_holds, *_ in rows}


def build_windows(keys: Collection[ApiKey], rows: Iterable[Sequence[Any]]) -> dict[str, SpendingWindow | None]:
    """Return each key's window by key id, None for a key without a limit, by rows of ``select_spending_statement``.

    Rows of other keys are left out: those that another transaction has locked, which a batch skips.
    """
    by_id = {key.id: key for key in keys}
    windows: dict[str, SpendingWindow | None] = dict.fromkeys(by_id)
    for key_id, _, limit_cents, first, spent_nanos, held_nanos in rows:
        if limit_cents is not None and key_id in by_id:
            first_day = date.fromisoformat(first)
            reset = resets_at(by_id[key_id].spending_period, first_day)
            windows[key_id] = SpendingWindow(money.nanos(limit_cents), spent_nanos, held_nanos, first_day, reset)
    return windows


def resets_at(period: str | None, first_day: date) -> datetime | None:
    """Return when the window that begins on ``first_day`` ends, 00:00 UTC; None for a FIXED limit, which has no period."""
    if period is None:
        return None
    next_day = first_day + timedelta(days=PERIODS[period].days_max)
    if period == SpendingPeriod.MONTHLY:
        next_day = next_day.replace(day=1)
    return datetime.combine(next_day, time.min, UTC)


def require_available(window: SpendingWindow | None, need_nanos: int) -> None:
    """Refuse a request that does not fit its key's limit.

    Raises TiedUp (429) when it would fit without what running requests hold, otherwise SpendingLimitReached (402).
    """
    if window is None or window.available_nanos >= need_nanos:
        return
    held: dict[str, Any] = {"held_nanos": window.held_nanos, "first_day": window.first_day}
    if window.unspent_nanos >= need_nanos:
        message = "The key's spending limit is enough, but running requests hold it. Try again in a moment."
        raise errors.TiedUp(message, limit_source="key", **held)
    resets_at = timestamps.iso_millis(window.resets_at) if window.resets_at else None
    limit = f"key's spending limit of {dollars.format_usd(window.limit_nanos)}"
    need, left = dollars.format_usd(need_nanos), dollars.format_usd(window.unspent_nanos)
    message = f"This request may cost up to {need}, but the {limit} has only {left} left."
    message = message if window.unspent_nanos else f"The {limit} is reached."
    refusal = errors.SpendingLimitReached(message, resets_at=resets_at, **held)
    refusal.reached = window.reached(need_nanos, source="key", first_day=window.first_day, resets_at=window.resets_at)
    raise refusal


class SpendingChange(msgspec.Struct, frozen=True):
    """The change of a key's day by one completion, or by a batch: when holds are placed, or when they are resolved."""

    key_id: str
    day: date
    held_nanos: int
    holds: int = 1  # how many are placed, or resolved
    spent_nanos: int = 0
    completions: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    placed_nanos: int = 0  # of a day on which holds are resolved: what others that are placed add
    placed: int = 0  # how many
    provider_held_nanos: int = 0  # of own keys' providers: limits count it, the account does not
    provider_spent_nanos: int = 0


def change_spending_statements(settled: Sequence[SpendingChange], reserved: Sequence[SpendingChange]) -> list[Statement]:
    """Change the days by the holds that were resolved, and by those that were placed. Each row is written once."""
    ended, begun = _sum_by_day(settled) if settled else {}, _sum_by_day(reserved) if reserved else {}
    for key in ended.keys() & begun.keys():
        placed, before = begun.pop(key), ended[key]
        freed_nanos = before.provider_held_nanos - placed.provider_held_nanos
        more = {"placed_nanos": placed.held_nanos, "placed": placed.holds, "provider_held_nanos": freed_nanos}
        ended[key] = msgspec.structs.replace(before, **more)
    both = ((_settle_spending_statement, ended), (_reserve_spending_statement, begun))
    return [build(list(changes.values())) for build, changes in both if changes]


def _reserve_spending_statement(changes: list[SpendingChange]) -> Statement:
    """Add to the days; the first reservation of a day inserts its row."""
    return Statement(
        """
        INSERT INTO keys_spendingday
            (key_id, day, spent_nanos, held_nanos, open_holds, completions, prompt_tokens, completion_tokens,
            provider_held_nanos)
        SELECT key_id, day, 0, held_nanos, holds, 0, 0, 0, provider_held_nanos
        FROM json_to_recordset($1::json) AS change (key_id text, day date, held_nanos bigint, holds integer,
            provider_held_nanos bigint)
        ON CONFLICT (key_id, day) DO UPDATE SET held_nanos = keys_spendingday.held_nanos + EXCLUDED.held_nanos,
            provider_held_nanos = keys_spendingday.provider_held_nanos + EXCLUDED.provider_held_nanos,
            open_holds = keys_spendingday.open_holds + EXCLUDED.open_holds
        """,
        changes,
    )


def _settle_spending_statement(changes: list[SpendingChange]) -> Statement:
    """Subtract what was reserved on the days, and add the other amounts.

    The number of holds may be too low after an upgrade that older processes outlived: it stops at 0.
    """
    return Statement(
        """
        UPDATE keys_spendingday SET
            held_nanos = keys_spendingday.held_nanos - change.held_nanos + change.placed_nanos,
            open_holds = greatest(keys_spendingday.open_holds - change.holds, 0) + change.placed,
            spent_nanos = keys_spendingday.spent_nanos + change.spent_nanos,
            completions = keys_spendingday.completions + change.completions,
            prompt_tokens = keys_spendingday.prompt_tokens + change.prompt_tokens,
            completion_tokens = keys_spendingday.completion_tokens + change.completion_tokens,
            provider_held_nanos = keys_spendingday.provider_held_nanos - change.provider_held_nanos,
            provider_spent_nanos = keys_spendingday.provider_spent_nanos + change.provider_spent_nanos
        FROM json_to_recordset($1::json) AS change (key_id text, day date, held_nanos bigint, holds integer, spent_nanos bigint,
            completions bigint, prompt_tokens bigint, completion_tokens bigint, placed_nanos bigint, placed integer,
            provider_held_nanos bigint, provider_spent_nanos bigint)
        WHERE keys_spendingday.key_id = change.key_id AND keys_spendingday.day = change.day
        """,
        changes,
    )


_Day = tuple[str, date]  # a key's


def _sum_by_day(changes: Sequence[SpendingChange]) -> dict[_Day, SpendingChange]:
    """Return one change for each day of each key: ON CONFLICT refuses to touch a row twice."""
    days: dict[_Day, SpendingChange] = {}
    for change in changes:
        previous = days.get((change.key_id, change.day))
        days[change.key_id, change.day] = _add(previous, change) if previous else change
    return days


def _add(one: SpendingChange, other: SpendingChange) -> SpendingChange:
    (key_id, day, *amounts), (_, _, *more) = msgspec.structs.astuple(one), msgspec.structs.astuple(other)
    return SpendingChange(key_id, day, *map(add, amounts, more))
