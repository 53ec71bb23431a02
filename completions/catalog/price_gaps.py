"""Rates that a price of a catalog file probably leaves out, in sentences for warnings. Pure.

``above = []`` says that a provider charges prompts of every length alike, and is asked about no more.
"""

from collections.abc import Iterator

from completions.catalog.tables import PriceTable
from completions.pricing import meters, rates
from completions.pricing.meters import BY_NAME, METERS
from completions.pricing.rates import RateSheet

LONG_CONTEXT = 200_000  # tokens, from which on providers begin to charge more


def find(price: PriceTable, context_window: int) -> Iterator[str]:
    """Yield what follows the name of the model: "has a price without ..."."""
    if context_window > LONG_CONTEXT and not price.above and "above" not in price.model_fields_set:
        yield (
            f"takes up to {context_window:,} tokens, and its price has no rates of long prompts: state them as above, or"
            " above = [] if its provider charges all prompts alike"
        )
    for tier, table in price.places.items():
        for threshold in sorted({band.prompt_tokens for band in price.above} - {band.prompt_tokens for band in table.above}):
            if "above" not in table.model_fields_set or table.above:
                place = rates.describe_place(tier, threshold)
                yield f"has a price without rates {place}, where the standard tier has some: its others hold there"
    yield from _defaults(price.sheet)


def _defaults(sheet: RateSheet) -> Iterator[str]:
    """Yield the meters that cost what they are a part of, in a tier or a band, though not in the standard short rates."""
    apart = [meter.name for meter in METERS if meter.part_of and sheet.rate(meter.name) != sheet.rate(meter.part_of)]
    places = dict.fromkeys((rate.tier, rate.above) for rate in sheet if rate.tier or rate.above)
    for place in places:
        for name in apart:
            stated = [each for each in meters.lineage(BY_NAME[name]) if sheet.stated(each, *place) is not None]
            is_refused = BY_NAME[name].is_asked_for and not sheet.offers(name, place[0])
            if name not in stated and not is_refused:
                title = rates.describe_name(rates.rate_name(name, *place))
                yield f"has a price that does not state {title}: it costs as much as {BY_NAME[stated[0]].title.lower()} there"
