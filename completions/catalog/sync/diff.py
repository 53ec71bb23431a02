"""An upstream's list against the catalog: what differs, in words, and what may change without anybody's approval. Pure.

A list speaks for the models that are asked from its provider first. What it does not say stays as it is with us.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from billing import money
from completions.catalog import rules
from completions.catalog.sync import parse as upstream_list
from completions.catalog.sync.parse import Entry
from completions.models import CatalogProposal, LanguageModel, Price

Kind = CatalogProposal.Kind
Values = dict[str, Any]  # as JSON keeps them: counts, booleans, and prices as text, in US dollars per million tokens
PRICE_FIELDS = ("input", "output", "cached_input", "cache_write", "image")  # the last one for each image


@dataclass(frozen=True)
class Difference:
    """Something that the list says otherwise. ``model_id`` is ours; empty for a model that we do not offer."""

    kind: Kind
    upstream_model: str
    model_id: str
    old: Values
    new: Values


@dataclass
class Comparison:
    """``notes`` are sentences about what differs, or may, and is nothing that could be approved."""

    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare(
    provider: str, entries: Mapping[str, Entry], models: Iterable[LanguageModel], routed: Collection[str]
) -> Comparison:
    """``models`` are all there are, ``with_terms``; ``routed`` are the provider's names in all our routes, off ones too."""
    found = Comparison()
    known = list(models)
    for model in known:
        for route in model.enabled_routes:
            if route.provider_id != provider:
                continue
            entry = upstream_list.find(entries, route.upstream_model)
            if entry is not None and route is model.enabled_routes[0]:
                _compare(model, entry, found)
            elif not upstream_list.is_listed(entries, route.upstream_model):
                here = {"upstream_model": route.upstream_model}
                found.differences.append(Difference(Kind.GONE, route.upstream_model, model.pk, here, {}))
    found.differences += _new(provider, entries, routed, {model.pk for model in known})
    return found


def _compare(model: LanguageModel, entry: Entry, found: Comparison) -> None:
    found.notes += [f"{model.pk} {note}" for note in entry.notes]
    pairs = [(Kind.LIMITS, *_limits(model, entry)), (Kind.CAPABILITIES, *_capabilities(model, entry))]
    if entry.price is not None:
        old, new = _price(model, entry.price)
        if _is_given_away(old, new):
            found.notes.append(f"{model.pk} is listed with a price of 0, which is not believed")
        else:
            pairs.append((Kind.PRICE, old, new))
    found.differences += [Difference(kind, entry.id, model.pk, old, new) for kind, old, new in pairs if old != new]


def _limits(model: LanguageModel, entry: Entry) -> tuple[Values, Values]:
    window = entry.context_window or model.context_window
    new = {"context_window": window, "max_output_tokens": min(entry.max_output_tokens or model.max_output_tokens, window)}
    return {name: getattr(model, name) for name in new}, new


def _capabilities(model: LanguageModel, entry: Entry) -> tuple[Values, Values]:
    old = {"image_support": model.image_support, "function_calling": model.function_calling}
    said = {name: getattr(entry, name) for name in old}
    return old, {name: old[name] if said[name] is None else said[name] for name in old}


def _price(model: LanguageModel, listed: Mapping[str, str]) -> tuple[Values, Values]:
    old = price_values(model.prices_in_force[0]) if model.prices_in_force else {}
    return old, {**dict.fromkeys(PRICE_FIELDS), **old, **listed}


def _is_given_away(old: Values, new: Values) -> bool:
    """Lists have "0" for what is free, for what is not known, and by mistake."""
    return any(not _nanos(new[name]) and old.get(name) != new[name] for name in ("input", "output"))


def _new(provider: str, entries: Mapping[str, Entry], routed: Collection[str], taken: Collection[str]) -> Iterator[Difference]:
    for entry in entries.values():
        model_id = entry.id if "/" in entry.id else f"{provider}/{entry.id}"
        if entry.is_chat and _is_id(model_id) and model_id not in taken and not {entry.id, entry.alias} & set(routed):
            yield Difference(Kind.NEW_MODEL, entry.id, "", {}, _new_values(model_id, entry))


