"""What replies have in common, whatever their format: JSON that ours can carry, counts that can be true, sizes. Pure."""

import json
import math
from typing import Any, NoReturn, TypeGuard

from gateway_project import errors
from gateway_project.web import strict_json

_TOKENS_MAX = 1_000_000_000  # no reply has more; a larger figure is not a usage


def parse_json(text: bytes) -> Any:
    """JSON in UTF-8 that our own reply could carry. Raises ValueError, RecursionError."""
    return _decode(text.decode())


def parse_json_object(written: str) -> dict[str, Any] | None:
    """What a caller's text says if it is one JSON object that can be sent on as JSON; half a surrogate pair could not."""
    try:
        return strict_json.loads(written.encode())
    except (errors.InvalidRequest, UnicodeEncodeError):
        return None


def replace_lone_surrogates(body: bytes, parsed: Any) -> Any:
    """What was parsed from ``body``, with a question mark for half a surrogate pair, which our reply could not be sent with."""
    if b"\\u" not in body:  # so all of it was UTF-8
        return parsed
    return json.loads(json.dumps(parsed, ensure_ascii=False).encode(errors="replace"))


def is_token_count(value: Any) -> TypeGuard[int]:
    """A whole number of tokens that some model could have read or written."""
    return type(value) is int and 0 <= value <= _TOKENS_MAX


def detail_tokens(usage: dict[str, Any], group: str, name: str) -> int:
    """A count within a usage object that is there for information: 0 when it is none."""
    details = usage.get(group)
    value = details.get(name) if isinstance(details, dict) else None
    return value if is_token_count(value) else 0


def text_bytes(text: str) -> int:
    """In UTF-8."""
    # Some upstreams cut their text in the middle of an emoji, and JSON can carry either half.
    return len(text.encode("utf-8", "surrogatepass"))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):  # which our own reply could not carry
        raise ValueError(f"{digits[:40]} is too large")
    return number


_decode = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite).decode
