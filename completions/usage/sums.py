"""Sums up the usage of accounts by hour. Each ledger entry counts once, and so does each request that cost nothing.

A request counts in the hour of its ledger entry, so the sums agree with the ledger. A request that cost nothing has no entry:
it counts in the hour when it ended. Settlements neither wait for the sums nor write any.

A mark for each account says how far it is summed up, by ``seq`` for entries and by time for the others. Nothing appears behind
a mark: the account is locked from the moment when an entry gets its ``seq``, or a hold its time, until the commit. A late
settlement counts when it is booked.

Each end user, run and tag has its own sums. Callers choose these labels, and may send new ones with each request: then each
label of each request has a row. Sums of labels by hour are kept for HOURS_KEPT, and then added to their UTC day, which is kept.

The same statement adds to the hours of all accounts (``statistics.hours``) and to the days of providers (``margins``): no
request is read twice. The tokens of a correction are those of the corrected completion, which the provider bills once. Of
requests that an account's own key served, the provider bills the account: they are in no day of a provider here.
"""

import time
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction

from completions.pricing import meters
from completions.pricing.meters import OTHERS
from gateway_project.db import cell

HOURS_KEPT = timedelta(days=3)
ENTRIES_MAX = 10_000  # of an account in one statement, and as many failures
_ROWS_MAX = 10_000  # that are moved in one statement
_ACCOUNTS_MAX = 20  # in one statement
_RUN_SECONDS = 45  # the next run continues
END_USER = ""  # instead of the name of a tag, which is never empty
RUN = "\x01run"  # likewise, of no tag that anyone shows

# Completions that are not yet summed up, for a query with a table ``span`` that says from where to where, for each account.
# LIMIT 1 makes PostgreSQL look each completion up by its id, whatever it believes of how many there are.
ENDED = """
    SELECT span.account_id, date_trunc('hour', at, 'UTC') AS hour, coalesce(spender, completion.key_id, '') AS key_id,
        coalesce(model, completion.model_id, '') AS model_id, 1 AS requests, errors,
        booked.prompt_tokens, booked.completion_tokens, booked.cost_nanos,
        CASE WHEN first_token_ms IS NULL THEN 0 ELSE 1 END AS first_tokens, coalesce(first_token_ms, 0) AS first_token_ms,
        end_user, run, tags, provider_id, coalesce(service_tier, '') AS service_tier,
        coalesce(cached_tokens, 0) AS cached_tokens,
        coalesce(cache_write_tokens, 0) AS cache_write_tokens, coalesce(cache_write_1h_tokens, 0) AS cache_write_1h_tokens,
        images, coalesce(web_searches, 0) AS web_searches, other_counts, price_id, settlement = 'corrected' AS is_corrected,
        own_key_fee
    FROM span CROSS JOIN LATERAL (
        SELECT reference, created_at AS at, spender, metadata ->> 'model' AS model, 0 AS errors,
            (metadata ->> 'promptTokens')::bigint AS prompt_tokens,
            (metadata ->> 'completionTokens')::bigint AS completion_tokens, -amount_nanos AS cost_nanos
        FROM billing_ledgerentry AS entry
        WHERE entry.account_id = span.account_id AND seq > after_seq AND seq <= until_seq AND type = 'USAGE_DEBIT'
        UNION ALL
        SELECT reference, resolved_at, NULL, NULL, 1, 0, 0, 0 FROM billing_hold AS hold
        WHERE hold.account_id = span.account_id AND state IN ('RELEASED', 'EXPIRED')
            AND resolved_at > after_failure AND resolved_at <= until_failure
    ) AS booked
    LEFT JOIN LATERAL (
        SELECT key_id, model_id, first_token_ms, end_user, run, tags, provider_id, service_tier, cached_tokens,
            cache_write_tokens, cache_write_1h_tokens, images, web_searches, other_counts, price_id, settlement, own_key_fee
        FROM completions_completion WHERE id = reference LIMIT 1
    ) AS completion ON true
"""
# The same table for accounts of ``completions_usagemark``, and what limits how much one statement reads.
SPAN = """
    SELECT account.id AS account_id, coalesce(mark.last_seq, 0) AS after_seq,
        least(account.last_seq, coalesce(mark.last_seq, 0) + %(entries_max)s) AS until_seq, account.last_seq,
        coalesce(failures_until, '-infinity') AS after_failure, (
            SELECT max(resolved_at) FROM (
                SELECT resolved_at FROM billing_hold
                WHERE account_id = account.id AND state IN ('RELEASED', 'EXPIRED')
                    AND resolved_at > coalesce(failures_until, '-infinity')
                ORDER BY resolved_at LIMIT %(entries_max)s
            ) AS next
        ) AS until_failure
    FROM billing_account AS account LEFT JOIN completions_usagemark AS mark ON mark.account_id = account.id
"""
LABELS = f"""
    SELECT '' AS name, end_user AS value WHERE end_user IS NOT NULL
    UNION ALL SELECT '{RUN}', run WHERE run IS NOT NULL
    UNION ALL SELECT * FROM jsonb_each_text(coalesce(tags, '{{}}'))
"""  # noqa: S608  a constant of this module
# Steps of 2 %, so that an hour has some hundred of them, and what is read from them is at most 1 % off.
MILLISECONDS = "round(exp(round(ln(greatest(first_token_ms, 1)) * 50) / 50))::int"
COLUMNS = ("requests", "errors", "prompt_tokens", "completion_tokens", "cost_nanos", "first_tokens", "first_token_ms")
SUMS = ", ".join(f"sum({column})::bigint AS {column}" for column in COLUMNS)
_COLUMNS = ", ".join(COLUMNS)
_PROVIDED = ", ".join(meters.COLUMNS)  # of a day of a provider: what it bills
# What long prompts of the day used, by threshold, and at "0" numbers without a column.
_LONG = ", ".join(f"'{name}', {name}" for name in ("completions", "charged_nanos", *meters.COLUMNS))
_OTHERS = ", ".join(f"'{meter.count}', {meter.count}" for meter in OTHERS)
_BAND = f"CASE WHEN prompt_above > 0 THEN jsonb_build_object({_LONG}) ELSE '{{}}' END || jsonb_build_object({_OTHERS})"
_IS_BAND = " OR ".join(["prompt_above > 0", *(f"{meter.count} > 0" for meter in OTHERS)])
_ADDED_BANDS = """(
    SELECT coalesce(jsonb_object_agg(above, counts), '{}') FROM (
        SELECT above, jsonb_object_agg(name, number) AS counts FROM (
            SELECT band.key AS above, counted.key AS name, sum(counted.value::bigint) AS number
            FROM (SELECT * FROM jsonb_each(total.bands) UNION ALL SELECT * FROM jsonb_each(EXCLUDED.bands)) AS band
            CROSS JOIN LATERAL jsonb_each_text(band.value) AS counted GROUP BY band.key, counted.key
        ) AS summed GROUP BY above
    ) AS merged
)"""
# The highest threshold that a prompt exceeds, of the price that it was charged at and of what its provider charges.
_PROMPT_ABOVE = """
    SELECT coalesce(max((rate ->> 'above')::bigint), 0) AS prompt_above FROM (
        SELECT rates FROM completions_price WHERE id = ended.price_id
        UNION ALL SELECT rates FROM completions_providerprice
        WHERE model_id = ended.model_id AND provider_id = ended.provider_id
    ) AS price CROSS JOIN LATERAL jsonb_array_elements(rates) AS rate WHERE (rate ->> 'above')::bigint < ended.prompt_tokens
"""


