"""Reads the body of an upstream's error, whichever shape it has. Pure.

{"error": {"message", "code", "param"}}      OpenAI and most others; Google's is in a list
{"error": "text"}
{"object": "error", "message", "code"}       Mistral, vLLM; Mistral's message may be an object with a "detail"
{"detail": [{"loc", "msg"}]}                 FastAPI, and {"detail": "text"}
{"message": "text"}
text                                         proxies; of HTML, its title
"""

import json
import re
from dataclasses import dataclass
from typing import Any

_MESSAGE_FIELDS = ("message", "msg", "detail", "error", "errors", "title")  # in this order
_DEPTH_MAX = 5  # of objects and lists around a message
_MESSAGES_MAX = 5  # of a list of errors
_TEXT_BYTES_MAX = 10_000  # of a body that is not JSON: a message is at its start
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)
_GZIP = b"\x1f\x8b"

# The codes that callers act on. Others are an upstream's own: they name its fields, or are about our account there.
CALLER_CODES = frozenset(
    {
        "array_above_max_length",
        "content_filter",
        "content_policy_violation",
        "context_length_exceeded",
        "image_parse_error",
        "image_too_large",
        "invalid_base64_image",
        "invalid_function_parameters",
        "invalid_image",
        "invalid_image_format",
        "invalid_prompt",
        "string_above_max_length",
        "unknown_parameter",
        "unsupported_parameter",
        "unsupported_value",
    }
)
# Upstreams without that code say it in words: vLLM and Mistral, Anthropic, Gemini, llama.cpp; Moonshot, Z.ai, and newer vLLM.
_OVERFLOW = re.compile(
    r"maximum context length|prompt is too long|exceed context limit|exceeds the maximum number of tokens allowed"
    r"|exceeds the available context size"
    r"|exceeded model token limit|prompt exceeds max length|longer than the model's context length",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class UpstreamError:
    """What an upstream says about an error. ``code`` and ``param`` are as it sent them, "" when there are none."""

    message: str = ""
    code: str = ""
    param: str = ""

    @property
    def caller_code(self) -> str | None:
        """The code to pass on to the caller, one of CALLER_CODES; None when there is none."""
        if self.code in CALLER_CODES:
            return self.code
        return "context_length_exceeded" if _OVERFLOW.search(self.message[:_TEXT_BYTES_MAX]) else None

    @property
    def status(self) -> int | None:
        """The HTTP status that its code names; None when the code is no number of one."""
        return int(self.code) if re.fullmatch(r"[45]\d\d", self.code, re.ASCII) else None


def parse(body: bytes) -> UpstreamError:
    """Return the error in a body; an empty one when there is nothing to read."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return UpstreamError(_plain_text(body))
    return UpstreamError(parsed) if isinstance(parsed, str) else from_json(parsed)


def from_json(parsed: Any) -> UpstreamError:
    """Return the error in parsed JSON; an empty one when there is none."""
    error = parsed[0] if isinstance(parsed, list) and parsed else parsed
    if not isinstance(error, dict):
        return UpstreamError()
    inner = error.get("error")
    named = inner if isinstance(inner, dict) else error
    return UpstreamError(_message(error, _DEPTH_MAX), _name(named.get("code")), _name(named.get("param")) or _location(error))


def is_error(parsed: Any) -> bool:
    """Return whether parsed JSON is an error, and nothing of a reply. Its HTTP status may have been 2xx."""
    error = parsed[0] if isinstance(parsed, list) and parsed else parsed
    if not isinstance(error, dict):
        return False
    if error.get("error") or error.get("object") == "error":
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


def _plain_text(body: bytes) -> str:
    text = body[:_TEXT_BYTES_MAX].decode(errors="replace").strip()
    if body.startswith(_GZIP) or text.startswith(("{", "[")):  # JSON that breaks off may be a part of a reply
        return ""
    return title(body) if text.startswith("<") else text
