"""The audit's invariants of completions (``billing.audit`` runs them): completions, holds and keys' spending days agree."""

from billing.audit import Invariant, SharedQuery
from keys.audit import KEY_TABLES

COMPLETION_TABLES = {
    **KEY_TABLES,
    "completion": "SELECT * FROM completions_completion WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
}

# Each completion with its key and with the hold under its id, of whatever account.
ADMITTED = SharedQuery(
    """
    SELECT completion.account_id, completion.id AS completion_id, key_id, keys_apikey.account_id AS key_account_id,
        billing_hold.account_id AS hold_account_id, settlement, state, cost_nanos, settled_nanos
    FROM completion
    JOIN keys_apikey ON keys_apikey.id = completion.key_id
    LEFT JOIN billing_hold ON billing_hold.reference = completion.id
    """,
    COMPLETION_TABLES,
)

COMPLETIONS_ARE_THEIR_ACCOUNTS = ADMITTED.invariant(
    "completions_are_their_accounts",
    "A completion belongs to the account of its key and has a hold there.",
    shows="account_id, completion_id, key_id, key_account_id, hold_account_id",
    breaks="key_account_id <> account_id OR hold_account_id IS DISTINCT FROM account_id",
)

COMPLETIONS_END_AS_THEIR_HOLDS_DO = ADMITTED.invariant(
    "completions_end_as_their_holds_do",
    "A completion runs while its hold is open, and then says how the hold was resolved and what was settled.",
    shows="account_id, completion_id, settlement, state, cost_nanos, settled_nanos",
    breaks="""
    state IS NOT NULL AND coalesce(cost_nanos, 0) <> coalesce(settled_nanos, 0) OR state <> CASE
        WHEN settlement IS NULL THEN 'HELD'
        WHEN settlement = 'released' THEN 'RELEASED'
        WHEN settlement = 'expired' THEN 'EXPIRED'
        ELSE 'SETTLED'
    END
    """,
)

COMPLETIONS_ARE_BOOKED_AS_USED = Invariant(
    "completions_are_booked_as_used",
    "The usage entry of a completion names its model, its tokens and its key.",
    """
    SELECT completion.account_id, completion.id AS completion_id, model_id, prompt_tokens, completion_tokens, key_id, metadata,
        spender
    FROM completion JOIN entry ON entry.reference = completion.id AND entry.type = 'USAGE_DEBIT'
    WHERE (metadata ->> 'model', metadata ->> 'promptTokens', metadata ->> 'completionTokens', spender)
        IS DISTINCT FROM (model_id::text, prompt_tokens::text, completion_tokens::text, key_id::text)
    """,
    tables=COMPLETION_TABLES,
)

DAYS_ARE_THE_SUM_OF_THEIR_COMPLETIONS = Invariant(
    "days_are_the_sum_of_their_completions",
    "What a key holds, spent and used on a day is the sum of what its completions of that day hold, cost and used.",
    """
    SELECT key_id, day, says, sums FROM (
        SELECT key_id, day, jsonb_build_object('held', held_nanos, 'spent', spent_nanos, 'completions', completions,
            'prompt_tokens', prompt_tokens, 'completion_tokens', completion_tokens) AS says
        FROM day
        WHERE (held_nanos, spent_nanos, completions, prompt_tokens, completion_tokens) <> (0, 0, 0, 0, 0)
    ) AS days FULL JOIN (
        SELECT key_id, spending_day AS day, jsonb_build_object(
            'held', coalesce(sum(amount_nanos) FILTER (WHERE state = 'HELD'), 0),
            'spent', coalesce(sum(settled_nanos), 0),
            'completions', count(*) FILTER (WHERE state = 'SETTLED'),
            'prompt_tokens', coalesce(sum(prompt_tokens) FILTER (WHERE state = 'SETTLED'), 0),
            'completion_tokens', coalesce(sum(completion_tokens) FILTER (WHERE state = 'SETTLED'), 0)) AS sums
        FROM completion JOIN hold ON hold.reference = completion.id
        WHERE state IN ('HELD', 'SETTLED')
        GROUP BY key_id, spending_day
    ) AS used USING (key_id, day)
    WHERE says IS DISTINCT FROM sums
        AND NOT (says IS NULL AND (sums ->> 'held')::numeric = 0 AND (sums ->> 'completions')::numeric = 0)
    """,
    tables=COMPLETION_TABLES,
)

# Running sums in the order of admission, less what was spent before the window, so that no completion is compared with each
# other one. The completions of a batch share a time: any order among them fits, if one does. A hold that is still open was open
# then, too. A completion that holds nothing, as of a free model, is admitted even if the limit was lowered below the spending.
ADMISSIONS_FIT_THEIR_LIMITS = Invariant(
    "admissions_fit_their_limits",
    "A completion's hold, and the cost of those before it in its key's window, fit the limit that the key had then.",
    """
    WITH limited AS NOT MATERIALIZED (
        SELECT DISTINCT key_id, limit_since FROM completion WHERE limit_nanos IS NOT NULL
    ), opening AS (
        SELECT key_id, day AS limit_since, sum(sum(nanos)) OVER (PARTITION BY key_id ORDER BY day) - sum(nanos) AS before_nanos
        FROM (
            SELECT key_id, spending_day AS day, sum(coalesce(running.amount_nanos, cost_nanos, 0)) AS nanos
            FROM completion LEFT JOIN (SELECT * FROM hold WHERE state = 'HELD') AS running ON running.reference = id
            GROUP BY key_id, spending_day
            UNION ALL
            SELECT key_id, limit_since, 0 FROM limited
        ) AS days
        GROUP BY key_id, day
    ), in_turn AS (
        SELECT completion.account_id, id AS completion_id, key_id, limit_nanos, limit_since, amount_nanos,
            sum(CASE state WHEN 'HELD' THEN amount_nanos ELSE cost_nanos END) OVER (
                PARTITION BY key_id ORDER BY completion.created_at, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before_nanos
        FROM completion LEFT JOIN hold ON hold.reference = id
        WHERE key_id IN (SELECT key_id FROM limited)
    ), admission AS (
        SELECT account_id, completion_id, key_id, limit_nanos, limit_since, amount_nanos AS held_nanos,
            coalesce(in_turn.before_nanos, 0) - coalesce(opening.before_nanos, 0) AS used_nanos
        FROM in_turn LEFT JOIN opening USING (key_id, limit_since)
    )
    SELECT * FROM admission WHERE held_nanos > 0 AND used_nanos + held_nanos > limit_nanos
    """,
    tables=COMPLETION_TABLES,
)

INVARIANTS = [
    COMPLETIONS_ARE_THEIR_ACCOUNTS,
    COMPLETIONS_END_AS_THEIR_HOLDS_DO,
    COMPLETIONS_ARE_BOOKED_AS_USED,
    DAYS_ARE_THE_SUM_OF_THEIR_COMPLETIONS,
    ADMISSIONS_FIT_THEIR_LIMITS,
]
