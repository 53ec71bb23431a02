"""Parses a provider's list of models: in the shape of OpenRouter, Anthropic, Gemini, or OpenAI, which has names alone. Pure.

One parser reads all shapes, each field on its own: a field that is missing, or that is implausible, becomes None, and
the catalog keeps its value. A list that is invalid as a whole, or only a part of the whole, is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from billing import money
from completions.pricing import meters, rates
from completions.pricing.meters import BY_NAME
from gateway_project import errors
from gateway_project.text import dollars
from gateway_project.web import strict_json

_COUNT_MAX = 2**31 - 1
_LISTED = re.compile(r"\d{1,6}(\.\d{1,40})?([eE]-\d{1,2})?", re.ASCII)
_EXACT = Context(prec=100)
# For lists that do not say what a model generates: models with these names do not chat.
_NO_CHAT = re.compile(r"embed|whisper|tts|dall-e|moderation|transcribe|realtime|sora|image|rerank")
Table = dict[str, Any]  # fields of a list
_LATEST = re.compile(r"-(?:latest|0)$")  # of Anthropic's names that stand for a date


class InvalidList(Exception):
    """The body is not a complete list of models. The message is a predicate: "<the list> is not one JSON object"."""


@dataclass(frozen=True)
class ListedModel:
    """A model as the provider lists it; None where the list does not say. ``notes`` are predicates for staff.

    ``price`` is rates by name, in US dollars: input, output and what else is listed, such as input_above_200000.
    """

    id: str
    alias: str = ""
    name: str | None = None
    maker: str | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    image_support: bool | None = None
    function_calling: bool | None = None
    price: Mapping[str, str] | None = None
    is_chat: bool = True
    notes: tuple[str, ...] = ()


def parse_list(body: bytes) -> dict[str, ListedModel]:
    """Return the listed models by their names at the provider. Raises InvalidList."""
    try:
        document = strict_json.loads(body)
    except errors.InvalidRequest:
        raise InvalidList("is not one JSON object") from None
    rows = document.get("data", document.get("models"))
    if not isinstance(rows, list):
        raise InvalidList('has no "data" with the models')
    links, total = document.get("links"), document.get("total_count")
    is_followed = isinstance(links, dict) and bool(links.get("next"))
    if (
        is_followed
        or document.get("has_more") is True
        or document.get("nextPageToken")
        or (type(total) is int and total > len(rows))
    ):
        raise InvalidList("is only a part of what there is")
    models: dict[str, ListedModel] = {}
    for model in filter(None, map(_listed_model, rows)):
        if models.setdefault(model.id, model) != model:
            models[model.id] = ListedModel(model.id, notes=("is listed twice, and not the same",))
    return models


def find_model(models: Mapping[str, ListedModel], upstream_model: str) -> ListedModel | None:
    """Return the listed model with this name, this permanent slug, or this name and a date, the latest, or None."""
    if upstream_model in models:
        return models[upstream_model]
    dated = re.compile(rf"{re.escape(_LATEST.sub('', upstream_model))}(?:-20\d{{6}})?")
    found = (model for model in models.values() if model.alias == upstream_model or dated.fullmatch(model.id))
    return max(found, key=lambda model: model.id, default=None)


def is_listed(models: Mapping[str, ListedModel], upstream_model: str) -> bool:
    """Whether the provider serves this name: it is listed, or for ``model:variant`` the model, or for ``model`` its latest."""
    names = (upstream_model, upstream_model.rpartition(":")[0], f"{upstream_model}:latest")
    return any(find_model(models, name) for name in names if name)


def _listed_model(row: Any) -> ListedModel | None:
    """Return the model of a row; None if the row has no usable id."""
    row = _table(row)
    model_id = _text(row.get("id") or str(row.get("name") or "").removeprefix("models/"), 200)
    if model_id is None or " " in model_id:
        return None
    notes: list[str] = []
    maker, name = _names(row)
    inputs, outputs = (_words(_table(row.get("architecture")).get(side)) for side in ("input_modalities", "output_modalities"))
    parameters = _words(row.get("supported_parameters"))
    context_window = _first_count(row, "context_length", "max_input_tokens", "inputTokenLimit")
    max_output_tokens = _max_output(row, context_window, notes)
    price = _price(row.get("pricing"), notes)
    if day := _text(row.get("expiration_date"), 40) or _text(row.get("shutdown_date"), 40):
        notes.append(f"is listed to end on {day}")
    return ListedModel(
        id=model_id,
        # A variant has the same permanent slug as its model, but may have another price.
        alias="" if ":" in model_id else _text(row.get("canonical_slug"), 200) or "",
        name=name,
        maker=maker,
        context_window=context_window,
        max_output_tokens=max_output_tokens,
        image_support="image" in inputs if inputs else _reads_images(row),
        function_calling="tools" in parameters if parameters else None,
        price=price,
        # Names that begin so are aliases of other models, and routers among models.
        is_chat=not model_id.startswith(("~", "openrouter/")) and _writes_text(row, outputs, model_id),
        notes=tuple(notes),
    )


def _reads_images(row: Table) -> bool | None:
    """Return what Anthropic's list says."""
    said = _table(_table(row.get("capabilities")).get("image_input")).get("supported")
    return said if isinstance(said, bool) else None


