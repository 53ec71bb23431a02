"""An upstream's own list of its models, as OpenRouter writes it, or OpenAI, who says little but the names. Pure.

One reader for both: each field is read for itself, and what is not there, or cannot be believed, is None and stays as it is
with us. A list that is wrong as a whole, or only a part, is no list.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from billing import money
from gateway_project import dollars, errors
from gateway_project.web import strict_json

_COUNT_MAX = 2**31 - 1
_PER_TOKEN = re.compile(r"\d{1,6}(\.\d{1,40})?([eE]-\d{1,2})?", re.ASCII)
_EXACT = Context(prec=100)
_NANOS_PER_MILLION = dollars.NANOS_PER_DOLLAR * money.TOKENS_PER_PRICE
# Where a list does not say what its models are for, their names do: these answer no chat.
_NO_CHAT = re.compile(r"embed|whisper|tts|dall-e|moderation|transcribe|realtime|sora|image|rerank")


class InvalidList(Exception):
    """It is not the whole of a list of models; the words say why, as one says it of the list."""


@dataclass(frozen=True)
class ListedModel:
    """A model as its upstream lists it. None: the list does not say.

    ``price`` is in US dollars per million tokens, as text: input, output, and where listed cached_input and cache_write.
    ``notes`` are for people: what could not be believed, as one says it of the model.
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
    """Its models, by the names they have there. Raises InvalidList."""
    try:
        answer = strict_json.loads(body)
    except errors.InvalidRequest:
        raise InvalidList("is not one JSON object") from None
    rows = answer.get("data")
    if not isinstance(rows, list):
        raise InvalidList('has no "data" with the models')
    if _is_part(answer, rows):
        raise InvalidList("is only a part of what there is")
    models: dict[str, ListedModel] = {}
    for model in filter(None, map(_listed_model, rows)):
        if models.setdefault(model.id, model) != model:
            models[model.id] = ListedModel(model.id, notes=("is listed twice, and not the same",))
    return models


def find_model(models: Mapping[str, ListedModel], upstream_model: str) -> ListedModel | None:
    """The model of a model under this name, which may be its permanent one. None: it is not listed."""
    if upstream_model in models:
        return models[upstream_model]
    return next((model for model in models.values() if model.alias == upstream_model), None)


def is_listed(models: Mapping[str, ListedModel], upstream_model: str) -> bool:
    """Whether it can be asked for: ``model:variant`` can wherever ``model`` is listed, and ``model`` where its latest is."""
    names = (upstream_model, upstream_model.rpartition(":")[0], f"{upstream_model}:latest")
    return any(find_model(models, name) for name in names if name)


def _is_part(answer: dict[str, Any], rows: list[Any]) -> bool:
    links, total = answer.get("links"), answer.get("total_count")
    is_followed = isinstance(links, dict) and bool(links.get("next"))
    return is_followed or answer.get("has_more") is True or (type(total) is int and total > len(rows))


def _listed_model(row: Any) -> ListedModel | None:
    """None for what is no model under a name."""
    row = _table(row)
    model_id = _text(row.get("id"), 200)
    if model_id is None or " " in model_id:
        return None
    notes: list[str] = []
    maker, name = _names(row)
    inputs, outputs = (_words(_table(row.get("architecture")).get(side)) for side in ("input_modalities", "output_modalities"))
    parameters = _words(row.get("supported_parameters"))
    context_window = _count(row.get("context_length"))
    return ListedModel(
        id=model_id,
        # A variant shares the permanent name of its model, and may have another price.
        alias="" if ":" in model_id else _text(row.get("canonical_slug"), 200) or "",
        name=name,
        maker=maker,
        context_window=context_window,
        max_output_tokens=_max_output(row, context_window, notes),
        image_support="image" in inputs if inputs else None,
        function_calling="tools" in parameters if parameters else None,
        price=_price(row.get("pricing"), notes),
        is_chat=_is_chat(model_id, outputs),
        notes=(*notes, *_end(row)),
    )


