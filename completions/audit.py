"""Invariants of completions, which ``billing.ledger.audit`` checks: completions, holds and keys' spending days agree."""

from billing import money
from billing.ledger.audit import Invariant, Reach, SharedQuery, dollars_sql, guarding
from completions.pricing import meters, rates_sql

TABLES = {
    "idempotent_request": "SELECT * FROM completions_idempotentrequest"
    " WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
    "stored_response": "SELECT account_id, stored_bytes FROM completions_storedresponse"
    " WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
    # The amount that the sweeper's estimates charged too much, given back when the settlement came.
    "overcharge": "SELECT account_id, metadata ->> 'completionId' AS completion_id, reference, amount_nanos AS returned_nanos"
    " FROM billing_ledgerentry WHERE NOT (type = 'USAGE_DEBIT') AND reference LIKE 'overcharge:%%'"
    " AND (%(account)s::uuid IS NULL OR account_id = %(account)s::uuid)",
    "budget_month": """
        SELECT counted.*, account_id FROM keys_budgetmonth AS counted JOIN keys_budget ON keys_budget.id = budget_id
        WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid""",
    "completion": "SELECT * FROM completions_completion WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
    # After completions, because of days only those are read that completions name.
    "run": "SELECT keys_run.*, account_id FROM keys_run JOIN key ON key.id = key_id",
    "usage": "SELECT * FROM completions_usagehour WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
    "label": """
        SELECT account_id, (hour AT TIME ZONE 'UTC')::date AS day, name, value, requests, errors, cost_nanos, prompt_tokens,
            completion_tokens FROM completions_labelhour WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid
        UNION ALL
        SELECT account_id, day, name, value, requests, errors, cost_nanos, prompt_tokens,
            completion_tokens FROM completions_labelday WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid""",
    "mark": "SELECT * FROM completions_usagemark WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
    "debit": """SELECT entry.*, date_trunc('hour', created_at, 'UTC') AS hour,
        CASE jsonb_typeof(metadata -> 'promptTokens') WHEN 'number' THEN (metadata ->> 'promptTokens')::numeric END
            AS prompt_tokens,
        CASE jsonb_typeof(metadata -> 'completionTokens') WHEN 'number' THEN (metadata ->> 'completionTokens')::numeric END
            AS completion_tokens
        FROM (SELECT * FROM entry UNION ALL SELECT * FROM late) AS entry
        JOIN mark ON mark.account_id = entry.account_id AND seq <= mark.last_seq WHERE type = 'USAGE_DEBIT'""",
}

DAY_TABLES = {
    "completion": """
        SELECT * FROM completions_completion WHERE id >= %(since_id)s AND id < %(until_id)s
        UNION ALL SELECT * FROM completions_completion WHERE id = ANY(%(late_ids)s)""",
    "run": """SELECT keys_run.*, keys_apikey.account_id FROM keys_run JOIN keys_apikey ON keys_apikey.id = key_id
        WHERE (key_id, keys_run.name) IN (SELECT key_id, run FROM completion WHERE run IS NOT NULL)""",
    "budget_month": """
        SELECT counted.*, account_id FROM keys_budgetmonth AS counted JOIN keys_budget ON keys_budget.id = budget_id
        WHERE month < %(until)s AND month > %(since)s::date - 31""",
    "usage": """
        SELECT usage.* FROM span JOIN completions_usagehour AS usage ON usage.account_id = span.account_id
            AND hour >= %(since)s::timestamp AT TIME ZONE 'UTC' AND hour < %(until)s::timestamp AT TIME ZONE 'UTC'""",
}
# Corrections count on the day of what they correct.
LATE_IDS = [
    "SELECT id FROM completions_completion WHERE repeats IS NOT NULL"
    " AND spending_day >= %(since)s AND spending_day < %(until)s AND NOT (id >= %(since_id)s AND id < %(until_id)s)"
]

