"""Reads the body of POST /v1/embeddings. Raises InvalidRequest, whose ``param`` is the field.

Unknown fields are refused: no provider has others that the gateway could pass on.
"""

from collections.abc import Callable
from typing import Any

from completions import estimates
from completions.chat import ChatRequest, Contents, Inputs, RequestBody
from completions.request import messages, schema
from completions.request.fields import Fields, read_choice, read_integer, read_required, refuse

FIELDS = ("model", "input", "dimensions", "encoding_format", "user", "metadata", "provider")
ENCODING_FORMATS = ("float", "base64")
INPUTS_MAX = 2_048
TOKENS_MAX = 300_000  # of all inputs together, as estimated
TOKEN_MAX = 2**31 - 1
DIMENSIONS_MAX = 16_384
NUMBERS_MAX = 2_048 * 3_072  # of a reply: as many embeddings as there may be, of the largest size that is common
# Characters of JSON outside strings, without digits: a comma for each token, and brackets for each input.
SYNTAX_MAX = TOKENS_MAX + 10 * INPUTS_MAX
_PAUSE_INPUTS = 100
_MARKS_TOKENS = 4  # that a tokenizer puts around an input


def parse(fields: Fields, raw: bytes | None, pause: Callable[[], None] = messages.no_pause) -> ChatRequest:
    """Return the checked request. ``pause`` is called every few milliseconds."""
    for name in fields:
        if name not in FIELDS:
            refuse(name[:64], f"is not known; known are {', '.join(FIELDS)}", quotes_request=True)
    model, items = schema.read_model(fields), _read_items(fields, pause)
    sizes = [_size(item) for item in items]
    dimensions = _read_dimensions(fields, len(items))
    tokens = sum(estimates.estimate_tokens(size) for size in sizes)
    if tokens > TOKENS_MAX:
        refuse("input", f"has about {tokens} tokens; one request may have {TOKENS_MAX}")
    return ChatRequest(
        model=model,
        body=RequestBody(fields, raw),
        max_tokens=0,
        max_tokens_name="",
        stream=False,
        include_usage=False,
        prompt_tokens_max=sum(_tokens_max(item, size) for item, size in zip(items, sizes, strict=True)),
        contents=Contents(text_bytes=sum(sizes)),
        provider_preferences=schema.read_provider_preferences(fields),
        labels=schema.read_labels(fields),
        inputs=Inputs(
            number=len(items),
            is_single=items is not fields["input"],
            are_tokens=isinstance(items[0], list),
            dimensions=dimensions,
            as_base64=read_choice(fields, "encoding_format", ENCODING_FORMATS) == "base64",
        ),
    )


def _read_dimensions(fields: Fields, inputs: int) -> int | None:
    dimensions = read_integer(fields, "dimensions", 1, DIMENSIONS_MAX)
    if dimensions and dimensions * inputs > NUMBERS_MAX:
        refuse("dimensions", f"is {dimensions}, for each of {inputs} inputs; one reply may have {NUMBERS_MAX} numbers")
    return dimensions


def _read_items(fields: Fields, pause: Callable[[], None]) -> list[Any]:
    """Return a list of texts, or of lists of tokens: the field itself, or a list with it alone."""
    given = read_required(fields, "input")
    if isinstance(given, str) or (isinstance(given, list) and given and type(given[0]) is int):
        _check(given, type(given), "input")
        return [given]
    if not isinstance(given, list) or not 1 <= len(given) <= INPUTS_MAX:
        refuse("input", f"must be a string, an array of tokens, or an array of 1 to {INPUTS_MAX} of either")
    for index, item in enumerate(given):
        _check(item, type(given[0]), f"input[{index}]")
        if index % _PAUSE_INPUTS == 0:
            pause()
    return given


def _check(item: Any, kind: type, path: str) -> None:
    if not isinstance(item, str | list):
        refuse(path, "must be a string or an array of tokens")
    if type(item) is not kind:
        refuse(path, "must be a string as the first" if kind is str else "must be an array of tokens as the first")
    if not item:
        refuse(path, "must not be empty")
    if isinstance(item, list) and not all(type(token) is int and 0 <= token <= TOKEN_MAX for token in item):
        refuse(path, f"must have integers from 0 to {TOKEN_MAX} only")


def _size(item: str | list[int]) -> int:
    """Return the bytes of a text, or as many as tokens are taken for."""
    return len(item) * estimates.BYTES_PER_TOKEN if isinstance(item, list) else len(item.encode())


def _tokens_max(item: str | list[int], size: int) -> int:
    """Return a bound that the item cannot exceed: no text has more tokens than bytes."""
    return (len(item) if isinstance(item, list) else size) + _MARKS_TOKENS
