"""A provider without a network: it replies with the last user message, word for word, and fails when the request says so.

A request may carry an ``echo`` object (with an SDK: ``extra_body={"echo": {...}}``):

    reply               the text of the reply, instead of the last user message
    delay_seconds       the delay before each word, 0 to 60
    status              the upstream status, 400 to 599, to fail with before the first word
    break_after_tokens  the number of words after which to break off
    report_usage        false: report no usage

A token is a word with the white space after it.
"""

import re
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import gevent
from django.conf import settings

from completions.chat import Call, ChatRequest, Chunk, Usage, WholeReply
from completions.providers import base, ignored_fields
from completions.providers.base import FailureKind, ProviderFailed
from completions.request import messages
from completions.request.fields import check_object, refuse
from gateway_project import compact_json, errors

_WORD = re.compile(r"\S+\s*|\s+")
_READ_FIELDS = ignored_fields.HONOURED | {"echo"}
_TOKENS_PER_MESSAGE = 3  # as a chat template would add


class EchoAdapter:
    """Deterministic: equal requests receive equal replies and equal usage."""

    def check(self, request: ChatRequest) -> None:
        if request.choices > 1:
            refuse("n", "must be 1 for this model")
        _Script.read(request)

    def ignored_fields(self, call: Call) -> list[str]:
        return ignored_fields.find(call.request, _READ_FIELDS, ())

    def complete(self, call: Call) -> WholeReply:
        _raise_scripted_status(call)
        words = list(_generate(call))
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "".join(words), "refusal": None},
            "logprobs": None,
            "finish_reason": _finish_reason(call, len(words)),
        }
        return WholeReply(choices=[choice], usage=_usage(call, len(words)), text_bytes=len("".join(words).encode()))

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        _raise_scripted_status(call)
        yield [_chunk({"role": "assistant", "content": ""})]
        tokens = 0
        for tokens, word in enumerate(_generate(call), start=1):  # noqa: B007  used after the loop
            yield [_chunk({"content": word}, text_bytes=len(word.encode()))]
        usage = _usage(call, tokens)
        yield [_chunk({}, finish_reason=_finish_reason(call, tokens)), *([Chunk(b"[]", usage=usage)] if usage else [])]


@dataclass(frozen=True)
class _Script:
    """The ``echo`` object of a request."""

    reply: str | None = None
    delay_seconds: float = 0
    status: int | None = None
    break_after_tokens: int | None = None
    report_usage: bool = True

    @classmethod
    def read(cls, request: ChatRequest) -> "_Script":
        given = request.fields.get("echo")
        if given is None:
            return cls()
        for name, value in check_object(given, "echo").items():
            if name not in _SCRIPT_FIELDS:
                refuse(f"echo.{name}", f"is unknown; there are {', '.join(_SCRIPT_FIELDS)}")
            description, is_valid = _SCRIPT_FIELDS[name]
            if not is_valid(value):
                refuse(f"echo.{name}", f"must be {description}")
        return cls(**given)


_SCRIPT_FIELDS: dict[str, tuple[str, Any]] = {
    "reply": ("a string", lambda value: isinstance(value, str)),
    "delay_seconds": ("a number from 0 to 60", lambda value: type(value) in (int, float) and 0 <= value <= 60),
    "status": ("an integer from 400 to 599", lambda value: type(value) is int and 400 <= value <= 599),
    "break_after_tokens": ("an integer, 0 or more", lambda value: type(value) is int and value >= 0),
    "report_usage": ("true or false", lambda value: isinstance(value, bool)),
}


def _raise_scripted_status(call: Call) -> None:
    status = _Script.read(call.request).status
    if status is not None:
        # Invalid whatever the status is, because every further attempt would fail in the same way.
        refusal = base.status_error(status, "the echo was told to refuse.")
        raise ProviderFailed(refusal, upstream_worked=False, kind=FailureKind.INVALID_REQUEST)


def _generate(call: Call) -> Iterator[str]:
    script = _Script.read(call.request)
    deadline = min(time.monotonic() + settings.UPSTREAM_TOTAL_SECONDS, call.until)
    for index, word in enumerate(_words(call)[: call.max_tokens]):
        if index == script.break_after_tokens:
            raise _failure(base.broke_off())
        left_seconds = deadline - time.monotonic()
        gevent.sleep(max(min(script.delay_seconds, left_seconds), 0))
        if script.delay_seconds > left_seconds:  # the hold does not outlast the deadline
            raise _failure(base.timed_out())
        yield word
    if script.break_after_tokens is not None:
        raise _failure(base.broke_off())


def _failure(error: errors.ApiError) -> ProviderFailed:
    # The request caused it, so the route is not at fault.
    return ProviderFailed(error, upstream_worked=True, kind=FailureKind.INVALID_REQUEST)


def _words(call: Call) -> list[str]:
    reply = _Script.read(call.request).reply
    if reply is None:
        texts = [messages.message_text(message) for message in call.request.messages if message["role"] == "user"]
        reply = texts[-1] if texts else ""
    return _WORD.findall(reply)


def _usage(call: Call, completion_tokens: int) -> Usage | None:
    if not _Script.read(call.request).report_usage:
        return None
    contents = [messages.message_text(message) for message in call.request.messages]
    prompt_tokens = sum(_TOKENS_PER_MESSAGE + len(_WORD.findall(content)) for content in contents)
    return Usage(prompt_tokens, completion_tokens)


def _finish_reason(call: Call, tokens: int) -> str:
    return "length" if tokens < len(_words(call)) else "stop"


def _chunk(delta: dict[str, str], *, text_bytes: int = 0, finish_reason: str | None = None) -> Chunk:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    return Chunk(compact_json.dumps_ascii(choices), text_bytes=text_bytes, has_finish_reason=bool(finish_reason))