# A tier without rates costs what the standard one does.
_TIER = "CASE WHEN rates @> jsonb_build_array(jsonb_build_object('tier', service_tier)) THEN service_tier ELSE '' END"
_LISTED = rates_sql.cost(meters.count_sql, str(money.WHOLE))
# Each completion with its key, its price, the hold under its id, of whatever account, and its usage entry. Its due cost
# is computed as ``RateSheet`` and ``records.due_nanos`` do it. numeric, because forged figures may be of any size.
CHARGES = SharedQuery(
    f"""
    SELECT completion.account_id, completion.id AS completion_id, completion.key_id, key_account_id,
        hold.account_id AS hold_account_id, settlement, state, cost_nanos, settled_nanos, completion.model_id,
        completion.price_id, price_model_id, prompt_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens,
        completion_tokens, images, web_searches,
        hold.amount_nanos AS held_nanos, entry.metadata, entry.spender, repeats, completion.created_at,
        effective_from, superseded_at,
        least(greatest({rates_sql.cost(meters.count_sql, f"coalesce(own_key_fee, {money.WHOLE})")}
            - charged_before_nanos, 0), hold.amount_nanos) AS due_nanos,
        CASE WHEN counts_price IS NULL OR state IS DISTINCT FROM 'SETTLED' THEN NULL
            WHEN settlement = 'corrected' AND coalesce(provider_nanos, 0) BETWEEN 0 AND {_LISTED} THEN provider_nanos
            ELSE least({_LISTED}, CASE WHEN counts_price THEN hold.amount_nanos - settled_nanos + provider_held_nanos::numeric
            END) END AS provider_due_nanos, provider_nanos,
        provider_id, attempts, failed_attempts, completion.held_nanos AS admitted_nanos,
        entry.id IS NOT NULL AND (
            metadata ->> 'model', metadata ->> 'promptTokens', metadata ->> 'completionTokens', metadata ->> 'settlement',
            metadata ->> 'repeats', metadata ->> 'chargedBeforeInDollars', metadata ->> 'webSearches', spender
        ) IS DISTINCT FROM (
            completion.model_id::text, prompt_tokens::text, completion_tokens::text, settlement::text,
            repeats::text, CASE WHEN repeats IS NOT NULL THEN {dollars_sql("charged_before_nanos")} END, web_searches::text,
            completion.key_id::text
        ) AS is_booked_otherwise
    FROM completion
    LEFT JOIN (SELECT id AS key_id, account_id AS key_account_id FROM keys_apikey) AS key ON key.key_id = completion.key_id
    LEFT JOIN (
        SELECT id AS price_id, model_id AS price_model_id, effective_from, rates,
            lead(effective_from) OVER (PARTITION BY model_id ORDER BY effective_from) AS superseded_at
        FROM completions_price
    ) AS price ON price.price_id = completion.price_id
    LEFT JOIN ({rates_sql.bands("completions_price")}) AS band
        ON band.price_id = completion.price_id AND {rates_sql.is_in_band("prompt_tokens", _TIER)}
    LEFT JOIN billing_hold AS hold ON hold.reference = completion.id
    LEFT JOIN booked AS entry ON entry.reference = completion.id
    """,  # noqa: S608  constants of this code
    Reach.DAYS,
)

_PROVIDER_SPENT = "coalesce(counts_price::int * provider_nanos::numeric, 0)"  # on limits and budgets, once it has ended
# A completion takes this from its run, or a monthly budget.
_TAKEN = f"""CASE state WHEN 'HELD' THEN amount_nanos + provider_held_nanos::numeric
    ELSE coalesce(settled_nanos, 0) - coalesce(returned_nanos, 0) + {_PROVIDER_SPENT} END"""
_TOTALS = f"""coalesce(sum({_TAKEN}) FILTER (WHERE state <> 'HELD') {{over}}, 0) AS sum_spent_nanos,
    coalesce(sum(amount_nanos + provider_held_nanos::numeric) FILTER (WHERE state = 'HELD') {{over}}, 0) AS sum_held_nanos"""
# Months whose details are there, once for each completion that counts on them, in turn, and at least once.
MONTHS = SharedQuery(
    f"""
    SELECT counted.account_id, budget_id, month, spent_nanos, counted.held_nanos, used.id AS completion_id,
        amount_nanos + provider_held_nanos::numeric AS amount_nanos,
        (used.budgets ->> budget_id)::bigint AS stop_nanos, {_TOTALS.format(over="OVER (PARTITION BY budget_id, month)")},
        sum({_TAKEN}) OVER in_turn - {_TAKEN} AS before_nanos, row_number() OVER in_turn AS number
    FROM budget_month AS counted LEFT JOIN (
        completions_completion AS used JOIN billing_hold ON billing_hold.reference = used.id
        LEFT JOIN overcharge ON overcharge.completion_id = used.id
    ) ON used.account_id = counted.account_id AND used.budgets ? budget_id
        AND spending_day >= month AND spending_day < (month + interval '1 month')::date
    WHERE month >= %(kept_since)s
    WINDOW in_turn AS (PARTITION BY budget_id, month ORDER BY used.created_at, used.id ROWS UNBOUNDED PRECEDING)
    """,  # noqa: S608  constants of this code
    Reach.DAYS,
)

