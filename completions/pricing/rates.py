"""A price as its rates: by meter, service tier and length of the prompt. Pure; in nanodollars, rounded up once.

A rate is for a million tokens, or for one image or search. A prompt longer than a threshold is charged whole at the rates of
that length band. A service tier and a band have rates of their own for input and output at least; what else they leave out
costs what it is a part of, in the same band of the same tier, and an image or a search what it costs in the standard one.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter, mul
from typing import Any, NamedTuple

import msgspec

from billing import money
from completions.pricing import meters
from completions.pricing.meters import BY_NAME, METERS, OTHERS, Meter, Unit
from completions.pricing.usage import Usage
from gateway_project.text import dollars

STANDARD = ""  # the service tier of a price that names none
ABOVE_MAX = 2**31 - 1
_NAME = re.compile(rf"(?:({'|'.join(meters.TIERS)})_)?({'|'.join(BY_NAME)})(?:_above_([1-9][0-9]{{0,9}}))?")
_TIER_ORDER = {tier: place for place, tier in enumerate((STANDARD, *meters.TIERS))}
_METER_ORDER = {meter.name: place for place, meter in enumerate(METERS)}
# Numbers in the order in which they are multiplied. Images are counted at admission, and the others are few.
_COUNTED = tuple(meter for meter in METERS if meter.count in meters.COLUMNS and meter.count != "images")
_ORDER = (*_COUNTED, BY_NAME["image"], *OTHERS)
_BY_FAMILY = sorted(METERS, key=lambda meter: _METER_ORDER[meters.lineage(meter)[-1]])  # what is a part follows its whole
_read_counts = attrgetter(*(meter.count for meter in _COUNTED))
Values = dict[str, str]  # dollars by the names of rates, as JSON and forms have them


class Rate(NamedTuple):
    """The price of a meter at a service tier where the prompt has more tokens than ``above``."""

    meter: str
    tier: str
    above: int
    nanos: int

    @property
    def name(self) -> str:
        """Its name in forms and JSON: ``flex_cached_input_above_200000``."""
        return rate_name(self.meter, self.tier, self.above)

    @property
    def title(self) -> str:
        """Its title on pages: ``Flex tier, cached input, above 200,000 tokens``."""
        words = [meters.TIERS[self.tier], BY_NAME[self.meter].title.lower()] if self.tier else [BY_NAME[self.meter].title]
        return ", ".join([*words, *([_above(self.above)] if self.above else [])])

    @property
    def unit(self) -> Unit:
        return BY_NAME[self.meter].unit


def _above(tokens: int) -> str:
    return f"above {tokens:,} tokens"


class CostPart(msgspec.Struct, frozen=True):
    """The count of one meter, and its rate: a number, and nanodollars for ``per`` of them."""

    kind: str
    number: int
    price_nanos: int
    per: int = money.TOKENS_PER_PRICE

    @property
    def unrounded(self) -> int:
        """In nanodollars times TOKENS_PER_PRICE."""
        return self.number * self.price_nanos * (money.TOKENS_PER_PRICE // self.per)


class HeldRates(NamedTuple):
    """The dearest rates that a request may be charged at, of each meter with all that is a part of it.

    A meter that is part of no other needs a rate here, and ``estimates`` a bound of its number: else it is not held for.
    """

    input_nanos: int
    output_nanos: int
    image_nanos: int
    web_search_nanos: int


_ROOTS = [name.removesuffix("_nanos") for name in HeldRates._fields]
if unheld := {meter.name for meter in METERS if not meter.part_of} - set(_ROOTS):
    raise TypeError(f"no hold pays for {', '.join(unheld)}: give HeldRates and estimates a bound of it")


class _Band:
    """The rates of one service tier for prompts of one length, with nothing left out."""

    def __init__(self, above: int, stated: Mapping[str, int], standard: Mapping[str, int]) -> None:
        self.above = above
        self.nanos = {meter.name: _resolve(meter, stated, standard) for meter in METERS}
        # A number includes its parts, so a part adds only what it costs more or less than what it is a part of.
        self.factors = tuple(
            (self.nanos[meter.name] - (self.nanos[meter.part_of] if meter.part_of else 0)) * _multiple(meter)
            for meter in _ORDER
        )


def _resolve(meter: Meter, stated: Mapping[str, int], standard: Mapping[str, int]) -> int:
    own = next((stated[name] for name in meters.lineage(meter) if name in stated), None)
    return standard.get(meter.name, 0) if own is None else own


def _multiple(meter: Meter) -> int:
    return money.TOKENS_PER_PRICE // meter.unit.number


class RateSheet:
    """The rates of one price, with every default filled in once. ``rates`` are the stated ones, in the order of pages."""

    def __init__(self, rates: Iterable[Rate]) -> None:
        self.rates = tuple(sorted(rates, key=lambda rate: _place_order(*rate[:3])))
        stated: dict[tuple[str, int], dict[str, int]] = {(STANDARD, 0): {}}
        for rate in self.rates:
            stated.setdefault((rate.tier, rate.above), {})[rate.meter] = rate.nanos
        self._stated = stated
        self.tiers = tuple(dict.fromkeys(tier for tier, _ in stated if tier))
        # Of each tier, the longest prompts first.
        self._bands: dict[str, list[_Band]] = {tier: [] for tier in (STANDARD, *self.tiers)}
        for tier, above in sorted(stated, reverse=True):
            self._bands[tier].append(_Band(above, stated[tier, above], stated[STANDARD, 0]))
        for tier in self.tiers:
            if (tier, 0) not in stated:  # no form and no file makes such a price, but a settlement must not fail
                self._bands[tier] += self._bands[STANDARD]
        self.thresholds = sorted({above for _, above in stated} - {0})
        self._held: dict[tuple[str | None, bool, int], HeldRates] = {}
        self.basis_points = money.WHOLE
        self._shares: dict[int, RateSheet] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RateSheet) and (self.rates, self.basis_points) == (other.rates, other.basis_points)

    def __hash__(self) -> int:
        return hash(self.rates)

    def __repr__(self) -> str:
        return f"RateSheet({self.values})"

    def cost_nanos(self, usage: Usage, images: int = 0) -> int:
        """Return what the usage costs exactly, rounded up to the next nanodollar."""
        counts = (*_read_counts(usage), images)
        if OTHERS:
            counts += tuple(usage.others.get(meter.count, 0) for meter in OTHERS)
        return money.round_up(sum(map(mul, counts, self._band(usage.tier, usage.prompt_tokens).factors)), self.basis_points)

    def share(self, basis_points: int) -> "RateSheet":
        """Return the same rates, of which only so much is charged: what it costs is rounded up once, too."""
        shared = self._shares.get(basis_points)
        if shared is None:
            shared = self._shares[basis_points] = RateSheet(self.rates)
            shared.basis_points = basis_points
        return shared

    def parts(self, usage: Usage, images: int = 0) -> list[CostPart]:
        """Return what the usage costs, by meter, before the one rounding."""
        numbers = {meter.name: getattr(usage, meter.count) for meter in _COUNTED} | {"image": images}
        numbers |= {meter.name: usage.others.get(meter.count, 0) for meter in OTHERS}
        for meter in METERS:
            if meter.part_of:
                numbers[meter.part_of] -= numbers[meter.name]
        nanos = self._band(usage.tier, usage.prompt_tokens).nanos
        return [
            CostPart(self._described(meter, usage), numbers[meter.name], nanos[meter.name], meter.unit.number)
            for meter in _BY_FAMILY
            if numbers[meter.name]
        ]

    def _described(self, meter: Meter, usage: Usage) -> str:
        above = self.threshold(usage.tier, usage.prompt_tokens)
        tier = f", {usage.tier} tier" if usage.tier else ""
        return f"{meter.noun}{tier}{f', prompt above {above:,}' if above and meter.unit is Unit.TOKENS else ''}"

    def rate(self, meter: str, tier: str = STANDARD, prompt_tokens: int = 0) -> int:
        """Return the nanodollars that hold for a meter, at a service tier, for a prompt of this length."""
        return self._band(tier, prompt_tokens).nanos[meter]

    def stated(self, meter: str, tier: str = STANDARD, above: int = 0) -> int | None:
        """Return the rate that the price itself states; None where a default holds."""
        return self._stated.get((tier, above), {}).get(meter)

    @property
    def places(self) -> list[tuple[str, int]]:
        """The service tiers and thresholds with rates of their own, in the order of pages."""
        return sorted(self._stated, key=lambda place: (_TIER_ORDER[place[0]], place[1]))

    def nanos_of(self, meter: str, tier: str, above: int) -> int:
        """Return the nanodollars that hold for a meter in a length band; without the tier or the band those of what holds."""
        return self.rate(meter, tier, above + 1 if above else 0)

    def offers(self, meter: str, tier: str = STANDARD) -> bool:
        """Return whether a caller may ask for what this meter counts, at this service tier."""
        is_of_all_tiers = BY_NAME[meter].unit is Unit.EACH and meter in self._stated[STANDARD, 0]
        return is_of_all_tiers or meter in self._stated.get((tier, 0), ())

    def bands(self, tier: str) -> list[int]:
        """Return the thresholds of a tier, the lowest first."""
        return sorted(band.above for band in self._bands.get(tier, ()) if band.above)

    def threshold(self, tier: str, prompt_tokens: int) -> int:
        """Return the threshold of the length band that a prompt is charged in."""
        return self._band(tier, prompt_tokens).above

    def _band(self, tier: str, prompt_tokens: int) -> _Band:
        for band in self._bands.get(tier) or self._bands[STANDARD]:
            if prompt_tokens > band.above or not band.above:
                return band
        raise AssertionError("each tier has a band without a threshold")

    def held(self, tier: str | None, prompt_tokens_max: int, *, has_hour_cache: bool = False) -> HeldRates:
        """Return the dearest rates that a prompt of at most this length may be charged at.

        A provider may serve the tier that it is asked for, the standard one, and one that no request can ask for. ``tier`` is
        None where the request leaves it to the provider, which then may serve any of them.
        """
        key = tier, has_hour_cache, bisect_left(self.thresholds, prompt_tokens_max)
        if found := self._held.get(key):
            return found
        bands = [
            band
            for served, bands in self._bands.items()
            if tier is None or served in (STANDARD, tier) or served in meters.UNASKED_TIERS
            for band in bands
            if band.above < prompt_tokens_max or not band.above
        ]
        dearest = (max(_dearest(band, root, has_hour_cache) for band in bands) for root in _ROOTS)
        return self._held.setdefault(key, HeldRates(*dearest))

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]]) -> "RateSheet":
        return cls(Rate(row["meter"], row["tier"], row["above"], row["nanos"]) for row in rows)

    @classmethod
    def of_values(cls, values: Mapping[str, str | None]) -> "RateSheet":
        """Return the sheet of dollars by name. Raises ValueError for what is no price; names of no rate are left out."""
        named = {name: (parse_name(name), value) for name, value in values.items() if value is not None}
        return cls(Rate(*place, money.price_nanos(value)) for place, value in named.values() if place)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [rate._asdict() for rate in self.rates]

    @cached_property
    def values(self) -> Values:
        return {rate.name: dollars.format_plain(rate.nanos) for rate in self.rates}

    def __iter__(self) -> Iterator[Rate]:
        return iter(self.rates)

    def map(self, change: Any) -> "RateSheet":
        """Return the sheet with each rate changed by a function of nanodollars."""
        return RateSheet(rate._replace(nanos=change(rate.nanos)) for rate in self.rates)


def _dearest(band: _Band, root: str, has_hour_cache: bool) -> int:
    return max(
        nanos
        for name, nanos in band.nanos.items()
        if root == meters.lineage(BY_NAME[name])[-1] and (name == root or has_hour_cache or not BY_NAME[name].is_asked_for)
    )


def _place_order(meter: str, tier: str, above: int) -> tuple[int, int, int]:
    return _TIER_ORDER[tier], above, _METER_ORDER[meter]


def rate_name(meter: str, tier: str = STANDARD, above: int = 0) -> str:
    return f"{f'{tier}_' if tier else ''}{meter}{f'_above_{above}' if above else ''}"


def place_title(tier: str, above: int) -> str:
    """Return the title of a service tier and a length band: ``Flex tier, prompts above 200,000 tokens``; "" for neither."""
    title = meters.TIERS.get(tier, "")
    return f"{title}{', prompts' if title else 'Prompts'} {_above(above)}" if above else title


def parse_name(name: str) -> tuple[str, str, int] | None:
    """Return meter, service tier and threshold of a rate's name; None for a name of no rate."""
    found = _NAME.fullmatch(name)
    above = int(found[3] or 0) if found else 0
    return (found[2], found[1] or STANDARD, above) if found and above <= ABOVE_MAX else None


