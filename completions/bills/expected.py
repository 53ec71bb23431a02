"""The cost to expect of a provider's day or of its hours, and how much is uncertain. Hours need the details of completions."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from completions.models import Completion
from completions.pricing import meters, rates_sql
from completions.statistics import margins
from gateway_project.db import cell, everywhere

_LONGEST_TIME = timedelta(hours=2)  # of a completion that began on the day before


class Used(NamedTuple):
    """The use by completions, and its cost at one day's prices."""

    completions: int = 0
    charged_nanos: int = 0
    priced_nanos: int = 0  # charges of what has a price of the provider
    expected_nanos: int = 0
    tokens: int = 0

    @property
    def is_priced(self) -> bool:
        return self.priced_nanos == self.charged_nanos


def usage(provider_id: str, day: date, unit: str) -> list[tuple[Any, ...]]:
    """Return by model, hour (None: the day) and shift of prices the figures of ``Used``."""
    values = {**_values(provider_id, day), "day": day}
    if unit == "hour":
        return everywhere.gather(lambda: cell.execute(_HOURS, values))
    one_day = "day = %(day)s AND provider_id = %(provider)s"
    of_days = {shift: margins.statement(one_day, "used.model_id", f"used.day + ({shift})") for shift in (0, -1, 1)}
    return everywhere.gather(
        lambda: [(row[0], None, shift, *row[1:]) for shift, sql in of_days.items() for row in cell.execute(sql, values)]
    )


def uncertain(provider_id: str, day: date, unit: str) -> list[tuple[Any, ...]]:
    """Return by model and hour what may be billed elsewhere, what of others here, estimates, more than these, and failures."""
    return everywhere.gather(lambda: cell.execute(_UNCERTAIN, {**_values(provider_id, day), "unit": unit}))


def ids(day: date, further: timedelta = timedelta()) -> tuple[str, str]:
    """Return the least ids of completions from a day on, and after it."""
    begin = datetime.combine(day, time(), UTC)
    return Completion.least_id(begin - further), Completion.least_id(begin + timedelta(days=1) + further)


def _values(provider_id: str, day: date) -> dict[str, Any]:
    begin, (since_id, until_id) = datetime.combine(day, time(), UTC), (ids(day, _LONGEST_TIME)[0], ids(day)[1])
    of_day = {"since": begin, "until": begin + timedelta(days=1), "since_id": since_id, "until_id": until_id}
    return {"provider": provider_id, **of_day}


# As ``usage.sums`` counts days: by the time of the end, without corrections, and without accounts' own keys.
_HOURS = f"""
    SELECT used.model_id, extract(hour FROM finished_at AT TIME ZONE 'UTC')::int, shift, count(*), sum(cost_nanos),
        coalesce(sum(cost_nanos) FILTER (WHERE band.nanos IS NOT NULL), 0),
        coalesce({rates_sql.cost(lambda meter: f"sum({meters.count_sql(meter)})")}, 0),
        coalesce(sum(prompt_tokens + completion_tokens), 0)
    FROM completions_completion AS used CROSS JOIN generate_series(-1, 1) AS shift
    LEFT JOIN (
        SELECT DISTINCT ON (days, model_id) days, model_id, id
        FROM completions_providerprice CROSS JOIN generate_series(-1, 1) AS days
        WHERE provider_id = %(provider)s AND since <= %(day)s::date + days ORDER BY days, model_id, since DESC
    ) AS price ON price.days = shift AND price.model_id = used.model_id
    LEFT JOIN ({rates_sql.bands("completions_providerprice")}) AS band
        ON band.price_id = price.id AND {rates_sql.is_in_band("prompt_tokens", "coalesce(service_tier, '')")}
    WHERE used.id >= %(since_id)s AND used.id < %(until_id)s AND finished_at >= %(since)s AND finished_at < %(until)s
        AND provider_id = %(provider)s AND own_key_fee IS NULL AND settlement NOT IN ('released', 'expired', 'corrected')
    GROUP BY 1, 2, 3, band.nanos
"""  # noqa: S608  SQL of this code
# A provider's clock may differ by a minute. It bills an account's own key to the account. A hold bounds how much more than an
# estimate a provider can have counted. With a status of 4xx it charged nothing.
_UNCERTAIN = """
    SELECT model_id, CASE %(unit)s WHEN 'hour' THEN extract(hour FROM at AT TIME ZONE 'UTC')::int END,
        coalesce(sum(cost_nanos) FILTER (WHERE is_own AND is_counted AND first < last), 0),
        coalesce(sum(cost_nanos) FILTER (WHERE is_own AND NOT is_counted), 0),
        coalesce(sum(cost_nanos) FILTER (WHERE is_own AND is_counted AND is_estimate), 0),
        coalesce(sum(greatest(held_nanos - cost_nanos, 0)) FILTER (WHERE is_own AND is_counted AND is_estimate), 0),
        coalesce(sum(held_nanos * failures), 0)
    FROM (
        SELECT *, at = date_trunc(%(unit)s, finished_at, 'UTC') AS is_counted FROM (
            SELECT model_id, cost_nanos, coalesce(held_nanos, cost_nanos) AS held_nanos, provider_id = %(provider)s AS is_own,
                finished_at, settlement IN ('estimated', 'partial', 'recovered', 'corrected') AS is_estimate,
                date_trunc(%(unit)s, created_at, 'UTC') AS first,
                date_trunc(%(unit)s, finished_at + interval '1 minute', 'UTC') AS last,
                CASE
                    WHEN failed_attempts IS NOT NULL THEN (
                        SELECT count(*) FROM jsonb_array_elements(failed_attempts) AS failure
                        WHERE failure ->> 'provider' = %(provider)s AND coalesce(failure ->> 'status', '') !~ '^4'
                    )
                    WHEN provider_id = %(provider)s AND settlement IN ('released', 'expired') THEN 1 ELSE 0
                END AS failures
            FROM completions_completion WHERE id >= %(since_id)s AND id < %(until_id)s
                AND settlement IS NOT NULL AND own_key_fee IS NULL
        ) AS ended CROSS JOIN LATERAL generate_series(first, last, ('1 ' || %(unit)s)::interval) AS at
        WHERE is_own OR failures > 0
    ) AS touched
    WHERE at >= %(since)s AND at < %(until)s GROUP BY model_id, at
"""