# As ``usage.sums`` adds them: of a correction only what it charges, as the provider bills the tokens of what it corrects.
_BOOKED = {"prompt_tokens": "debit.prompt_tokens", "completion_tokens": "debit.completion_tokens"}
_PROVIDED = [*(_BOOKED.get(name, name) for name in meters.COLUMNS), *map(meters.count_sql, meters.OTHERS)]
_SUMS = ", ".join(f"coalesce(sum({figure}) FILTER (WHERE settlement <> 'corrected'), 0)" for figure in _PROVIDED)


def _in_bands(name: str, condition: str = "true") -> str:
    numbers = f"SELECT sum((value ->> '{name}')::numeric) FROM jsonb_each(bands) WHERE {condition}"  # noqa: S608  of this code
    return f"coalesce(({numbers}), 0)"


_SAYS = ", ".join([*meters.COLUMNS, *(_in_bands(meter.count) for meter in meters.OTHERS)])

# Of what is used by prompts above a threshold: what a day says, the least that it can be and the most. A completion counts at
# the highest threshold below its prompt of its price, or of what its provider charges, which staff may change later.
_FIGURES = {
    "completions": "CASE WHEN is_corrected THEN 0 ELSE 1 END",
    "charged_nanos": "charged_nanos",
    **{name: f"CASE WHEN is_corrected THEN 0 ELSE {name} END" for name in meters.COLUMNS},
}


def _long_figures(condition: str) -> str:
    sums = (f"coalesce(sum({figure}) FILTER (WHERE {condition}), 0)" for figure in _FIGURES.values())
    return f"ARRAY[{', '.join(sums)}]"


_LONG_COLUMNS = ", ".join(f"coalesce({_BOOKED.get(name, name)}, 0) AS {name}" for name in meters.COLUMNS)
_LONG_SAYS = ", ".join(_in_bands(name, "key::bigint >= place.above") for name in _FIGURES)


def _counted(what: str, table: str, size: str, *, counter: str) -> Invariant:
    return Invariant(
        f"accounts_count_their_stored_{what}",
        f"The bytes of stored {what} that an account counts are those that it has stored.",
        f"""
        SELECT account.id AS account_id, {counter}, coalesce(sum_bytes, 0) AS sum_bytes
        FROM account LEFT JOIN (
            SELECT account_id, sum({size}) AS sum_bytes FROM {table} GROUP BY account_id
        ) AS sums ON sums.account_id = account.id
        WHERE {counter} <> coalesce(sum_bytes, 0)
        """,  # noqa: S608  constants of this code
    )


