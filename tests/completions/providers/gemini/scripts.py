"""Gemini's responses for the scripted upstream: whole ones, events of a stream, errors."""

import json
from typing import Any

from tests.upstream import Script, Step, event, reply, stream

USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}
SIGNATURE = "EpwBCpkBAXLI2nx"


def response(*parts: dict[str, Any], finish: str | None = None, usage: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a GenerateContentResponse. ``candidates`` may be given as a field."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"} if parts else {"role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    body = {"candidates": [candidate], "modelVersion": "gemini-3.5-flash", "responseId": "r-1", **fields}
    return body if usage is None else {**body, "usageMetadata": usage}


def whole(*texts: str, finish: str = "STOP", usage: Any = USAGE, parts: tuple[dict[str, Any], ...] = ()) -> Script:
    return answered(response(*parts, *({"text": text} for text in texts), finish=finish, usage=usage))


def answered(body: Any, status: int = 200, **headers: str) -> Script:
    """Return a script that replies with indented JSON, as Gemini does outside streams."""
    return reply(json.dumps(body, indent=2).encode(), status=status, content_type="application/json; charset=UTF-8", **headers)


def events(*responses: dict[str, Any]) -> bytes:
    """Return the events as Gemini frames them: lines end in CRLF."""
    return b"".join(event(each).replace(b"\n\n", b"\r\n\r\n") for each in responses)


def streamed(*steps: dict[str, Any] | Step) -> Script:
    return stream(*(events(step) if isinstance(step, dict) else step for step in steps))


def text_response(text: str, **fields: Any) -> dict[str, Any]:
    return response({"text": text}, **fields)


def thought_part(text: str) -> dict[str, Any]:
    return {"text": text, "thought": True}


def call(name: str, args: dict[str, Any] | None = None, signature: str | None = None) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, **({} if args is None else {"args": args})}}
    return {**part, "thoughtSignature": signature} if signature else part


HELLO = [
    text_response("Hello ", usage={"promptTokenCount": 9, "totalTokenCount": 9}),
    text_response("you", finish="STOP", usage=USAGE),
]


def error(code: int, status: str, message: str = "a reason", *details: dict[str, Any]) -> dict[str, Any]:
    body = {"code": code, "message": message, "status": status}
    return {"error": {**body, "details": list(details)} if details else body}


BAD_KEY = error(
    400,
    "INVALID_ARGUMENT",
    "API key not valid. Please pass a valid API key.",
    {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    },
    {"@type": "type.googleapis.com/google.rpc.LocalizedMessage", "locale": "en-US", "message": "API key not valid."},
)


def exhausted(delay: str) -> dict[str, Any]:
    quota = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "PerDay", "quotaValue": "20"}]}
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    return error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", quota, retry)
