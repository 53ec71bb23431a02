"""Invariants of keys, which ``billing.ledger.audit`` checks.

That a key's days are the sums of its completions is checked by ``completions.audit``, which has access to both.
"""

from billing.ledger.audit import Invariant, Reach

TABLES = {
    "key": "SELECT * FROM keys_apikey WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
    "day": "SELECT keys_spendingday.*, account_id FROM keys_spendingday JOIN key ON key.id = key_id",
}

LIMITS_ARE_WHOLE = Invariant(
    "limits_are_whole",
    "A key has no spending limit, or a FIXED one without a period, or a RECURRING one with a period.",
    """
    SELECT account_id, id AS key_id, spending_limit_cents, spending_type, spending_period FROM key WHERE NOT (
        spending_limit_cents IS NULL AND spending_type IS NULL AND spending_period IS NULL
        OR spending_limit_cents >= 0 AND coalesce(spending_type, '') = 'FIXED' AND spending_period IS NULL
        OR spending_limit_cents >= 0 AND coalesce(spending_type, '') = 'RECURRING'
            AND coalesce(spending_period, '') IN ('DAILY', 'WEEKLY', 'MONTHLY')
    )
    """,
)

A_DAY_IS_NEVER_NEGATIVE = Invariant(
    "a_day_is_never_negative",
    "Nothing that a key spent, holds or used on a day is negative, and nothing is spent or used without a completion.",
    """
    SELECT account_id, key_id, day, spent_nanos, held_nanos, completions, prompt_tokens, completion_tokens,
        provider_spent_nanos, provider_held_nanos FROM day
    WHERE least(spent_nanos, held_nanos, completions, prompt_tokens, completion_tokens, provider_spent_nanos,
            provider_held_nanos) < 0
        OR completions = 0 AND greatest(spent_nanos, prompt_tokens, completion_tokens, provider_spent_nanos) > 0
    """,
)

KEYS_SPEND_WITHIN_THEIR_ACCOUNT = Invariant(
    "keys_spend_within_their_account",
    "The keys of an account together hold and spent no more than the account did.",
    """
    SELECT account.id AS account_id, account.held_nanos, days.held_nanos AS held_by_keys_nanos,
        coalesce(span.debited_nanos, 0) + coalesce(debits.debited_nanos, 0) AS debited_nanos,
        days.spent_nanos AS spent_by_keys_nanos
    FROM account
    JOIN (SELECT account_id, sum(held_nanos) AS held_nanos, sum(spent_nanos) AS spent_nanos FROM day GROUP BY account_id)
        AS days ON days.account_id = account.id
    LEFT JOIN (SELECT account_id, -sum(amount_nanos) AS debited_nanos FROM entry WHERE type = 'USAGE_DEBIT' GROUP BY account_id)
        AS debits ON debits.account_id = account.id
    LEFT JOIN span ON span.account_id = account.id
    WHERE days.held_nanos > account.held_nanos
        OR days.spent_nanos > coalesce(span.debited_nanos, 0) + coalesce(debits.debited_nanos, 0)
    """,
    reach=Reach.OPEN,
)

INVARIANTS = [LIMITS_ARE_WHOLE, A_DAY_IS_NEVER_NEGATIVE, KEYS_SPEND_WITHIN_THEIR_ACCOUNT]
