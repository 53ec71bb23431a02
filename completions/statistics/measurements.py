"""How often providers, routes and models failed recently, how fast they answered, and what runs now.

Of what completions recorded only the newest are read, so that a busy gateway's pages take no longer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeVar

from completions.models import Completion
from gateway_project.db import cell, everywhere

COMPLETIONS_MAX = 50_000
ERRORS_SHOWN = 10
REQUESTS_MIN = 20  # fewer say little about how often a model answers
STREAMS_MIN = 20  # fewer say little about how fast it is beside others, as in the rankings


@dataclass(frozen=True)
class Measured:
    """Attempts at a provider, or at its route of one model; or requests for a model, whichever provider answered.

    Times are those of ``streams`` that began, the median of tokens per second that of ``rated_streams``; None when there were
    none. Of models there is no 99th percentile, and of attempts no number of rated streams.
    """

    attempts: int
    failed: int
    streams: int
    first_token_p50_ms: int | None
    first_token_p99_ms: int | None
    tokens_per_second: float | None = None
    rated_streams: int = 0

    @property
    def answered(self) -> int:
        return self.attempts - self.failed

    @property
    def failed_percent(self) -> float:
        return 100 * self.failed / self.attempts if self.attempts else 0.0

    @property
    def half_began_within(self) -> str:
        return format_seconds(self.first_token_p50_ms)

    @property
    def nearly_all_began_within(self) -> str:
        return format_seconds(self.first_token_p99_ms)

    @property
    def comparable_first_token_ms(self) -> int | None:
        """None when too few streams began to set the model before others."""
        return self.first_token_p50_ms if self.streams >= STREAMS_MIN else None

    @property
    def comparable_tokens_per_second(self) -> float | None:
        return self.tokens_per_second if self.rated_streams >= STREAMS_MIN else None

    @property
    def answered_percent(self) -> float | None:
        """None when too few requests came to say."""
        return 100 * self.answered / self.attempts if self.attempts >= REQUESTS_MIN else None


Key = TypeVar("Key")
Route = tuple[str, str | None]  # provider, and model; None: all its models
NOTHING = Measured(0, 0, 0, None, None)


def format_seconds(milliseconds: int | None) -> str:
    """Return a duration such as "0.42 s", or "4 ms" below ten; "-" for None."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds} ms" if milliseconds < 10 else f"{milliseconds / 1000:.2f} s"


def measure(since: datetime) -> dict[Route, Measured]:
    """Return what was measured since then, by provider and by provider and model. Those that were not asked are not there."""
    return _measure([((provider, model), figures) for provider, model, *figures in _read_cells(_MEASURE, since)], "streams")


def _measure(rows: Iterable[tuple[Key, list[Any]]], weight: str) -> dict[Key, Measured]:
    """Return the figures of all cells by key; the means of several by their figure ``weight``."""
    found: dict[Key, list[Measured]] = {}
    for key, figures in rows:
        found.setdefault(key, []).append(Measured(*figures))
    sums = ("attempts", "failed", "streams", "rated_streams")
    means = ("first_token_p50_ms", "first_token_p99_ms", "tokens_per_second")
    return {
        key: each[0] if len(each) == 1 else Measured(**everywhere.merge(each, weight, sums=sums, means=means))
        for key, each in found.items()
    }


def _read_cells(sql: str, since: datetime, **values: Any) -> list[Any]:
    """Return the rows of a statement in all cells."""
    values |= {"since": Completion.least_id(since), "most": COMPLETIONS_MAX}
    return everywhere.gather(lambda: cell.execute(sql, values), may_miss=True)


def measure_models(since: datetime) -> dict[str | None, Measured]:
    """Return what was measured since then by model, and of all models under None. Models without requests are not there.

    A request has failed when it got no reply, unless a provider refused what it asked for. One that was kept out by open
    circuits has failed, too: its providers had failed before, and its caller got nothing. Of the failures of an hour those of
    one account count at most as often as those of all others together, or once, as in ``uptime``.
    """
    rows = _read_cells(_MEASURE_MODELS, since)
    return _measure([(key[0] if key else None, figures) for key, *figures in rows], "answered")


def measure_routes(since: datetime) -> dict[Route, Measured]:
    """Return what was measured since then by provider and model. Attempts fail as requests do in ``measure_models``."""
    rows = _read_cells(_MEASURE_ROUTES, since)
    return _measure([((key[0], key[1]), figures) for key, *figures in rows if key], "answered")


def last_failures(since: datetime, provider_id: str, model_id: str | None = None) -> list[Any]:
    """Return the last failed attempts at a provider, the latest first; with ``model_id`` those at its route of the model.

    Each is the completion, the model, when, the status (None where the provider sent none) and the reason.
    """
    rows = _read_cells(_LAST_FAILURES, since, shown=ERRORS_SHOWN, provider=provider_id, model=model_id)
    return sorted(rows, key=itemgetter(0), reverse=True)[:ERRORS_SHOWN]


def read_open_holds(column: str, value: str) -> tuple[int, int]:
    """Return how many requests run now, and what they hold, of those with this value in a column, such as ``model_id``."""
    numbers, nanos = zip(*everywhere.gather(lambda: cell.execute(_OPEN_HOLDS.format(column=column), [value])), strict=True)
    return int(sum(numbers)), int(sum(nanos))