def _writes_text(row: Table, outputs: set[str], model_id: str) -> bool:
    """Return what Gemini's methods say, or else OpenRouter's ``outputs``, or else the name."""
    if methods := _words(row.get("supportedGenerationMethods")):
        return "generateContent" in methods
    return "text" in outputs if outputs else not _NO_CHAT.search(model_id.lower())


def _names(row: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the maker and the name. OpenRouter writes both into one field: "OpenAI: GPT-4o-mini"."""
    name = _text(row.get("displayName") or row.get("display_name") or row.get("name"), 200)
    maker, _, rest = (name or "").partition(": ")
    if maker and rest.strip() and len(maker) <= 100:
        return maker.strip(), rest.strip()
    return _text(row.get("owned_by"), 100), name


def _max_output(row: dict[str, Any], context_window: int | None, notes: list[str]) -> int | None:
    tokens = _count(_table(row.get("top_provider")).get("max_completion_tokens"))
    tokens = tokens or _first_count(row, "max_tokens", "outputTokenLimit")
    if tokens and context_window and tokens > context_window:
        notes.append(f"lists {tokens} output tokens, more than its context window of {context_window}")
        return None
    return tokens


_PRICE_FIELDS = {
    *meters.OPENROUTER_NAMES.values(),
    *("request", "internal_reasoning", "discount", "image_token", "image_output", "audio", "audio_output", "input_audio_cache"),
}


def _price(pricing: Any, notes: list[str]) -> dict[str, str] | None:
    """Return the listed rates, by name: those of all prompts, and of longer ones where they differ."""
    if not isinstance(pricing, dict):
        return None
    overrides = list(filter(None, map(_table, _rows(pricing.get("overrides")))))
    try:
        if any(_highest([table], "request", meters.Unit.TOKENS) for table in (pricing, *overrides)):
            notes.append("costs something for each request, which the catalog cannot represent")
            return None
        bands = {above: _band(_tables(pricing, overrides, above)) for above in sorted({0, *map(_threshold, overrides)})}
    except ValueError as error:
        notes.append(f"has an implausible price: {error}")
        return None
    return {
        rates.rate_name(name, above=above): dollars.format_plain(nanos)
        for place, (above, band) in enumerate(bands.items())
        if not place or band != list(bands.values())[place - 1]
        for name, nanos in band.items()
        if not above or BY_NAME[name].unit is meters.Unit.TOKENS or nanos != bands[0].get(name)
    }


def _threshold(override: Table) -> int:
    return _count(override.get("min_prompt_tokens")) or 0


def _is_by_length(override: Table) -> bool:
    """Whether the length of the prompt alone decides; otherwise the hour does, too, or what is not known here."""
    return override.keys() - _PRICE_FIELDS == {"min_prompt_tokens"} and _threshold(override) > 0


def _tables(pricing: Table, overrides: list[Table], above: int) -> list[Table]:
    """Return the tables that may hold for prompts above a threshold. Of the overrides that apply the later ones win."""
    applying = [override for override in overrides if _threshold(override) <= above]
    table = dict(pricing)
    for override in filter(_is_by_length, applying):
        table |= {field: value for field, value in override.items() if value is not None}
    return [table, *({**table, **override} for override in applying if not _is_by_length(override))]


def _band(tables: list[Table]) -> dict[str, int]:
    """Return the highest rates of some tables, because the catalog has one price for all hours.

    Reasoning tokens are billed as generated ones, at the dearer price. Lists write "0" where there is no price of a meter.
    """
    for field in ("prompt", "completion"):
        if tables[0].get(field) is None:
            raise ValueError(f"{field} is missing")
    nanos = {name: _highest(tables, field, BY_NAME[name].unit) for name, field in meters.OPENROUTER_NAMES.items()}
    nanos["output"] = max(nanos["output"], _highest(tables, "internal_reasoning", meters.Unit.TOKENS))
    return {name: amount for name, amount in nanos.items() if amount or name in meters.REQUIRED}


def _highest(tables: list[Table], field: str, unit: meters.Unit) -> int:
    return max((_nanos(field, table[field], unit) for table in tables if table.get(field) is not None), default=0)


def _nanos(field: str, listed: Any, unit: meters.Unit) -> int:
    """Convert dollars per token, image or search, as text, exactly into nanodollars of a rate. Raises ValueError."""
    problem = ValueError(f"{field} {str(listed)[:40]!r}")
    if not isinstance(listed, str) or not _LISTED.fullmatch(listed):
        raise problem
    exact = _EXACT.multiply(Decimal(listed), Decimal(dollars.NANOS_PER_DOLLAR * unit.number))
    if exact != exact.to_integral_value():
        raise problem
    try:
        return money.price_nanos(dollars.format_plain(int(exact)))
    except ValueError:
        raise problem from None


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(value: Any) -> set[str]:
    return {word for word in _rows(value) if isinstance(word, str)}


def _count(value: Any) -> int | None:
    return value if type(value) is int and 1 <= value <= _COUNT_MAX else None


def _first_count(row: dict[str, Any], *names: str) -> int | None:
    return next(filter(None, (_count(row.get(name)) for name in names)), None)


def _text(value: Any, characters_max: int) -> str | None:
    text = value.strip() if isinstance(value, str) else ""
    return text if text.isprintable() and 1 <= len(text) <= characters_max else None
