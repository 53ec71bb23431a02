"""The provider that needs no network: it says back what it was told, word for word, and can be told to misbehave.

A request may carry an ``echo`` object (with an SDK: ``extra_body={"echo": {...}}``):

    reply               what to say instead of the last user message
    delay_seconds       how long to think before each word, 0 to 60
    status              fail with this upstream status, 400 to 599, before the first word
    break_after_tokens  break off after so many words
    report_usage        false: do not say how many tokens it was

A token is a word with the space after it.
"""

import re
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import gevent
from django.conf import settings

from completions.chat import Call, ChatRequest, Chunk, Usage, WholeReply
from completions.providers import base
from completions.providers.base import FailureKind, ProviderFailed
from completions.request import messages
from gateway_project import compact_json, errors

_WORD = re.compile(r"\S+\s*|\s+")
_TOKENS_PER_MESSAGE = 3  # as if a chat template stood around each


class EchoAdapter:
    """Deterministic: the same request gives the same words and the same usage."""

    def check(self, request: ChatRequest) -> None:
        if request.choices > 1:
            raise errors.wrong("n", "must be 1 for this model")
        _Script.of(request)

    def complete(self, call: Call) -> WholeReply:
        _fail_if_told(call)
        words = list(_speak(call))
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "".join(words), "refusal": None},
            "logprobs": None,
            "finish_reason": _finish_reason(call, len(words)),
        }
        return WholeReply(choices=[choice], usage=_usage(call, len(words)), text_bytes=len("".join(words).encode()))

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        _fail_if_told(call)
        yield [_chunk({"role": "assistant", "content": ""})]
        spoken = 0
        for spoken, word in enumerate(_speak(call), start=1):  # noqa: B007  the count is wanted after the loop
            yield [_chunk({"content": word}, text_bytes=len(word.encode()))]
        usage = _usage(call, spoken)
        yield [_chunk({}, finish_reason=_finish_reason(call, spoken)), *([Chunk(b"[]", usage=usage)] if usage else [])]


@dataclass(frozen=True)
class _Script:
    reply: str | None = None
    delay_seconds: float = 0
    status: int | None = None
    break_after_tokens: int | None = None
    report_usage: bool = True

    @classmethod
    def of(cls, request: ChatRequest) -> "_Script":
        given = request.fields.get("echo")
        if given is None:
            return cls()
        if not isinstance(given, dict):
            raise errors.wrong("echo", "must be an object")
        for name, value in given.items():
            if name not in _CHECKS:
                raise errors.wrong(f"echo.{name}", f"is unknown; there are {', '.join(_CHECKS)}")
            what, holds = _CHECKS[name]
            if not holds(value):
                raise errors.wrong(f"echo.{name}", f"must be {what}")
        return cls(**given)


_CHECKS: dict[str, tuple[str, Any]] = {
    "reply": ("a string", lambda value: isinstance(value, str)),
    "delay_seconds": ("a number from 0 to 60", lambda value: type(value) in (int, float) and 0 <= value <= 60),
    "status": ("an integer from 400 to 599", lambda value: type(value) is int and 400 <= value <= 599),
    "break_after_tokens": ("an integer, 0 or more", lambda value: type(value) is int and value >= 0),
    "report_usage": ("true or false", lambda value: isinstance(value, bool)),
}


def _fail_if_told(call: Call) -> None:
    status = _Script.of(call.request).status
    if status is not None:
        refusal = base.status_error(status, "the echo was told to refuse.")
        raise ProviderFailed(refusal, upstream_worked=False, kind=FailureKind.INVALID_REQUEST)  # it would again


def _speak(call: Call) -> Iterator[str]:
    script = _Script.of(call.request)
    deadline = min(time.monotonic() + settings.UPSTREAM_TOTAL_SECONDS, call.until)
    for said, word in enumerate(_words(call)[: call.max_tokens]):
        if said == script.break_after_tokens:
            raise _broken_off(base.broke_off())
        left_seconds = deadline - time.monotonic()
        gevent.sleep(max(min(script.delay_seconds, left_seconds), 0))
        if script.delay_seconds > left_seconds:  # the hold does not wait longer either
            raise _broken_off(base.timed_out())
        yield word
    if script.break_after_tokens is not None:
        raise _broken_off(base.broke_off())


def _broken_off(error: errors.ApiError) -> ProviderFailed:
    return ProviderFailed(
        error, upstream_worked=True, kind=FailureKind.INVALID_REQUEST
    )  # as it was told: it says nothing of the route


def _words(call: Call) -> list[str]:
    reply = _Script.of(call.request).reply
    if reply is None:
        said = [messages.message_text(message) for message in call.request.messages if message["role"] == "user"]
        reply = said[-1] if said else ""
    return _WORD.findall(reply)


def _usage(call: Call, completion_tokens: int) -> Usage | None:
    if not _Script.of(call.request).report_usage:
        return None
    contents = [messages.message_text(message) for message in call.request.messages]
    prompt_tokens = sum(_TOKENS_PER_MESSAGE + len(_WORD.findall(content)) for content in contents)
    return Usage(prompt_tokens, completion_tokens)


def _finish_reason(call: Call, spoken: int) -> str:
    return "length" if spoken < len(_words(call)) else "stop"


def _chunk(delta: dict[str, str], *, text_bytes: int = 0, finish_reason: str | None = None) -> Chunk:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    return Chunk(compact_json.dumps_ascii(choices), text_bytes=text_bytes, has_finish_reason=bool(finish_reason))