# An account's own key says nothing about a provider's answers to ours: neither a reply nor a failure.
WITH_OURS = "jsonb_path_query_array(failed_attempts, '$[*] ? (!exists(@.own_key))')"
_NEWEST = f"""
    WITH newest AS (
        SELECT id, created_at, account_id, provider_id, model_id, settlement, {WITH_OURS} AS failed_attempts,
            first_token_ms, streamed_ms, completion_tokens
        FROM completions_completion WHERE id >= %(since)s AND own_key_fee IS NULL ORDER BY id DESC LIMIT %(most)s
    )
"""  # noqa: S608  SQL of this module

# Tokens per second are those of the whole reply over the time until its end, as the rankings count them.
_RATE = """CASE WHEN settlement = 'reported' AND completion_tokens >= 32 AND first_token_ms + streamed_ms > 0
                THEN completion_tokens * 1000.0 / (first_token_ms + streamed_ms) END"""

_MEASURE = f"""
    {_NEWEST}, attempts AS (
        SELECT provider_id, model_id, first_token_ms, false AS is_failed, {_RATE} AS rate
        FROM newest WHERE settlement IN ('reported', 'estimated', 'partial')
        UNION ALL
        SELECT failure ->> 'provider', model_id, NULL, true, NULL
        FROM newest CROSS JOIN jsonb_array_elements(failed_attempts) AS failure
    )
    SELECT provider_id, model_id, count(*), count(*) FILTER (WHERE is_failed), count(first_token_ms),
        percentile_disc(0.5) WITHIN GROUP (ORDER BY first_token_ms),
        percentile_disc(0.99) WITHIN GROUP (ORDER BY first_token_ms),
        (percentile_cont(0.5) WITHIN GROUP (ORDER BY rate))::float8
    FROM attempts GROUP BY GROUPING SETS ((provider_id), (provider_id, model_id))
"""  # noqa: S608  SQL of this module

_REFUSED = "('400', '413', '422')"  # by a provider, for what the request asked
# Of rows of ``requests``, by their key, and of all of them under NULL.
_FIGURES = """
    of_accounts AS (
        SELECT key, hour, count(*) AS failed FROM requests WHERE NOT is_answered GROUP BY key, hour, account_id
    ), bounded AS (
        SELECT key, least(failed, greatest(1, sum(failed) OVER (PARTITION BY key, hour) - failed)) AS counted FROM of_accounts
    ), failures AS (
        SELECT key, sum(counted)::bigint AS failed FROM bounded GROUP BY GROUPING SETS ((key), ())
    ), measured AS (
        SELECT key, count(*) FILTER (WHERE is_answered) AS answered,
            percentile_disc(0.5) WITHIN GROUP (ORDER BY first_token_ms) AS first_token,
            (percentile_cont(0.5) WITHIN GROUP (ORDER BY rate))::float8 AS rate,
            count(first_token_ms) AS streams, count(rate) AS rated
        FROM requests GROUP BY GROUPING SETS ((key), ())
    )
    SELECT measured.key, answered + coalesce(failed, 0), coalesce(failed, 0), streams, first_token, NULL, rate, rated
    FROM measured LEFT JOIN failures ON measured.key IS NOT DISTINCT FROM failures.key
"""

_MEASURE_MODELS = f"""
    {_NEWEST}, requests AS (
        SELECT ARRAY[model_id] AS key, first_token_ms, settlement IN ('reported', 'estimated', 'partial') AS is_answered,
            {_RATE} AS rate, account_id, date_trunc('hour', created_at) AS hour
        FROM newest
        WHERE settlement IN ('reported', 'estimated', 'partial')
            OR (settlement = 'released' AND failed_attempts IS NOT NULL
                AND coalesce(failed_attempts -> -1 ->> 'status', '') NOT IN {_REFUSED})
    ), {_FIGURES}
"""  # noqa: S608  SQL of this module

_MEASURE_ROUTES = f"""
    {_NEWEST}, requests AS (
        SELECT ARRAY[provider_id, model_id] AS key, first_token_ms, true AS is_answered, {_RATE} AS rate, account_id,
            date_trunc('hour', created_at) AS hour
        FROM newest WHERE settlement IN ('reported', 'estimated', 'partial')
        UNION ALL
        SELECT ARRAY[failure ->> 'provider', model_id], NULL, false, NULL, account_id, date_trunc('hour', created_at)
        FROM newest CROSS JOIN jsonb_array_elements(failed_attempts) AS failure
        WHERE coalesce(failure ->> 'status', '') NOT IN {_REFUSED}
    ), {_FIGURES}
"""  # noqa: S608  SQL of this module

_LAST_FAILURES = f"""
    {_NEWEST}
    SELECT id, model_id, created_at, (failure ->> 'status')::integer, failure ->> 'reason'
    FROM newest CROSS JOIN jsonb_array_elements(failed_attempts) AS failure
    WHERE failure ->> 'provider' = %(provider)s AND (%(model)s::text IS NULL OR model_id = %(model)s)
    ORDER BY id DESC LIMIT %(shown)s
"""  # noqa: S608  SQL of this module

_OPEN_HOLDS = """
    SELECT count(*), coalesce(sum(amount_nanos), 0) FROM billing_hold
    JOIN completions_completion AS completion ON completion.id = reference
    WHERE state = 'HELD' AND completion.{column} = %s
"""
