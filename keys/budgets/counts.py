"""The SQL that counts holds and charges on runs and monthly budgets, under the locks of their accounts, and writes alerts."""

from collections.abc import Collection
from datetime import date, datetime
from functools import partial

import msgspec

from billing.models import AccountAlert
from gateway_project.db.pipelined_transaction import Statement
from keys.limits import limit_marks


class BudgetChange(msgspec.Struct, frozen=True):
    """The change of what counts a completion: when its hold is placed, and when it is resolved.

    Of a run that is new, ``deadline`` is that of its row. ``budgets`` has the ids of monthly budgets as names.
    """

    key_id: str
    run: str | None
    run_budget_nanos: int | None
    budgets: dict[str, int | None] | None
    day: date
    held_nanos: int
    spent_nanos: int = 0
    requests: int = 0
    deadline: datetime | None = None


_CHANGES = """json_to_recordset($1::json) AS change (key_id text, run text, run_budget_nanos bigint, budgets jsonb, day date,
    held_nanos bigint, spent_nanos bigint, requests bigint, deadline timestamptz)"""
_MONTHS = f"{_CHANGES} CROSS JOIN LATERAL jsonb_object_keys(budgets) AS budget_id"
_SUMS = "sum(held_nanos) AS held_nanos, sum(spent_nanos) AS spent_nanos, sum(requests) AS requests"
_INSERT_RUNS = f"""
    INSERT INTO keys_run (key_id, name, budget_nanos, deadline, spent_nanos, held_nanos, requests)
    SELECT key_id, run, run_budget_nanos, deadline, 0, 0, 0 FROM {_CHANGES} WHERE run IS NOT NULL
    ON CONFLICT DO NOTHING
    """  # noqa: S608  constants of this code
_UPDATE_RUNS = f"""
    UPDATE keys_run SET held_nanos = keys_run.held_nanos + change.held_nanos,
        spent_nanos = keys_run.spent_nanos + change.spent_nanos, requests = keys_run.requests + change.requests
    FROM (SELECT key_id, run, {_SUMS} FROM {_CHANGES} WHERE run IS NOT NULL GROUP BY key_id, run) AS change
    WHERE keys_run.key_id = change.key_id AND keys_run.name = change.run
    RETURNING keys_run.key_id, keys_run.name AS counted_id, keys_run.budget_nanos AS amount_nanos, keys_run.spent_nanos,
        change.spent_nanos AS more_nanos, NULL::bigint AS needed_nanos
    """  # noqa: S608  constants of this code
_INSERT_MONTHS = f"""
    INSERT INTO keys_budgetmonth (budget_id, month, amount_cents, spent_nanos, held_nanos)
    SELECT budget.id, date_trunc('month', day::timestamp)::date, amount_cents, 0, 0
    FROM {_MONTHS} JOIN keys_budget AS budget ON budget.id = budget_id
    ON CONFLICT DO NOTHING
    """  # noqa: S608  constants of this code
_UPDATE_MONTHS = f"""
    UPDATE keys_budgetmonth AS counted SET held_nanos = counted.held_nanos + change.held_nanos,
        spent_nanos = counted.spent_nanos + change.spent_nanos
    FROM (SELECT budget_id, date_trunc('month', day::timestamp)::date AS month, {_SUMS} FROM {_MONTHS} GROUP BY 1, 2) AS change
    WHERE counted.budget_id = change.budget_id AND counted.month = change.month
    RETURNING counted.budget_id AS counted_id, counted.month + interval '1 month' AS resets_at,
        counted.amount_cents * 10000000 AS amount_nanos, counted.spent_nanos, change.spent_nanos AS more_nanos,
        NULL::bigint AS needed_nanos
    """  # noqa: S608  constants of this code
_Kind = AccountAlert.Kind
_MONTH = "(resets_at - interval '1 month')::date"
tell_runs = partial(
    limit_marks.tell,
    tables="keys_apikey AS key ON key.id = key_id",
    told="'run', key_id, counted_id",
    facts="'run', counted_id, 'key_id', key_id, 'key_name', key.name, 'budget_nanos', amount_nanos",
    near=_Kind.RUN_NEAR_BUDGET,
    at=_Kind.RUN_AT_BUDGET,
)
tell_months = partial(
    limit_marks.tell,
    tables="""keys_budget AS budget ON budget.id = counted_id AND ended_at IS NULL
        LEFT JOIN billing_user AS member ON member.id = member_id""",
    told=f"'month', counted_id, {_MONTH}, amount_nanos",
    facts=f"""'budget_id', counted_id, 'scope', scope, 'tag', nullif(tag, ''), 'member', email, 'stops', action = 'STOP',
            'budget_nanos', amount_nanos, 'month', to_char({_MONTH}, 'YYYY-MM'), {limit_marks.RESETS_AT}""",
    near=_Kind.MONTH_NEAR_BUDGET,
    at=_Kind.MONTH_AT_BUDGET,
)
_TELL_RUNS, _TELL_MONTHS = tell_runs(_UPDATE_RUNS), tell_months(_UPDATE_MONTHS)


def statements(changes: Collection[BudgetChange]) -> list[Statement]:
    """Return the SQL that inserts what runs and months are new, and changes all. Each row is written once."""
    of_runs = any(change.run for change in changes)
    of_months = any(change.budgets for change in changes)
    sql = [_INSERT_RUNS, _TELL_RUNS] * of_runs + [_INSERT_MONTHS, _TELL_MONTHS] * of_months
    return [Statement(each, changes) for each in sql]
