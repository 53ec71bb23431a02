"""Reads the body of a provider's error, whichever shape it has. Pure.

{"error": {"message", "code", "param"}}      OpenAI and most others; Google's is in a list
{"error": "text"}
{"object": "error", "message", "code"}       Mistral, vLLM; Mistral's message may be an object with a "detail"
{"detail": [{"loc", "msg"}]}                 FastAPI, and {"detail": "text"}
{"message": "text"}                          AWS, which may write it "Message"; its type is in a header
text                                         proxies; of HTML, its title
"""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from completions.providers import error_meanings

_MESSAGE_FIELDS = ("message", "Message", "msg", "detail", "error", "errors", "title")  # in this order
_DEPTH_MAX = 5  # of objects and lists around a message
_MESSAGES_MAX = 5  # of a list of errors
_MEANT_CHARACTERS_MAX = 2_000  # of a message, in which its meaning is looked for: callers can make it long
_TEXT_BYTES_MAX = 10_000  # of a body that is not JSON: a message is at its start
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)
_GZIP = b"\x1f\x8b"

# The codes that callers act on. Others are a provider's own: they name its fields, or are about our account there.
CALLER_CODES = frozenset(
    (
        *("array_above_max_length", "string_above_max_length", "content_filter", "context_length_exceeded", "invalid_prompt"),
        *("image_parse_error", "image_too_large", "invalid_base64_image", "invalid_image", "invalid_image_format"),
        *("invalid_function_parameters", "unknown_parameter", "unsupported_parameter", "unsupported_value"),
    )
)
# Where an error may have further codes: Azure's, OpenRouter's, MiniMax's, Google's.
_CODE_FIELDS = ("code", "type", "status", "error_type", "error_code", "reason", "status_code")
_CODE_PLACES = ("error", "innererror", "inner_error", "metadata", "details", "detail", "response")
# Messages of aggregators: the provider's own words are in ``metadata.raw``.
_RELAYED = re.compile(r"provider returned error|upstream error", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProviderError:
    """A provider's description of an error. ``code`` and ``param`` are as it sent them, "" when there are none.

    ``names`` are all its codes and types, also of what is inside of it. ``relayed`` is the message of the provider behind it.
    """

    message: str = ""
    code: str = ""
    param: str = ""
    names: frozenset[str] = field(default=frozenset(), compare=False)
    relayed: str = field(default="", compare=False)

    @property
    def reason(self) -> str:
        """The message that says most."""
        return self.relayed if self.relayed and _RELAYED.search(self.message) else self.message

    @property
    def caller_code(self) -> str | None:
        """The code to pass on to the caller, one of CALLER_CODES; None when there is none."""
        meaning = error_meanings.meaning(self.names | {self.code}, self.reason[:_MEANT_CHARACTERS_MAX])
        return meaning or (self.code if self.code in CALLER_CODES else None)

    def meant_status(self, status: int) -> int:
        """Return the status that an error should have had: 402 if our account is unpaid, 400 for what no provider would do."""
        if status in (401, 402):
            return status
        names, reason = self.names | {self.code}, self.reason[:_MEANT_CHARACTERS_MAX]
        # The words of a 403 say whether our key is refused.
        if status != 403 and error_meanings.is_unpaid(status, names, reason):
            return 402
        if status == 429:
            return status
        if self.caller_code in (error_meanings.CONTENT_FILTER, error_meanings.TOO_LONG) or status == 451:
            return 400
        if status == 400 and error_meanings.is_quota(self.names):
            return 429
        return 429 if status == 413 and error_meanings.is_rate(names, reason) else status

    @property
    def status(self) -> int | None:
        """The HTTP status that its code names; None when the code is no number of one."""
        return int(self.code) if re.fullmatch(r"[45]\d\d", self.code, re.ASCII) else None


def parse(body: bytes, kind: str = "") -> ProviderError:
    """Return the error in a body; an empty one when there is nothing to read. ``kind`` is its type, where a header has that."""
    error = _read(body)
    return replace(error, names=error.names | {kind}) if kind else error


def _read(body: bytes) -> ProviderError:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        text = body[:_TEXT_BYTES_MAX].decode(errors="replace").strip()
        if body.startswith(_GZIP) or text.startswith(("{", "[")):  # JSON that breaks off may be a part of a reply
            return ProviderError()
        return ProviderError(title(body) if text.startswith("<") else text)
    return ProviderError(parsed) if isinstance(parsed, str) else from_json(parsed)


def from_json(parsed: Any) -> ProviderError:
    """Return the error in parsed JSON; an empty one when there is none."""
    error = parsed[0] if isinstance(parsed, list) and parsed else parsed
    if not isinstance(error, dict):
        return ProviderError()
    if isinstance(groq := error.get("x_groq"), dict) and groq.get("error"):
        error = groq
    inner, of_reply = error.get("error"), error.get("base_resp")
    if isinstance(of_reply, dict):  # MiniMax's
        code = _name(of_reply.get("status_code"))
        return ProviderError(_name(of_reply.get("status_msg")), code, names=frozenset({f"base_resp {code}"}))
    named = inner if isinstance(inner, dict) else error
    relayed, names = _relayed(named), _names(error, _DEPTH_MAX)
    return ProviderError(
        _message(error, _DEPTH_MAX),
        _name(named.get("code")),
        _name(named.get("param")) or _location(error),
        names | relayed.names | {relayed.code},
        relayed.message,
    )


def is_error(parsed: Any) -> bool:
    """Return whether parsed JSON is an error, and nothing of a reply. Its HTTP status may have been 2xx."""
    error = parsed[0] if isinstance(parsed, list) and parsed else parsed
    if not isinstance(error, dict):
        return False
    if error.get("error") or error.get("object") == "error":
        return True
    if isinstance(groq := error.get("x_groq"), dict) and groq.get("error"):  # why it ended early: console.groq.com/docs
        return True
    if isinstance(of_reply := error.get("base_resp"), dict) and of_reply.get("status_code"):  # 0 in MiniMax's replies
        return True
    if "choices" in error or "usage" in error:
        return False
    is_coded = any(name in error for name in ("code", "status", "type"))  # a message alone may be a reply in another format
    return bool(error.get("detail")) or (is_coded and isinstance(error.get("message"), str))


def title(body: bytes) -> str:
    """Return the title of a page of HTML; "" when there is none."""
    found = _TITLE.search(body[:_TEXT_BYTES_MAX].decode(errors="replace"))
    return found[1].strip() if found else ""


def _message(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return value
    if depth and isinstance(value, list):
        return "; ".join(filter(None, (_message(each, depth - 1) for each in value[:_MESSAGES_MAX])))
    if depth and isinstance(value, dict):
        message = next(filter(None, (_message(value.get(name), depth - 1) for name in _MESSAGE_FIELDS)), "")
        path = _path(value.get("loc"))
        return f"{path}: {message}" if path and message else message
    return ""


def _names(value: Any, depth: int) -> frozenset[str]:
    """Return all codes and types of an error, and of what is inside of it. Not what it quotes of the request."""
    if depth and isinstance(value, list):
        return frozenset().union(*(_names(each, depth - 1) for each in value[:_MESSAGES_MAX]))
    if not depth or not isinstance(value, dict):
        return frozenset()
    own = {name for field in _CODE_FIELDS if (name := _name(value.get(field)))}
    return frozenset(own).union(*(_names(value.get(place), depth - 1) for place in _CODE_PLACES))


def _relayed(error: dict[str, Any]) -> ProviderError:
    """Return the error that the provider behind an aggregator sent: OpenRouter has its body as text. Not that of a third."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    text = raw if isinstance(raw, str) else json.dumps(raw) if isinstance(raw, dict) else ""
    return ProviderError() if '"raw"' in text else parse(text[:_TEXT_BYTES_MAX].encode(errors="replace"))


def _location(error: dict[str, Any]) -> str:
    """Return the path of the field that FastAPI's first error is about."""
    for value in (error, error.get("message")):
        details = value.get("detail") if isinstance(value, dict) else None
        if isinstance(details, list) and details and isinstance(details[0], dict):
            return _path(details[0].get("loc"))
    return ""


def _path(location: Any) -> str:
    if not isinstance(location, list):
        return ""
    steps = location[1:] if location[:1] == ["body"] else location
    return ".".join(str(step) for step in steps if isinstance(step, str | int))


def _name(value: Any) -> str:
    return str(value) if isinstance(value, str) or type(value) is int else ""
