"""SQL of prices, made of the list of meters: the rates of each tier and length band, and what numbers cost at them. Pure text.

It computes as ``RateSheet`` does, so the audit and the margins check what was charged by another way.
"""

from collections.abc import Callable

from billing import money
from completions.pricing import meters
from completions.pricing.meters import BY_NAME, METERS, Meter

_PLACES = {meter.name: place for place, meter in enumerate(METERS, 1)}
_LINEAGES = ", ".join(f"({place}, ARRAY{meters.lineage(BY_NAME[name])})" for name, place in _PLACES.items())


def bands(table: str) -> str:
    """Return SQL for the length bands of a table's prices: price_id, tier, above, until and the nanos of each meter.

    A band is for prompts of more than ``above`` tokens, and at most ``until``: null where no other one follows.
    """
    return f"""
    SELECT price.id AS price_id, band.tier, band.above,
        lead(band.above) OVER (PARTITION BY price.id, band.tier ORDER BY band.above) AS until, band.nanos
    FROM {table} AS price CROSS JOIN LATERAL (
        SELECT place.tier, place.above, array_agg(coalesce(own.nanos, 0) ORDER BY number) AS nanos
        FROM (SELECT DISTINCT tier, above FROM jsonb_to_recordset(rates) AS rate(tier text, above bigint)) AS place
        CROSS JOIN (VALUES {_LINEAGES}) AS meter(number, lineage)
        LEFT JOIN LATERAL (
            SELECT rate.nanos
            FROM jsonb_to_recordset(rates) AS rate(meter text, tier text, above bigint, nanos bigint)
            WHERE meter = ANY(lineage) AND (rate.tier, rate.above) = (place.tier, place.above)
                OR meter = lineage[1] AND (rate.tier, rate.above) = ('', 0)
            ORDER BY (rate.tier, rate.above) = (place.tier, place.above) DESC, array_position(lineage, meter) LIMIT 1
        ) AS own ON true
        GROUP BY place.tier, place.above
    ) AS band
    """  # noqa: S608  names of this code


def is_in_band(prompt_tokens: str, tier: str) -> str:
    return (
        f"band.tier = {tier} AND (band.above = 0 OR {prompt_tokens} > band.above)"
        f" AND (band.until IS NULL OR {prompt_tokens} <= band.until)"
    )


def cost(number: Callable[[Meter], str], basis_points: str = f"{money.WHOLE}") -> str:
    """Return SQL for what the numbers of the meters cost at the ``nanos`` of a band, or a share of it, rounded up once."""
    unrounded = " + ".join(f"{number(meter)}::numeric * {_factor(meter)}" for meter in METERS)
    return f"ceil(({unrounded}) * {basis_points} / {money.TOKENS_PER_PRICE * money.WHOLE})"


def _factor(meter: Meter) -> str:
    own, multiple = f"band.nanos[{_PLACES[meter.name]}]", money.TOKENS_PER_PRICE // meter.unit.number
    difference = f"({own} - band.nanos[{_PLACES[BY_NAME[meter.part_of].name]}])" if meter.part_of else own
    return difference if multiple == 1 else f"{multiple} * {difference}"
