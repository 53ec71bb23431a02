"""The SQL that writes an alert when a charge makes a run, or a month of a budget, reach 80 % or 100 % of its amount.

It is a part of the statement that counts the charge, so no crash comes between, and the lock of the account lets one charge at
a time cross a mark. Its id is made of what is told, so a correction that is crossed again tells nothing twice.
"""

from billing.models import AccountAlert

_Kind = AccountAlert.Kind
_CROSSED = """spent_nanos * 100::numeric >= amount_nanos * percent::numeric
        AND (spent_nanos - more_nanos) * 100::numeric < amount_nanos * percent::numeric"""
_AMOUNTS = "'percent', percent, 'budget_nanos', amount_nanos, 'spent_nanos', spent_nanos"


def tell_runs(update: str) -> str:
    """Return SQL that runs an ``update`` of runs by a table ``change``, and tells which reached a mark."""
    return f"""
        WITH changed AS ({update} RETURNING keys_run.key_id, keys_run.name AS run, keys_run.budget_nanos AS amount_nanos,
            keys_run.spent_nanos, change.spent_nanos AS more_nanos)
        INSERT INTO billing_accountwarning (id, account_id, kind, data)
        SELECT md5(concat_ws(' ', 'run', key_id, run, percent))::uuid, account_id, kind,
            jsonb_build_object('run', run, 'key_id', key_id, 'key_name', key.name, {_AMOUNTS})
        FROM changed JOIN keys_apikey AS key ON key.id = key_id
        CROSS JOIN (VALUES (80, '{_Kind.RUN_NEAR_BUDGET}'), (100, '{_Kind.RUN_AT_BUDGET}')) AS mark (percent, kind)
        WHERE {_CROSSED} ON CONFLICT DO NOTHING
        """  # noqa: S608  constants of this code


def tell_months(update: str) -> str:
    """Return SQL that runs an ``update`` of months as ``counted``, and tells which reached a mark, of budgets in force."""
    return f"""
        WITH changed AS ({update} RETURNING counted.budget_id, counted.month, counted.amount_cents * 10000000 AS amount_nanos,
            counted.spent_nanos, change.spent_nanos AS more_nanos)
        INSERT INTO billing_accountwarning (id, account_id, kind, data)
        SELECT md5(concat_ws(' ', 'month', budget_id, month, amount_nanos, percent))::uuid, account_id, kind,
            jsonb_build_object('budget_id', budget_id, 'scope', scope, 'tag', nullif(tag, ''), 'member', email,
                'month', to_char(month, 'YYYY-MM'), {_AMOUNTS}, 'stops', action = 'STOP',
                'resets_at', to_char(month + interval '1 month', 'YYYY-MM-DD"T00:00:00+00:00"'))
        FROM changed JOIN keys_budget AS budget ON budget.id = budget_id AND ended_at IS NULL
        LEFT JOIN billing_user AS member ON member.id = member_id
        CROSS JOIN (VALUES (80, '{_Kind.MONTH_NEAR_BUDGET}'), (100, '{_Kind.MONTH_AT_BUDGET}')) AS mark (percent, kind)
        WHERE {_CROSSED} ON CONFLICT DO NOTHING
        """  # noqa: S608  constants of this code