INVARIANTS = [
    CHARGES.invariant(
        "completions_are_their_accounts",
        "A completion belongs to the account of its key and has a hold there.",
        shows="account_id, completion_id, key_id, key_account_id, hold_account_id",
        breaks="key_account_id IS DISTINCT FROM account_id OR hold_account_id IS DISTINCT FROM account_id",
    ),
    CHARGES.invariant(
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
    ),
    CHARGES.invariant(
        "completions_cost_their_tokens",
        "A completion costs its tokens and images at its price, or with an own key the fee of that, less what an earlier run"
        " was charged, and no more than was held.",
        shows="account_id, completion_id, price_id, prompt_tokens, completion_tokens, cost_nanos, due_nanos, held_nanos",
        breaks="state = 'SETTLED' AND cost_nanos IS DISTINCT FROM due_nanos",
    ),
    CHARGES.invariant(
        "providers_prices_are_those_of_their_tokens",
        "A completion that an own key served has the full price of its tokens and images here; where limits and budgets count"
        " that price, no more than was held for it.",
        shows="account_id, completion_id, price_id, provider_nanos, provider_due_nanos",
        breaks="provider_nanos IS DISTINCT FROM provider_due_nanos",
    ),
    # A process offers a price for CATALOG_CACHE_SECONDS after another one is in force, or a little longer.
    CHARGES.invariant(
        "prices_are_those_of_their_model_and_time",
        "A completion is charged at a price of its model that was in force when it was admitted, up to an hour; a correction"
        " perhaps at an earlier one.",
        shows="account_id, completion_id, model_id, price_id, price_model_id, created_at, effective_from, superseded_at",
        breaks="""
        price_model_id IS DISTINCT FROM model_id OR settlement NOT IN ('released', 'expired') AND (
            effective_from > created_at + interval '1 hour'
            OR superseded_at < created_at - interval '1 hour' AND settlement <> 'corrected')
        """,
    ),
    CHARGES.invariant(
        "completions_are_booked_as_used",
        "The usage entry of a completion says its model, its tokens, its settlement, its key, and what an earlier run was"
        " charged.",
        shows="account_id, completion_id, model_id, prompt_tokens, completion_tokens, settlement, key_id, metadata, spender",
        breaks="is_booked_otherwise",
    ),
    # An attempt that came late is heard to its end while others are made: then the last failure is perhaps not its provider's.
    CHARGES.invariant(
        "providers_were_asked",
        "The provider of a completion of which each attempt failed is that of one of these attempts.",
        shows="account_id, completion_id, provider_id, attempts, failed_attempts",
        breaks="""
        CASE jsonb_typeof(failed_attempts) WHEN 'array' THEN jsonb_array_length(failed_attempts) END >= greatest(attempts, 1)
            AND NOT failed_attempts @> jsonb_build_array(jsonb_build_object('provider', provider_id))
        """,
    ),
    CHARGES.invariant(
        "holds_are_as_placed",
        "A hold has the amount that its completion was admitted with.",
        shows="account_id, completion_id, state, admitted_nanos, held_nanos",
        breaks="admitted_nanos <> held_nanos",
    ),
    # With ``debits_were_held`` this holds for usage entries, too.
    Invariant(
        "holds_are_of_completions",
        "Every hold, and so every usage entry, is of a completion.",
        """
        SELECT account_id, reference, state, settled_nanos FROM hold
        WHERE NOT EXISTS (SELECT FROM completions_completion WHERE id = hold.reference)
        """,
        reach=Reach.DAYS,
    ),
    Invariant(
        "days_are_the_sum_of_their_completions",
        "What a key spent, holds and used on a day, and how many holds it has open, is the sum over its completions of that"
        " day, less what was given back of them, until they are archived.",
        f"""
        SELECT key_id, day, says, sums FROM (
            SELECT key_id, day, jsonb_build_object('held', held_nanos, 'open', open_holds, 'spent', spent_nanos,
                'completions', completions, 'prompt_tokens', prompt_tokens, 'completion_tokens', completion_tokens,
                'provider_held', provider_held_nanos, 'provider_spent', provider_spent_nanos) AS says
            FROM day
            WHERE (held_nanos, open_holds, spent_nanos, completions, prompt_tokens, completion_tokens, provider_held_nanos,
                provider_spent_nanos) <> (0, 0, 0, 0, 0, 0, 0, 0) AND day >= %(details_since)s AND day < %(until)s
        ) AS days FULL JOIN (
            SELECT key_id, spending_day AS day, jsonb_build_object(
                'held', coalesce(sum(amount_nanos) FILTER (WHERE state = 'HELD'), 0),
                'open', count(*) FILTER (WHERE state = 'HELD'),
                'spent', coalesce(sum(settled_nanos), 0) - coalesce(sum(returned_nanos), 0),
                'completions', count(*) FILTER (WHERE state = 'SETTLED'),
                'prompt_tokens', coalesce(sum(prompt_tokens) FILTER (WHERE state = 'SETTLED'), 0),
                'completion_tokens', coalesce(sum(completion_tokens) FILTER (WHERE state = 'SETTLED'), 0),
                'provider_held', coalesce(sum(provider_held_nanos) FILTER (WHERE state = 'HELD'), 0),
                'provider_spent', sum({_PROVIDER_SPENT})) AS sums
            FROM completion JOIN hold ON hold.reference = completion.id
            LEFT JOIN overcharge ON overcharge.completion_id = completion.id
            WHERE state IN ('HELD', 'SETTLED') AND spending_day >= %(details_since)s AND spending_day < %(until)s
            GROUP BY key_id, spending_day
        ) AS used USING (key_id, day)
        WHERE says IS DISTINCT FROM sums
        """,  # noqa: S608  constants of this code
        reach=Reach.DAYS,
    ),
    Invariant(
        "runs_are_the_sum_of_their_completions",
        "What an agent's run spent and holds is the sum over its completions, until they are archived, and within its budget.",
        f"""
        SELECT run.account_id, run.key_id, run.name, budget_nanos, spent_nanos, run.held_nanos, sum_spent_nanos, sum_held_nanos
        FROM run CROSS JOIN LATERAL (
            SELECT {_TOTALS.format(over="")} FROM completions_completion AS used JOIN billing_hold ON reference = used.id
            LEFT JOIN overcharge ON overcharge.completion_id = used.id WHERE (used.key_id, used.run) = (run.key_id, run.name)
        ) AS sums
        WHERE spent_nanos + run.held_nanos > budget_nanos
            OR created_at >= %(kept_since)s AND (spent_nanos, run.held_nanos) <> (sum_spent_nanos, sum_held_nanos)
        """,  # noqa: S608  constants of this code
        reach=Reach.DAYS,
    ),
    MONTHS.invariant(
        "budgets_are_the_sum_of_their_completions",
        "What was spent and is held of a budget in a month is the sum over the completions that count on it.",
        shows="account_id, budget_id, month, spent_nanos, held_nanos, sum_spent_nanos, sum_held_nanos",
        breaks="number = 1 AND (spent_nanos, held_nanos) <> (sum_spent_nanos, sum_held_nanos)",
    ),
    # In the order of admission, as for limits below. An entry that is made without asking, such as a correction, has no stop.
    MONTHS.invariant(
        "admissions_fit_their_budgets",
        "A completion's hold, and the cost of those before it in the month, fit the monthly budgets that stopped then.",
        shows="account_id, budget_id, month, completion_id, stop_nanos, amount_nanos, before_nanos",
        breaks="amount_nanos > 0 AND before_nanos + amount_nanos > stop_nanos",
    ),
    Invariant(
        "completions_count_on_what_there_is",
        "A completion's run is one of its key, with the same budget, and its monthly budgets are its account's.",
        """
        SELECT completion.account_id, completion.id AS completion_id, run, budgets FROM completion
        LEFT JOIN keys_run ON (keys_run.key_id, name, budget_nanos) = (completion.key_id, run, run_budget_nanos)
        WHERE run IS NOT NULL AND name IS NULL OR budgets IS NOT NULL AND EXISTS (
            SELECT FROM jsonb_object_keys(budgets) AS named
            LEFT JOIN keys_budget AS budget ON budget.id = named AND budget.account_id = completion.account_id
            LEFT JOIN keys_budgetmonth ON budget_id = budget.id AND month = date_trunc('month', spending_day::timestamp)::date
            WHERE budget_id IS NULL
        )
        """,
        reach=Reach.DAYS,
    ),
    # Running sums in the order of admission, less what was spent before the window, so that no completion is compared with each
    # other one. The completions of a batch share a time: any order among them fits, if one does. A hold that is still open was
    # open then, too. A completion that holds nothing, as of a free model, is admitted even if the limit was lowered below the
    # spending. Of days before those that are checked, the spending days say what was spent; their corrections came later.
    Invariant(
        "admissions_fit_their_limits",
        "A completion's hold, and the cost of those before it in its key's window, fit the limit that the key had then.",
        f"""
        WITH limited AS NOT MATERIALIZED (
            SELECT DISTINCT key_id, limit_since FROM completion
            WHERE limit_nanos IS NOT NULL AND spending_day >= %(details_since)s AND spending_day < %(until)s
        ), counted AS NOT MATERIALIZED (
            SELECT * FROM completion WHERE spending_day >= %(details_since)s AND spending_day < %(until)s
        ), before AS MATERIALIZED (
            SELECT key_id, day, spent_nanos::numeric + held_nanos + provider_spent_nanos + provider_held_nanos
                - coalesce(corrected_nanos, 0) AS nanos
            FROM day LEFT JOIN (
                SELECT key_id, spending_day AS day, sum(cost_nanos + {_PROVIDER_SPENT}) AS corrected_nanos FROM completion
                WHERE settlement = 'corrected' AND spending_day < %(details_since)s GROUP BY key_id, spending_day
            ) AS corrected USING (key_id, day)
            WHERE day < %(details_since)s AND key_id IN (SELECT key_id FROM limited)
        ), opening AS (
            SELECT key_id, day AS limit_since,
                sum(sum(nanos)) OVER (PARTITION BY key_id ORDER BY day) - sum(nanos) AS before_nanos
            FROM (
                SELECT key_id, spending_day AS day,
                    sum(coalesce(running.amount_nanos + provider_held_nanos::numeric,
                        cost_nanos - coalesce(returned_nanos, 0) + {_PROVIDER_SPENT}, 0)) AS nanos
                FROM counted LEFT JOIN (SELECT * FROM hold WHERE state = 'HELD') AS running ON running.reference = id
                LEFT JOIN overcharge ON completion_id = id
                GROUP BY key_id, spending_day
                UNION ALL
                SELECT key_id, day, nanos FROM before
                UNION ALL
                SELECT key_id, limit_since, 0 FROM limited
            ) AS days
            GROUP BY key_id, day
        ), in_turn AS (
            SELECT counted.account_id, id AS completion_id, key_id, limit_nanos, limit_since,
                amount_nanos + provider_held_nanos::numeric AS amount_nanos, sum(
                    CASE state WHEN 'HELD' THEN amount_nanos + provider_held_nanos::numeric
                    ELSE cost_nanos - coalesce(returned_nanos, 0) + {_PROVIDER_SPENT} END
                ) OVER (
                    PARTITION BY key_id ORDER BY counted.created_at, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS before_nanos
            FROM counted LEFT JOIN hold ON hold.reference = id LEFT JOIN overcharge ON completion_id = id
            WHERE key_id IN (SELECT key_id FROM limited)
        ), admission AS (
            SELECT account_id, completion_id, key_id, limit_nanos, limit_since, amount_nanos AS held_nanos,
                coalesce(in_turn.before_nanos, 0) + coalesce(all_before.nanos, 0) - coalesce(opening.before_nanos, 0)
                    AS used_nanos
            FROM in_turn LEFT JOIN opening USING (key_id, limit_since)
            LEFT JOIN (SELECT key_id, sum(nanos) AS nanos FROM before GROUP BY key_id) AS all_before USING (key_id)
        )
        SELECT * FROM admission WHERE held_nanos > 0 AND used_nanos + held_nanos > limit_nanos
        """,  # noqa: S608  constants of this code
        reach=Reach.DAYS,
    ),
    Invariant(
        "reruns_pay_the_difference",
        "A run under the Idempotency-Key of an earlier one, whose process died, is credited once with what that run was"
        " charged. So is a correction.",
        """
        SELECT rerun.account_id, rerun.id AS completion_id, rerun.repeats, rerun.charged_before_nanos,
            earlier.charged_before_nanos + coalesce(earlier.cost_nanos, 0) AS charged_nanos
        FROM (
            SELECT account_id, id, repeats, charged_before_nanos, count(*) OVER (PARTITION BY repeats) AS reruns FROM completion
            WHERE repeats IS NOT NULL OR charged_before_nanos <> 0
        ) AS rerun
        LEFT JOIN completions_completion AS earlier ON (earlier.id, earlier.account_id) = (rerun.repeats, rerun.account_id)
        WHERE NOT (earlier.id IS NULL AND coalesce(rerun.repeats, '~') < %(kept_id)s) AND (
            earlier.settlement IS NULL OR reruns > 1
            OR rerun.charged_before_nanos <> earlier.charged_before_nanos + coalesce(earlier.cost_nanos, 0)
        )
        """,
        reach=Reach.DAYS,
    ),
    Invariant(
        "overcharges_were_charged",
        "What was given back as charged too much was charged by the sweeper, for a completion that has a correction.",
        """
        SELECT overcharge.account_id, overcharge.reference, returned_nanos, completion.settlement, completion.cost_nanos
        FROM overcharge
        LEFT JOIN completions_completion AS completion ON completion.id = completion_id
            AND completion.account_id = overcharge.account_id AND overcharge.reference = 'overcharge:' || completion.id
        WHERE NOT (completion.id IS NULL AND coalesce(completion_id, '~') < %(kept_id)s)
        AND (completion.settlement = 'recovered' AND returned_nanos <= completion.cost_nanos AND EXISTS (
            SELECT FROM completions_completion WHERE repeats = completion.id
        )) IS NOT TRUE
        """,
    ),
    _counted("replies", "idempotent_request", "reply_bytes", counter="stored_reply_bytes"),
    _counted("responses", "stored_response", "stored_bytes", counter="stored_response_bytes"),
    Invariant(
        "replies_are_of_their_accounts",
        "What is stored of a completion, for a repetition or as a response, is its account's.",
        """
        SELECT completion.account_id, completion.id AS completion_id, stored.account_id AS stored_for
        FROM completion JOIN (
            SELECT completion_id, account_id FROM completions_idempotentrequest
            UNION ALL SELECT completion_id, account_id FROM completions_storedresponse
        ) AS stored ON stored.completion_id = completion.id
        WHERE stored.account_id <> completion.account_id
        """,
        reach=Reach.DAYS,
    ),
    # A price that was withdrawn before it began is not there.
    Invariant(
        "approved_prices_are_set",
        "A price that a second person approved has the rates that were approved.",
        """
        SELECT request.id AS request_id, request.model_id, price.id AS price_id
        FROM completions_pricerequest AS request JOIN completions_price AS price ON price.id = request.price_id
        WHERE decision = 'APPROVED' AND %(account)s::uuid IS NULL AND (
            decided_by_id IS NULL OR decided_by_id = requested_by_id OR price.model_id <> request.model_id
            OR NOT (price.rates @> request.rates AND price.rates <@ request.rates)
        )
        """,
    ),
    Invariant(
        "usage_sums_to_the_ledger",
        "The usage of an hour, key and model is the sum of its ledger entries.",
        """
        SELECT account_id, hour, key_id, model_id, says, sums FROM (
            SELECT account_id, hour, key_id, model_id, jsonb_build_object('requests', requests - errors, 'nanos', cost_nanos,
                'prompt_tokens', prompt_tokens, 'completion_tokens', completion_tokens) AS says
            FROM usage WHERE (requests - errors, cost_nanos, prompt_tokens, completion_tokens) <> (0, 0, 0, 0)
                AND hour >= %(usage_since)s::timestamp AT TIME ZONE 'UTC' AND hour < %(until)s::timestamp AT TIME ZONE 'UTC'
        ) AS summed FULL JOIN (
            SELECT account_id, hour, coalesce(spender, '') AS key_id, metadata ->> 'model' AS model_id, jsonb_build_object(
                'requests', count(*), 'nanos', -sum(amount_nanos),
                'prompt_tokens', sum(prompt_tokens), 'completion_tokens', sum(completion_tokens)) AS sums
            FROM debit WHERE hour >= %(usage_since)s::timestamp AT TIME ZONE 'UTC'
                AND hour < %(until)s::timestamp AT TIME ZONE 'UTC'
            GROUP BY account_id, hour, spender, metadata ->> 'model'
        ) AS summed_up USING (account_id, hour, key_id, model_id)
        WHERE says IS DISTINCT FROM sums
        """,
        reach=Reach.DAYS,
    ),
    Invariant(
        "usage_counts_what_failed",
        "The errors of an hour are the holds that were released or expired in it.",
        """
        SELECT account_id, hour, says, counted FROM (
            SELECT account_id, hour, sum(errors) AS says FROM usage
            WHERE hour >= %(labels_since)s::timestamp AT TIME ZONE 'UTC' AND hour < %(until)s::timestamp AT TIME ZONE 'UTC'
            GROUP BY account_id, hour HAVING sum(errors) <> 0
        ) AS summed FULL JOIN (
            SELECT hold.account_id, date_trunc('hour', resolved_at, 'UTC') AS hour, count(*) AS counted
            FROM hold JOIN mark ON mark.account_id = hold.account_id AND resolved_at <= failures_until
            WHERE state IN ('RELEASED', 'EXPIRED') AND resolved_at >= %(labels_since)s::timestamp AT TIME ZONE 'UTC'
                AND resolved_at < %(until)s::timestamp AT TIME ZONE 'UTC'
            GROUP BY 1, 2
        ) AS resolved USING (account_id, hour)
        WHERE says IS DISTINCT FROM counted
        """,
        reach=Reach.DAYS,
    ),
    Invariant(
        "labels_sum_to_the_ledger",
        "The usage of a day and an end user, run or value of a tag is the sum of the ledger entries of requests that have it.",
        """
        SELECT account_id, day, name, value, says, sums FROM (
            SELECT account_id, day, name, value, jsonb_build_object(
                'requests', sum(requests - errors), 'nanos', sum(cost_nanos),
                'prompt_tokens', sum(prompt_tokens), 'completion_tokens', sum(completion_tokens)) AS says
            FROM label WHERE day >= %(labels_since)s AND day < %(until)s GROUP BY account_id, day, name, value
            HAVING sum(requests) <> sum(errors) OR (sum(cost_nanos), sum(prompt_tokens), sum(completion_tokens)) <> (0, 0, 0)
        ) AS summed FULL JOIN (
            SELECT debit.account_id, (hour AT TIME ZONE 'UTC')::date AS day, name, value, jsonb_build_object(
                'requests', count(*), 'nanos', -sum(amount_nanos),
                'prompt_tokens', sum(debit.prompt_tokens), 'completion_tokens', sum(debit.completion_tokens)) AS sums
            FROM debit JOIN completion ON completion.id = reference CROSS JOIN LATERAL (
                SELECT '' AS name, end_user AS value WHERE end_user IS NOT NULL
                UNION ALL SELECT E'\\x01run', run WHERE run IS NOT NULL
                UNION ALL SELECT * FROM jsonb_each_text(coalesce(tags, '{}'))
            ) AS own
            WHERE hour >= %(labels_since)s::timestamp AT TIME ZONE 'UTC' AND hour < %(until)s::timestamp AT TIME ZONE 'UTC'
            GROUP BY debit.account_id, day, name, value
        ) AS summed_up USING (account_id, day, name, value)
        WHERE says IS DISTINCT FROM sums
        """,
        reach=Reach.DAYS,
    ),
    Invariant(
        "usage_is_summed_up_to_the_ledgers_end",
        "Nothing is marked as summed up that is not booked yet.",
        """
        SELECT account.id AS account_id, mark.last_seq, account.last_seq AS booked_seq, failures_until
        FROM account JOIN mark ON mark.account_id = account.id
        WHERE mark.last_seq > account.last_seq OR failures_until > statement_timestamp() + interval '1 hour'
        """,
    ),
    # Days of providers stay in the cell in which they were added up, whoever moves: so with several cells nothing can be asked.
    Invariant(
        "provider_days_sum_to_the_ledger",
        "What was charged on a day for a model at a provider, and its tokens, are the sums of the ledger entries and"
        " completions.",
        f"""
        SELECT day, provider_id, model_id, service_tier, says, sums FROM (
            SELECT day, provider_id, model_id, service_tier, jsonb_build_array(completions, charged_nanos, {_SAYS}) AS says
            FROM completions_providerday WHERE day >= %(provided_since)s AND day < %(until)s
        ) AS summed FULL JOIN (
            SELECT (hour AT TIME ZONE 'UTC')::date AS day, provider_id, model_id, coalesce(service_tier, '') AS service_tier,
                jsonb_build_array(count(*) FILTER (WHERE settlement <> 'corrected'), -sum(amount_nanos), {_SUMS}) AS sums
            FROM debit JOIN completion ON completion.id = reference AND own_key_fee IS NULL
            WHERE hour >= %(provided_since)s::timestamp AT TIME ZONE 'UTC' AND hour < %(until)s::timestamp AT TIME ZONE 'UTC'
            GROUP BY 1, 2, 3, 4
        ) AS summed_up USING (day, provider_id, model_id, service_tier)
        WHERE says IS DISTINCT FROM sums AND %(account)s::uuid IS NULL AND NOT EXISTS (SELECT 1 FROM cells_cell)
        """,  # noqa: S608  constants of this code
        reach=Reach.DAYS,
    ),
    Invariant(
        "provider_days_know_their_long_prompts",
        "What a day of a provider says of prompts above a threshold is of such prompts, and of all whose price has the"
        " threshold.",
        f"""
        WITH day AS (
            SELECT * FROM completions_providerday WHERE day >= %(provided_since)s AND day < %(until)s
        ), stated AS (
            SELECT day, provider_id, model_id, service_tier, key::bigint AS above
            FROM day CROSS JOIN LATERAL jsonb_object_keys(bands) AS key WHERE key <> '0'
        ), banded AS MATERIALIZED (
            SELECT id AS price_id, array_agg((rate -> 'above')::bigint) AS thresholds
            FROM completions_price CROSS JOIN LATERAL jsonb_array_elements(rates) AS rate
            WHERE (rate -> 'above')::bigint > 0 GROUP BY id
        ), long AS MATERIALIZED (
            SELECT (hour AT TIME ZONE 'UTC')::date AS day, provider_id, model_id, coalesce(service_tier, '') AS service_tier,
                -amount_nanos AS charged_nanos, settlement = 'corrected' AS is_corrected, {_LONG_COLUMNS},
                (SELECT max(above) FROM unnest(thresholds) AS above WHERE above < debit.prompt_tokens) AS own_above
            FROM debit JOIN completion ON completion.id = reference AND own_key_fee IS NULL LEFT JOIN banded USING (price_id)
            WHERE hour >= %(provided_since)s::timestamp AT TIME ZONE 'UTC' AND hour < %(until)s::timestamp AT TIME ZONE 'UTC'
                AND debit.prompt_tokens > (
                    SELECT min(above)
                    FROM (SELECT unnest(thresholds) AS above FROM banded UNION ALL SELECT above FROM stated) AS known)
        ), place AS (
            SELECT * FROM stated UNION SELECT day, provider_id, model_id, service_tier, own_above FROM long WHERE own_above > 0
        ), used AS (
            SELECT place.*, {_long_figures("own_above >= above")} AS least, {_long_figures("prompt_tokens > above")} AS most
            FROM place LEFT JOIN long USING (day, provider_id, model_id, service_tier)
            GROUP BY day, provider_id, model_id, service_tier, above
        )
        SELECT place.*, says FROM used AS place LEFT JOIN day USING (day, provider_id, model_id, service_tier)
        CROSS JOIN LATERAL (SELECT ARRAY[{_LONG_SAYS}]) AS of_day(says)
        WHERE EXISTS (
            SELECT 1 FROM unnest(least, says, most) AS figure(least, says, most) WHERE NOT says BETWEEN least AND most
        ) AND %(account)s::uuid IS NULL AND NOT EXISTS (SELECT 1 FROM cells_cell)
        """,  # noqa: S608  constants of this code
        reach=Reach.DAYS,
    ),
    guarding(
        "triggers_keep_charges",
        "The triggers that keep prices and what completions were charged exist, call the right functions, and are enabled.",
        """
            ('completions_price', 'prices_are_never_changed', 'completions_refuse_change'),
            ('completions_pricerequest', 'price_requests_are_decided_once', 'completions_check_price_request'),
            ('completions_completion', 'completions_are_never_deleted', 'completions_refuse_change'),
            ('completions_completion', 'charges_are_never_changed', 'completions_refuse_change')
        """,
    ),
]