def _is_id(model_id: str) -> bool:
    try:
        return bool(rules.clean_model_id(model_id))
    except ValueError:
        return False


def _new_values(model_id: str, entry: Entry) -> Values:
    free = entry.price is None or not (_nanos(entry.price["input"]) and _nanos(entry.price["output"]))
    return {
        "id": model_id,
        "name": entry.name or model_id,
        "maker": entry.maker or model_id.partition("/")[0][:100],
        "context_window": entry.context_window,
        "max_output_tokens": entry.max_output_tokens or entry.context_window,
        "image_support": bool(entry.image_support),
        "function_calling": bool(entry.function_calling),
        "price": None if free else {**dict.fromkeys(PRICE_FIELDS), **(entry.price or {})},
    }


# --- Prices, between a row and JSON -----------------------------------------------------------------------------------


def price_values(price: Price) -> Values:
    return {name: None if nanos is None else money.dollars(nanos) for name, nanos in _columns(price)}


def price_columns(values: Values) -> dict[str, int | None]:
    return {f"{name}_nanos": _nanos(values[name]) for name in PRICE_FIELDS}


def _columns(price: Price) -> Iterator[tuple[str, int | None]]:
    return ((name, getattr(price, f"{name}_nanos")) for name in PRICE_FIELDS)


def _nanos(dollars: str | None) -> int | None:
    return None if dollars is None else money.price_nanos(dollars)


# --- The rule ---------------------------------------------------------------------------------------------------------


def is_small(kind: str, old: Values, new: Values, *, percent: int) -> bool:
    """Whether it may be applied without approval: it takes nothing from callers, makes nothing new, and is plausible.

    A price moves by at most ``percent``, either way: a list that is wrong by a factor must neither overcharge nor give away.
    Windows only grow, capabilities are only added. New models, ones that are gone and first prices wait for people.
    """
    match kind:
        case Kind.PRICE:
            return bool(old) and all(_is_near(*_effective(name, old, new), percent) for name in PRICE_FIELDS)
        case Kind.LIMITS | Kind.CAPABILITIES:
            return all(new[name] >= old[name] for name in old)
    return False


def _effective(name: str, old: Values, new: Values) -> tuple[int, int]:
    """What is charged before and after, in nanodollars: without a price of its own a cached token costs as input."""
    default = None if name == "image" else "input"
    before, after = (_nanos(values[name] or (default and values[default])) or 0 for values in (old, new))
    return before, after


def _is_near(before_nanos: int, after_nanos: int, percent: int) -> bool:
    return abs(after_nanos - before_nanos) * 100 <= percent * before_nanos


# --- Words ------------------------------------------------------------------------------------------------------------

_LABELS = {
    "input": "input",
    "output": "output",
    "cached_input": "cached input",
    "cache_write": "cache write",
    "image": "each image",
    "context_window": "context window",
    "max_output_tokens": "output at most",
    "image_support": "images",
    "function_calling": "functions",
}


def words(values: Values) -> list[str]:
    """Each value as people read it: "input $0.15", "images yes"."""
    flat = {**(values.get("price") or {}), **values}
    return [f"{label} {_said(flat[name])}" for name, label in _LABELS.items() if flat.get(name) is not None]


def sentence(kind: str, old: Values, new: Values) -> str:
    """What would change, and nothing else: "input $0.15 -> $0.20"."""
    if kind == Kind.GONE:
        return "no longer listed"
    if kind == Kind.NEW_MODEL:
        return f"new: {', '.join(words(new)) or 'nothing said of it'}"
    changed = [name for name in _LABELS if old.get(name) != new.get(name)]
    return ", ".join(f"{_LABELS[name]} {_said(old.get(name))} -> {_said(new.get(name))}" for name in changed)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return f"${value}"
    return "none" if value is None else str(value)
