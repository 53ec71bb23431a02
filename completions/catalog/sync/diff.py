"""Compares a provider's list with the catalog, describes the differences, and decides which apply without approval. Pure.

A list can change only the models whose first route leads to its provider. Fields that the list leaves out keep their value.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

from billing import money
from completions.catalog import rules
from completions.catalog.sync import parse
from completions.catalog.sync.parse import ListedModel
from completions.models import CatalogProposal, LanguageModel
from completions.pricing import meters, rates
from completions.pricing.rates import RateSheet
from gateway_project.text import dollars

Kind = CatalogProposal.Kind
Values = dict[str, Any]  # JSON: counts, booleans, and prices as text, in US dollars per million tokens


def compare(
    provider: str, listed: Mapping[str, ListedModel], models: Iterable[LanguageModel], routed: Collection[str]
) -> tuple[list[CatalogProposal], list[str]]:
    """Compare a list with every model, ``with_price_and_routes``. ``routed`` are names of its routes, disabled ones included.

    Return the differences, which staff can approve, unsaved; and sentences about findings that cannot be approved.
    """
    found, notes, catalog = list[CatalogProposal](), list[str](), list(models)
    for model in catalog:
        for route in model.enabled_routes:
            if route.provider_id != provider:
                continue
            listed_model = parse.find_model(listed, route.upstream_model)
            if listed_model is not None and route is model.enabled_routes[0]:
                found += _compare_model(model, listed_model, notes)
            elif not parse.is_listed(listed, route.upstream_model):
                name = route.upstream_model
                old = {"upstream_model": name}
                found.append(CatalogProposal(kind=Kind.GONE, upstream_model=name, model_id=model.pk, old=old, new={}))
    found += _new_models(provider, listed, routed, {model.pk for model in catalog})
    for proposal in found:
        proposal.provider_id = provider
    return found, notes


def _compare_model(model: LanguageModel, listed_model: ListedModel, notes: list[str]) -> list[CatalogProposal]:
    notes += [f"{model.pk} {note}" for note in listed_model.notes]
    pairs = [(Kind.LIMITS, *_limits(model, listed_model)), (Kind.CAPABILITIES, *_capabilities(model, listed_model))]
    if listed_model.price is not None:
        old, new = _price(model, listed_model.price)
        changed = {name: value for name, value in new.items() if old.get(name) != value}
        # To become free is not accepted: lists write "0" for free, for unknown, and by mistake.
        if any(rate.meter in meters.REQUIRED and not rate.nanos for rate in RateSheet.of_values(changed)):
            notes.append(f"{model.pk} is listed with a price of 0, which is not accepted")
        else:
            pairs.append((Kind.PRICE, old, new))
    propose = partial(CatalogProposal, upstream_model=listed_model.id, model_id=model.pk)
    return [propose(kind=kind, old=old, new=new) for kind, old, new in pairs if old != new]


def _limits(model: LanguageModel, listed_model: ListedModel) -> tuple[Values, Values]:
    window = listed_model.context_window or model.context_window
    new = {
        "context_window": window,
        "max_output_tokens": min(listed_model.max_output_tokens or model.max_output_tokens, window),
    }
    return {name: getattr(model, name) for name in new}, new


def _capabilities(model: LanguageModel, listed_model: ListedModel) -> tuple[Values, Values]:
    old = {"image_support": model.image_support, "function_calling": model.function_calling}
    new = {name: getattr(listed_model, name) for name in old}
    return old, {name: old[name] if new[name] is None else new[name] for name in old}


def _price(model: LanguageModel, listed: Mapping[str, str]) -> tuple[Values, Values]:
    """Return the price before and after. Length bands are those of the list if it has some."""
    old = model.prices_in_force[0].sheet.values if model.prices_in_force else {}
    kept = {name: value for name, value in old.items() if not _is_band(name)} if any(map(_is_band, listed)) else old
    return old, {**kept, **listed}


def _is_band(name: str) -> bool:
    """Whether a rate is of longer prompts, in the standard tier, of which lists have the price."""
    place = rates.parse_name(name)
    return place is not None and not place[1] and place[2] > 0


def _new_models(
    provider: str, listed: Mapping[str, ListedModel], routed: Collection[str], taken: Collection[str]
) -> Iterator[CatalogProposal]:
    for listed_model in listed.values():
        model_id = listed_model.id if "/" in listed_model.id else f"{provider}/{listed_model.id}"
        if (
            listed_model.is_chat
            and _is_valid_id(model_id)
            and model_id not in taken
            and not {listed_model.id, listed_model.alias} & set(routed)
        ):
            new = _new_values(model_id, listed_model)
            yield CatalogProposal(kind=Kind.NEW_MODEL, upstream_model=listed_model.id, old={}, new=new)


def _is_valid_id(model_id: str) -> bool:
    try:
        return bool(rules.clean_model_id(model_id))
    except ValueError:
        return False


def _new_values(model_id: str, listed_model: ListedModel) -> Values:
    price = listed_model.price
    is_free = price is None or not all(money.price_nanos(price[name]) for name in meters.REQUIRED)
    return {
        "id": model_id,
        "name": listed_model.name or model_id,
        "maker": listed_model.maker or model_id.partition("/")[0][:100],
        "context_window": listed_model.context_window,
        "max_output_tokens": listed_model.max_output_tokens or listed_model.context_window,
        "image_support": bool(listed_model.image_support),
        "function_calling": bool(listed_model.function_calling),
        "price": None if is_free else price,
    }


def can_apply_automatically(kind: str, old: Values, new: Values, *, percent: int) -> bool:
    """Whether a change may be applied without approval: it is plausible, takes nothing from callers and adds no model.

    A price changes by at most ``percent``: a list that is wrong by a factor must not overcharge callers, nor make us sell below
    cost. Windows may only grow, capabilities only be added. New models, models that are gone and first prices need approval.
    """
    match kind:
        case Kind.PRICE if old:
            pairs = rates_before_and_after(RateSheet.of_values(old), RateSheet.of_values(new))
            return all(abs(after - before) * 100 <= percent * before for _, _, before, after in pairs)
        case Kind.LIMITS | Kind.CAPABILITIES:
            return all(new[name] >= old[name] for name in old)
    return False


def rates_before_and_after(before: RateSheet, after: RateSheet) -> Iterator[tuple[str, str, int, int]]:
    """Yield meter, tier, and what holds before and after, in nanodollars, at every tier and length that either price knows."""
    tiers, lengths = {rates.STANDARD, *before.tiers, *after.tiers}, {0, *before.thresholds, *after.thresholds}
    for meter, tier, above in product(meters.BY_NAME, tiers, lengths):
        yield meter, tier, before.nanos_of(meter, tier, above), after.nanos_of(meter, tier, above)


_LABELS = {
    "context_window": "context window",
    "max_output_tokens": "output at most",
    "image_support": "images",
    "function_calling": "functions",
}


def _described_names(values: Values) -> list[str]:
    """Return the names that are described: those of rates, and then the others."""
    return [*rates.sort_names(values), *(name for name in _LABELS if name in values)]


def _label(name: str) -> str:
    return _LABELS.get(name) or rates.describe_name(name)


def describe_values(values: Values) -> list[str]:
    """Describe each value: "input $0.15", "images yes"."""
    flat = {**(values.get("price") or {}), **values}
    return [f"{_label(name)} {_described(flat[name])}" for name in _described_names(flat) if flat[name] is not None]


def describe_change(kind: str, old: Values, new: Values) -> str:
    """Describe what changes, and only that: "input $0.15 -> $0.20"."""
    if kind == Kind.GONE:
        return "no longer listed"
    if kind == Kind.NEW_MODEL:
        return f"new: {', '.join(describe_values(new)) or 'nothing said of it'}"
    changed = [name for name in _described_names({**old, **new}) if old.get(name) != new.get(name)]
    return ", ".join(f"{_label(name)} {_described(old.get(name))} -> {_described(new.get(name))}" for name in changed)


def describe_price_change(old: Values, new: Values) -> str:
    """Describe what changes of a price, in percent: "input $0.50 -> $0.60 (+20 %)"."""
    old, new = ({**implied, **values} for implied, values in zip(_implied(old, new), (old, new), strict=True))
    before, after = RateSheet.of_values(old), RateSheet.of_values(new)
    changes = []
    for name in rates.sort_names({**old, **new}):
        if old.get(name) != new.get(name):
            percent = _percent(name, before, after)
            changes.append(f"{_label(name)} {_described(old.get(name))} -> {_described(new.get(name))}{percent}")
    return ", ".join(changes)


def _implied(old: Values, new: Values) -> tuple[Values, Values]:
    """Return rates that no price states and that change because a tier or a band begins or ends, as that of cached input."""
    sheets = RateSheet.of_values(old), RateSheet.of_values(new)
    places = [{(rate.tier, rate.above) for rate in sheet} for sheet in sheets]
    stated = {rate.meter for sheet in sheets for rate in sheet if not rate.tier and not rate.above} - meters.ASKED_FOR
    changed = [(meter, *place) for meter, place in product(stated, places[0] ^ places[1] if old else ())]
    unstated = {name: rate for rate in changed if (name := rates.rate_name(*rate)) not in {**old, **new}}
    before, after = (
        {name: dollars.format_plain(sheet.nanos_of(*rate)) for name, rate in unstated.items() if rate[1] in ("", *sheet.tiers)}
        for sheet in sheets
    )
    return before, after


def _percent(name: str, old: RateSheet, new: RateSheet) -> str:
    """Return the change of what holds for a rate: where it is not stated, that of what it is a part of."""
    place = rates.parse_name(name)
    assert place is not None
    before, after = old.nanos_of(*place), new.nanos_of(*place)
    return f" ({f'{(after - before) * 100 / before:+,.1f}'.removesuffix('.0')} %)" if before else ""


def _described(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return f"${value}"
    return "none" if value is None else str(value)