def _added_to(table: str, columns: Sequence[str] = COLUMNS) -> str:
    return ", ".join(f"{column} = {table}.{column} + EXCLUDED.{column}" for column in columns)


def _provided_sums() -> str:
    others = {meter.count: meters.count_sql(meter) for meter in OTHERS}
    counts = {name: name for name in meters.COLUMNS} | others
    return ", ".join(f"coalesce(sum({each}) FILTER (WHERE NOT is_corrected), 0) AS {name}" for name, each in counts.items())


def sum_up() -> int:
    """Sum up what was booked since the last run. Return how many requests. Safe at any time and concurrently."""
    stop_at, number = time.monotonic() + _RUN_SECONDS, 0
    cell.execute(_BEGIN_MARKS)
    while (summed := _sum_up_some()) is not None:
        number += summed
        if time.monotonic() > stop_at:
            break
    while time.monotonic() < stop_at and _move_some():
        pass
    return number


def _sum_up_some() -> int | None:
    """Sum up a part of the requests of some accounts in one transaction. Return how many, or None if there were none."""
    with transaction.atomic():
        account_ids = [account_id for (account_id,) in cell.execute(_LOCK_MARKS)]
        if not account_ids:
            return None
        [(number,)] = cell.execute(_SUM_UP, {"accounts": account_ids, "entries_max": ENTRIES_MAX})
        return int(number)


def _move_some() -> int:
    """Add some sums of labels that are older than HOURS_KEPT to those of their day. Return how many."""
    [(number,)] = cell.execute(_MOVE, {"kept_seconds": HOURS_KEPT.total_seconds(), "rows_max": _ROWS_MAX})
    return int(number)