def _names(row: dict[str, Any]) -> tuple[str | None, str | None]:
    """Who made it and what it is called: OpenRouter's "OpenAI: GPT-4o-mini" says both."""
    name = _text(row.get("name"), 200)
    maker, _, rest = (name or "").partition(": ")
    if maker and rest.strip() and len(maker) <= 100:
        return maker.strip(), rest.strip()
    return _text(row.get("owned_by"), 100), name


def _max_output(row: dict[str, Any], context_window: int | None, notes: list[str]) -> int | None:
    tokens = _count(_table(row.get("top_provider")).get("max_completion_tokens"))
    if tokens and context_window and tokens > context_window:
        notes.append(f"is said to write {tokens} tokens, and to hold {context_window}")
        return None
    return tokens


def _is_chat(model_id: str, outputs: set[str]) -> bool:
    if model_id.startswith(("~", "openrouter/")):  # names that stand for another model, and choosers among models
        return False
    return "text" in outputs if outputs else not _NO_CHAT.search(model_id.lower())


def _end(row: dict[str, Any]) -> list[str]:
    day = _text(row.get("expiration_date"), 40) or _text(row.get("shutdown_date"), 40)
    return [f"is said to end on {day}"] if day else []


# --- Prices -----------------------------------------------------------------------------------------------------------


def _price(pricing: Any, notes: list[str]) -> dict[str, str] | None:
    """What it may cost at most: one price of ours holds for every request, however long, and thoughts are generated tokens."""
    if not isinstance(pricing, dict):
        return None
    tables = [pricing, *filter(None, map(_table, _rows(pricing.get("overrides"))))]
    try:
        if _highest(tables, "request"):
            notes.append("costs something for each request, which no price here can say")
            return None
        nanos = {
            "input": _required(pricing, tables, "prompt"),
            "output": _required(pricing, tables, "completion", "internal_reasoning"),
            # Lists have "0" here for what there is not.
            "cached_input": _highest(tables, "input_cache_read"),
            "cache_write": _highest(tables, "input_cache_write"),
        }
    except ValueError as error:
        notes.append(f"has a price that cannot be believed: {error}")
        return None
    return {field: dollars.format_plain(amount) for field, amount in nanos.items() if amount or field in {"input", "output"}}


def _required(pricing: dict[str, Any], tables: list[dict[str, Any]], *fields: str) -> int:
    if pricing.get(fields[0]) is None:
        raise ValueError(f"{fields[0]} is missing")
    return _highest(tables, *fields)


def _highest(tables: list[dict[str, Any]], *fields: str) -> int:
    said = [(field, table[field]) for table in tables for field in fields if table.get(field) is not None]
    return max((_nanos(field, amount) for field, amount in said), default=0)


def _nanos(field: str, dollars_per_token: Any) -> int:
    """Dollars per token, as text, in nanodollars per million tokens, exactly. Raises ValueError."""
    problem = ValueError(f"{field} {str(dollars_per_token)[:40]!r}")
    if not isinstance(dollars_per_token, str) or not _PER_TOKEN.fullmatch(dollars_per_token):
        raise problem
    exact = _EXACT.multiply(Decimal(dollars_per_token), Decimal(_NANOS_PER_MILLION))
    if exact != exact.to_integral_value():
        raise problem
    try:
        return money.price_nanos(dollars.format_plain(int(exact)))
    except ValueError:
        raise problem from None


# --- Readers: what is of another type than it should be is not there --------------------------------------------------


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(value: Any) -> set[str]:
    return {word for word in _rows(value) if isinstance(word, str)}


def _count(value: Any) -> int | None:
    return value if type(value) is int and 1 <= value <= _COUNT_MAX else None


def _text(value: Any, characters_max: int) -> str | None:
    text = value.strip() if isinstance(value, str) else ""
    return text if text.isprintable() and 1 <= len(text) <= characters_max else None