def describe_place(tier: str, above: int) -> str:
    """Return a service tier and a length band in words: ``of the flex tier above 200,000 prompt tokens``."""
    title = meters.TIERS.get(tier, "")
    words = [f"of the {title.lower() if title.endswith(' tier') else f'{title} tier'}"] if tier else []
    return " ".join([*words, *([f"above {above:,} prompt tokens"] if above else [])])


def describe_name(name: str) -> str:
    """Return the name of a rate in words: ``cached input of the flex tier``; "each image"."""
    place = parse_name(name)
    assert place is not None
    meter = BY_NAME[place[0]]
    title = meter.title.lower() if meter.unit is Unit.TOKENS else f"each {meter.title.lower()}"
    return f"{title} {describe_place(*place[1:])}".rstrip()


def incomplete_place(names: Iterable[str]) -> tuple[str, int] | None:
    """Return a tier and a threshold with some rate, but not with both of input and output; None if there is none."""
    stated: dict[tuple[str, int], set[str]] = {}
    for place in filter(None, map(parse_name, names)):
        stated.setdefault(place[1:], set()).add(place[0])
    # A tier without rates for short prompts has none.
    stated.update({(tier, 0): stated.get((tier, 0), set()) for tier, _ in list(stated)})
    return next((place for place, found in stated.items() if not found.issuperset(meters.REQUIRED)), None)


def sort_names(names: Iterable[str]) -> list[str]:
    """Return the names of rates among these, in the order of pages."""
    places = [(place, name) for name in names if (place := parse_name(name))]
    return [name for place, name in sorted(places, key=lambda each: _place_order(*each[0]))]