_BEGIN_MARKS = """
    INSERT INTO completions_usagemark (account_id)
    SELECT id FROM billing_account WHERE NOT EXISTS (SELECT FROM completions_usagemark WHERE account_id = billing_account.id)
    ON CONFLICT DO NOTHING
"""
_LOCK_MARKS = f"""
    SELECT mark.account_id FROM completions_usagemark AS mark JOIN billing_account AS account ON account.id = mark.account_id
    WHERE account.last_seq > mark.last_seq OR EXISTS (
        SELECT FROM billing_hold WHERE account_id = mark.account_id AND state IN ('RELEASED', 'EXPIRED')
            AND resolved_at > coalesce(failures_until, '-infinity')
    )
    ORDER BY mark.account_id LIMIT {_ACCOUNTS_MAX} FOR NO KEY UPDATE OF mark SKIP LOCKED
"""  # noqa: S608  a constant of this module
_SUM_UP = f"""
    WITH span AS MATERIALIZED ({SPAN} WHERE account.id = ANY(%(accounts)s)),
    ended AS MATERIALIZED ({ENDED}),
    hours AS (
        INSERT INTO completions_usagehour (account_id, hour, key_id, model_id, {_COLUMNS})
        SELECT account_id, hour, key_id, model_id, {SUMS} FROM ended GROUP BY account_id, hour, key_id, model_id
        ON CONFLICT (account_id, hour, key_id, model_id) DO UPDATE SET {_added_to("completions_usagehour")}
    ),
    labels AS (
        INSERT INTO completions_labelhour (account_id, hour, name, value, {_COLUMNS})
        SELECT account_id, hour, name, value, {SUMS} FROM ended CROSS JOIN LATERAL ({LABELS}) AS label
        GROUP BY account_id, hour, name, value
        ON CONFLICT (account_id, hour, name, value) DO UPDATE SET {_added_to("completions_labelhour")}
    ),
    all_hours AS (
        INSERT INTO completions_completionhour AS total (hour, completions, cost_nanos)
        SELECT hour, count(*), sum(cost_nanos) FROM ended GROUP BY hour ORDER BY hour
        ON CONFLICT (hour) DO UPDATE
        SET completions = total.completions + EXCLUDED.completions, cost_nanos = total.cost_nanos + EXCLUDED.cost_nanos
    ),
    first_tokens AS (
        INSERT INTO completions_firsttokenhour AS total (hour, milliseconds, streams)
        SELECT hour, {MILLISECONDS} AS milliseconds, count(*) FROM ended WHERE first_tokens > 0 AND own_key_fee IS NULL
        GROUP BY hour, milliseconds ORDER BY hour, milliseconds
        ON CONFLICT (hour, milliseconds) DO UPDATE SET streams = total.streams + EXCLUDED.streams
    ),
    provided AS (
        SELECT (hour AT TIME ZONE 'UTC')::date AS day, provider_id, model_id, service_tier, prompt_above,
            count(*) FILTER (WHERE NOT is_corrected) AS completions, sum(cost_nanos) AS charged_nanos, {_provided_sums()}
        FROM ended CROSS JOIN LATERAL ({_PROMPT_ABOVE}) AS band
        WHERE errors = 0 AND provider_id IS NOT NULL AND own_key_fee IS NULL
        GROUP BY day, provider_id, model_id, service_tier, prompt_above
    ),
    provider_days AS (
        INSERT INTO completions_providerday AS total (day, provider_id, model_id, service_tier, completions, charged_nanos,
            {_PROVIDED}, bands)
        SELECT day, provider_id, model_id, service_tier, sum(completions), sum(charged_nanos),
            {", ".join(f"sum({name})" for name in meters.COLUMNS)},
            coalesce(jsonb_object_agg(prompt_above, {_BAND}) FILTER (WHERE {_IS_BAND}), '{{}}')
        FROM provided
        GROUP BY day, provider_id, model_id, service_tier ORDER BY day, provider_id, model_id, service_tier
        ON CONFLICT (day, provider_id, model_id, service_tier) DO UPDATE
        SET completions = total.completions + EXCLUDED.completions,
            charged_nanos = total.charged_nanos + EXCLUDED.charged_nanos, {_added_to("total", meters.COLUMNS)},
            bands = {_ADDED_BANDS}
    ),
    marks AS (
        UPDATE completions_usagemark AS mark
        SET last_seq = until_seq, failures_until = coalesce(until_failure, failures_until)
        FROM span WHERE mark.account_id = span.account_id
    )
    SELECT count(*) FROM ended
"""  # noqa: S608  constants of this module
# In the order of the index, so that two runs at the same time do not wait for each other in a circle.
_MOVE = f"""
    WITH due AS MATERIALIZED (
        SELECT id FROM completions_labelhour WHERE hour < now() - make_interval(secs => %(kept_seconds)s)
        ORDER BY hour LIMIT %(rows_max)s FOR UPDATE SKIP LOCKED
    ),
    moved AS (DELETE FROM completions_labelhour WHERE id = ANY(ARRAY(SELECT id FROM due)) RETURNING *),
    days AS (
        INSERT INTO completions_labelday (account_id, name, day, value, {_COLUMNS})
        SELECT account_id, name, (hour AT TIME ZONE 'UTC')::date AS day, value, {SUMS} FROM moved
        GROUP BY account_id, name, day, value ORDER BY account_id, name, day, value
        ON CONFLICT (account_id, name, day, value) DO UPDATE SET {_added_to("completions_labelday")}
    )
    SELECT count(*) FROM moved
"""  # noqa: S608  constants of this module
