"""Providers' costs and the charges: by model, provider, service tier and length band, over days.

``usage.sums`` adds up the tokens of each day. Their cost is computed when it is asked for, at the provider's price of that
day: one that is entered late counts, too; without one the cost is not known. Attempts that failed, and what a correction of the
sweeper's estimates changed, do not count.
"""

from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from itertools import chain, groupby

from completions.models import LanguageModel, ProviderPrice
from completions.pricing import meters, rates_sql
from completions.pricing.rates import place_title
from gateway_project.db import cell, everywhere, pool
from gateway_project.text import dollars
from gateway_project.text.dollars import Amount

_Place = tuple[str, str, str, int]  # a model, a provider, a service tier, and above how many tokens the prompts are


@dataclass(frozen=True)
class Margin:
    """Of a model at a provider, in a tier and a length band. ``priced_nanos`` were charged on days whose cost is known."""

    model_id: str
    provider_id: str
    tier: str
    above: int
    completions: int
    charged_nanos: int
    priced_nanos: int
    cost_nanos: int

    @property
    def margin_nanos(self) -> int:
        return self.priced_nanos - self.cost_nanos

    @property
    def place(self) -> str:
        """The title of its service tier and its length band; "" for neither."""
        return place_title(self.tier, self.above)

    @property
    def is_known(self) -> bool:
        return self.priced_nanos == self.charged_nanos

    @property
    def percent(self) -> str:
        """The margin in percent of what was charged, rounded to tenths."""
        return f"{Decimal(100 * self.margin_nanos) / self.priced_nanos:z,.1f}" if self.priced_nanos else "-"


@dataclass(frozen=True)
class Line:
    """A margin on a page, or the sum of some: its amounts add up as they are shown, across and down."""

    of: Margin
    charged: Amount
    priced: Amount
    cost: Amount
    margin: Amount


def read(since: date, until: date) -> list[Margin]:
    """Return the margins of the days from ``since`` until before ``until``, in the order of pages."""
    sql, values = statement("day >= %(since)s AND day < %(until)s"), {"since": since, "until": until}
    figures: dict[_Place, list[int]] = {}
    for row in everywhere.gather(lambda: cell.execute(sql, values), may_miss=True):
        earlier = figures.get(row[:4], [0] * 4)
        figures[row[:4]] = [one + int(other) for one, other in zip(earlier, row[4:8], strict=True)]
    return [Margin(*place, *figures[place]) for place in sorted(figures)]


def with_sums(margins: list[Margin]) -> list[Line]:
    """Return them by model, with the sum of several of one model, and of all at the end: sums of what is shown, rounded."""
    columns = ((each.charged_nanos, each.cost_nanos, each.margin_nanos) for each in [*margins, _total(margins, "")])
    decimals = dollars.decimals(chain.from_iterable(columns))
    pairs = list(zip(margins, _round(margins, decimals), strict=True))
    lines = []
    for model_id, of_model in groupby(pairs, key=lambda pair: pair[0].model_id):
        several = list(of_model)
        lines += [_line(*pair, decimals) for pair in several]
        if len(several) > 1:
            lines.append(_sum(several, model_id, decimals))
    return [*lines, _sum(pairs, "All models", decimals)] if lines else []


def _round(margins: list[Margin], decimals: int) -> list[Margin]:
    priced = [each.priced_nanos for each in margins]
    unpriced = [each.charged_nanos - each.priced_nanos for each in margins]
    charged = dollars.round_parts([*priced, *unpriced], decimals)
    costs = dollars.round_parts([each.cost_nanos for each in margins], decimals)
    return [
        replace(each, charged_nanos=of_priced + of_unpriced, priced_nanos=of_priced, cost_nanos=cost)
        for each, of_priced, of_unpriced, cost in zip(margins, charged, charged[len(margins) :], costs, strict=False)
    ]


def _sum(pairs: list[tuple[Margin, Margin]], model_id: str, decimals: int) -> Line:
    exact, rounded = (_total(list(margins), model_id) for margins in zip(*pairs, strict=True))
    return _line(exact, rounded, decimals)


def _line(exact: Margin, rounded: Margin, decimals: int) -> Line:
    columns = ("charged_nanos", "priced_nanos", "cost_nanos", "margin_nanos")
    amounts = (
        Amount(dollars.format_usd(getattr(rounded, column), decimals), dollars.format_usd(getattr(exact, column)))
        for column in columns
    )
    return Line(exact, *amounts)


def _total(margins: list[Margin], model_id: str) -> Margin:
    figures = ("completions", "charged_nanos", "priced_nanos", "cost_nanos")
    return Margin(model_id, "all", "", 0, *(sum(getattr(margin, name) for margin in margins) for name in figures))


def provider_prices(model: LanguageModel) -> list[ProviderPrice]:
    """Return what the providers of a model charge today."""
    begun = ProviderPrice.objects.filter(model=model, since__lte=pool.database_time().date())
    return list(begun.order_by("provider_id", "-since").distinct("provider_id"))


_SUMMED = ("completions", "charged_nanos", *meters.COLUMNS)
_COUNTS = ", ".join(f"(value ->> '{name}')::bigint" for name in meters.COLUMNS)
_LONG = ", ".join(f"coalesce(sum((value ->> '{name}')::bigint), 0)" for name in _SUMMED)
_REST = ", ".join(f"sums.{name} - long.{name}" for name in _SUMMED)
_NAMES = ", ".join(meters.COLUMNS)
_PLACE = "used.model_id, used.provider_id, used.service_tier, used.above"


def statement(days: str, by: str = _PLACE, priced_on: str = "used.day") -> str:
    """Return SQL for the margins by model, provider, service tier and length band of the days that a condition selects.

    The usage in a band is computed at the provider's rates there, rounded up once for each day. It is not known of a tier
    that the provider has no rates for.
    """
    return f"""
    SELECT {by}, sum(used.completions) AS completions,
        sum(charged_nanos) AS charged_nanos,
        coalesce(sum(charged_nanos) FILTER (WHERE band.nanos IS NOT NULL), 0) AS priced_nanos,
        coalesce(sum({rates_sql.cost(meters.count_sql)}), 0) AS cost_nanos,
        sum(used.prompt_tokens + used.completion_tokens) AS tokens
    FROM (
        SELECT sums.day, sums.model_id, sums.provider_id, sums.service_tier, part.*
        FROM completions_providerday AS sums
        CROSS JOIN LATERAL (
            SELECT {_LONG} FROM jsonb_each(bands) WHERE key <> '0'
        ) AS long(completions, charged_nanos, {_NAMES})
        CROSS JOIN LATERAL (
            SELECT 0 AS above, {_REST}, bands -> '0'
            UNION ALL
            SELECT key::bigint, (value ->> 'completions')::bigint, (value ->> 'charged_nanos')::bigint, {_COUNTS}, value
            FROM jsonb_each(bands) WHERE key <> '0'
        ) AS part(above, completions, charged_nanos, {_NAMES}, other_counts)
        WHERE {days}
    ) AS used
    LEFT JOIN LATERAL (
        SELECT id FROM completions_providerprice
        WHERE model_id = used.model_id AND provider_id = used.provider_id AND since <= {priced_on}
        ORDER BY since DESC LIMIT 1
    ) AS price ON true
    LEFT JOIN ({rates_sql.bands("completions_providerprice")}) AS band
        ON band.price_id = price.id AND {rates_sql.is_in_band("(used.above + 1)", "used.service_tier")}
    WHERE used.completions > 0 OR used.charged_nanos <> 0
    GROUP BY {by}
"""  # noqa: S608  SQL of this module
