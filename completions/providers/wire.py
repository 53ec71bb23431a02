"""The common parts of the wire formats: JSON that our own reply can carry, token counts, sizes of text, chunks.

Also which messages are instructions, for formats that take instructions in one place only. Pure.
"""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import msgspec

from completions.chat import Chunk
from completions.request.fields import Fields, refuse
from gateway_project import errors, identifiers
from gateway_project.text import compact_json
from gateway_project.web import strict_json

# The exceptions of reading JSON of another shape.
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
INSTRUCTION_ROLES = ("system", "developer")
_BRACKETS_MAX = 500  # half of the levels that Python has for calls
TOKENS_MAX = 1_000_000_000  # no reply has more; a larger number is not a token count


def parse_json(text: bytes) -> Any:
    """Parse JSON in UTF-8 from a provider, without NaN and infinities. Raises ValueError, RecursionError.

    msgspec takes a third of the time of Python's parser. That reads what msgspec refuses, such as halves of surrogate pairs,
    and what may be nested deeply: msgspec reads some levels more than what comes later can write.
    """
    if text.count(b"[") + text.count(b"{") <= _BRACKETS_MAX:
        try:  # not suppress(), which takes three calls
            return _decode_fast(text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass
    return _decode(text.decode("utf-8-sig"))  # some servers begin with a byte order mark


def parse_json_object(text: str) -> Fields | None:
    """Return the JSON object in a caller's text; None when it is not one, or cannot be sent on as JSON."""
    try:
        return strict_json.loads(text.encode())
    except (errors.InvalidRequest, UnicodeEncodeError):  # the second for half a surrogate pair
        return None


def parse_arguments(text: str, path: str) -> Fields:
    """Return the arguments of a tool call, text of which "" means none, as an object. Raises InvalidRequest."""
    arguments = parse_json_object(text or "{}")
    if arguments is None:
        refuse(path, "must be a JSON object as text")
    return arguments


def object_schema(parameters: Fields | None) -> Fields:
    """Return the schema of a function's parameters as that of an object, which every provider requires."""
    given = parameters or {}
    kind = given.get("type")
    if kind is not None and not (isinstance(kind, list) and "object" in kind):
        return given
    return {**given, "type": "object", "properties": given.get("properties") or {}}


def replace_lone_surrogates(body: bytes, parsed: Any) -> Any:
    """Return what was parsed with "?" for each half of a surrogate pair, which UTF-8 cannot carry."""
    if b"\\u" not in body:  # half a pair can only be written escaped
        return parsed
    return json.loads(json.dumps(parsed, ensure_ascii=False).encode(errors="replace"))


def token_count(value: Any) -> int | None:
    """Return a possible number of tokens; None for anything else. Some providers send 20.0, and others "20"."""
    is_digits = isinstance(value, str) and len(value) <= len(str(TOKENS_MAX)) and value.isascii() and value.isdigit()
    if is_digits or (type(value) is float and value.is_integer()):
        value = int(value)
    return value if type(value) is int and 0 <= value <= TOKENS_MAX else None


def own_id(given: Any, taken: set[str]) -> str:
    """Return the id of a call, and take it: a new one where the provider gives none, or another call's. Results go by it."""
    is_own = isinstance(given, str) and given and given not in taken
    own: str = given if is_own else f"call_{identifiers.short_uuid7()}"
    taken.add(own)
    return own


def text_bytes(text: str) -> int:
    """Return the size of the text in UTF-8. Half a surrogate pair counts three bytes."""
    # Some providers cut their text in the middle of an emoji, and escaped JSON can carry either half.
    return len(text.encode("utf-8", "surrogatepass"))


def generated_bytes(message: Any) -> int:
    """Return the UTF-8 size of what the model generated, thoughts once. Raises AttributeError or TypeError for other shapes."""
    texts = [message.get("content"), message.get("refusal"), message.get("reasoning_content") or message.get("reasoning")]
    calls = [call.get("function") or call.get("custom") or {} for call in message.get("tool_calls") or []]
    for called in (*calls, message.get("function_call") or {}):
        texts += [called.get("name"), called.get("arguments"), called.get("input")]
    return sum([text_bytes(text) for text in texts if isinstance(text, str)])


def with_paths(messages: list[Fields], *, are_instructions: bool) -> Iterator[tuple[str, Fields]]:
    """Return the system and developer messages, or all others, each with its path."""
    numbered = ((f"messages[{index}]", message) for index, message in enumerate(messages))
    return (each for each in numbered if (each[1]["role"] in INSTRUCTION_ROLES) is are_instructions)


def last_speaker(messages: list[Fields]) -> str:
    """Return the role of the last message that is no instruction; "" if there is none."""
    return next((each["role"] for each in reversed(messages) if each["role"] not in INSTRUCTION_ROLES), "")


def parts(message: Fields, path: str, translate: Callable[[Fields, str], Fields]) -> list[Fields]:
    """Return the content of a message as translated parts, without empty text, which providers refuse."""
    content = message.get("content") or []
    given = [{"type": "text", "text": content}] if isinstance(content, str) else content
    translated = [translate(part, f"{path}.content[{index}]") for index, part in enumerate(given)]
    return [part for part in translated if part.get("text") != ""]


def chunk(delta: Fields, *, text_bytes: int = 0, finish_reason: str | None = None, **members: Any) -> Chunk:
    """Return a chunk with one choice. Its ``members``, such as logprobs, stand between its delta and its finish reason."""
    choices = [{"index": 0, "delta": delta, **members, "finish_reason": finish_reason}]
    return Chunk(compact_json.dumps_ascii(choices), text_bytes, has_finish_reason=finish_reason is not None)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):  # our own reply could not carry it
        raise ValueError(f"{digits[:40]} is too large")
    return number


_decode_fast = msgspec.json.Decoder().decode
_decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite_float).decode
