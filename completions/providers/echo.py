"""A provider without a network: it replies with the last user message, word for word, and fails when the request says so.

A request may carry an ``echo`` object (with an SDK: ``extra_body={"echo": {...}}``):

    reply               the text of the reply, instead of the last user message
    delay_seconds       the delay before each token, 0 to 60
    status              the status, 400 to 599, that every attempt fails with before the first token
    break_after_tokens  the number of tokens after which to break off
    report_usage        false: report no usage

A token is a word with the white space after it, or sixteen characters of a longer one: a large reply costs what its size costs.
"""

import math
import random
import re
import time
from array import array
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import gevent
from django.conf import settings

from completions.chat import Call, ChatRequest, Chunk, WholeReply
from completions.pricing.usage import Usage
from completions.providers import base, embeddings, exchange, ignored_fields, wire
from completions.providers.base import Adapter, FailureKind, ProviderFailed
from completions.request import messages
from completions.request.fields import Fields, check_object, refuse
from gateway_project import errors, large_work
from gateway_project.net import http
from gateway_project.text import compact_json

_WORD = re.compile(r"\S+\s*|\s+")
_TOKEN_CHARACTERS_MAX = 16
_READ_FIELDS = ignored_fields.HONOURED | {"echo"}
_PAUSE_TOKENS = 20_000  # take a few milliseconds to count
_DIMENSIONS = 256  # of an embedding, unless the request says how many
_BYTES_PER_NUMBER = 8
_TOKENS_PER_MESSAGE = 3  # as a chat template would add


class EchoAdapter(Adapter):
    """Deterministic: equal requests receive equal replies and equal usage."""

    def check(self, request: ChatRequest) -> None:
        base.refuse_unsupported(request)
        _read_script(request)

    def ignored_fields(self, call: Call) -> list[str]:
        return ignored_fields.find(call.request, _READ_FIELDS, ())

    def complete(self, call: Call) -> WholeReply:
        echo = _Echo.read(call)
        text = _generate_all(call, echo)
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": echo.finish_reason}
        return WholeReply(choices=[choice], usage=echo.usage, text_bytes=len(text.encode()))

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        echo = _Echo.read(call)
        yield [wire.chunk({"role": "assistant", "content": ""})]
        for token in _generate(call, echo):
            yield [] if token is None else [wire.chunk({"content": token}, text_bytes=len(token.encode()))]
        usage = [Chunk(b"[]", usage=echo.usage)] if echo.usage else []
        yield [wire.chunk({}, finish_reason=echo.finish_reason), *usage]


class EchoEmbeddings(Adapter):
    """Deterministic: equal inputs get equal embeddings. Nearness of meaning it does not have."""

    def complete(self, call: Call) -> WholeReply:
        inputs, items = embeddings.inputs(call.request), embeddings.items(call.request)
        dimensions = inputs.dimensions or _DIMENSIONS
        with large_work.turn(max(call.request.body.size_bytes, inputs.number * dimensions * _BYTES_PER_NUMBER)) as pause:
            tokens = sum(len(item) if isinstance(item, list) else sum(1 for _ in _tokens(item)) for item in items)
            vectors = []
            for item in items:
                vectors.append(_embedding(item, dimensions))
                pause()
        return WholeReply(choices=[], usage=Usage(tokens, 0), text_bytes=0, embeddings=vectors)


def _embedding(item: str | list[int], dimensions: int) -> "array[float]":
    """Return numbers that are drawn by the input, with a sum of squares of 1."""
    drawn = random.Random(compact_json.dumps(item))  # noqa: S311  no secret
    numbers = [drawn.uniform(-1, 1) for _ in range(dimensions)]
    length = math.hypot(*numbers)
    return array("d", [number / length for number in numbers])


# Member of the ``echo`` object of a request -> its default, and what it must be.
_MEMBERS: dict[str, tuple[Any, str, Callable[[Any], bool]]] = {
    "reply": (None, "a string", lambda value: isinstance(value, str)),
    "delay_seconds": (0, "a number from 0 to 60", lambda value: type(value) in (int, float) and 0 <= value <= 60),
    "status": (None, "an integer from 400 to 599", lambda value: type(value) is int and 400 <= value <= 599),
    "break_after_tokens": (None, "an integer, 0 or more", lambda value: type(value) is int and value >= 0),
    "report_usage": (True, "true or false", lambda value: isinstance(value, bool)),
}


def _read_script(request: ChatRequest) -> Fields:
    """Return the ``echo`` object of a request, with all members."""
    given = request.fields.get("echo")
    script = {} if given is None else check_object(given, "echo")
    for name, value in script.items():
        if name not in _MEMBERS:
            refuse(f"echo.{name}", f"is unknown; there are {', '.join(_MEMBERS)}", quotes_request=True)
        _, description, is_valid = _MEMBERS[name]
        if not is_valid(value):
            refuse(f"echo.{name}", f"must be {description}")
    return {name: default for name, (default, _, _) in _MEMBERS.items()} | script


@dataclass(frozen=True)
class _Echo:
    """The words of the reply to a request, which is read at once, because the body is released while the echo waits."""

    script: Fields
    tokens: list[str]
    finish_reason: str
    usage: Usage | None

    @classmethod
    def read(cls, call: Call) -> "_Echo":
        """Raises ProviderFailed if the script says so."""
        script = _read_script(call.request)
        if (status := script["status"]) is not None:  # further attempts, which fail in the same way, follow as elsewhere
            refusal, kind = base.status_error(status, "the echo was told to refuse."), base.failure_kind(status)
            raise ProviderFailed(refusal, provider_worked=False, kind=kind, is_scripted=True, status=status)
        try:
            with large_work.turn(call.request.body.size_bytes) as pause:
                reply = _last_user_text(call.request) if script["reply"] is None else script["reply"]
                tokens = list(islice(_tokens(reply), call.max_tokens + 1))
                finish_reason = "length" if len(tokens) > call.max_tokens else "stop"
                del tokens[call.max_tokens :]
                usage = Usage(_count_prompt(call.request, pause), len(tokens)) if script["report_usage"] else None
        except http.Interrupted as error:
            raise exchange.interruption(error, provider_worked=False) from error
        call.request.body.release()
        return cls(script, tokens, finish_reason, usage)


def _last_user_text(request: ChatRequest) -> str:
    return next((messages.message_text(each) for each in reversed(request.messages) if each["role"] == "user"), "")


def _generate(call: Call, echo: _Echo) -> Iterator[str | None]:
    """Yield the tokens, each after the delay, and None whenever a heartbeat is due."""
    script = echo.script
    deadline = min(time.monotonic() + settings.UPSTREAM_TOTAL_SECONDS, call.until)
    for index, token in enumerate(echo.tokens):
        if index == script["break_after_tokens"]:
            raise _failure(base.broke_off())
        yield from _delay(script["delay_seconds"], deadline)
        arrived_at = time.monotonic()
        yield token
        call.pace(time.monotonic() - arrived_at)
    if script["break_after_tokens"] is not None:
        raise _failure(base.broke_off())


def _delay(seconds: float, deadline: float) -> Iterator[None]:
    """Wait, and yield whenever a heartbeat is due. Raises ProviderFailed at the deadline, which the hold does not outlast."""
    left_seconds = deadline - time.monotonic()
    waits_seconds = max(min(seconds, left_seconds), 0)
    while waits_seconds > settings.STREAM_HEARTBEAT_SECONDS:
        gevent.sleep(settings.STREAM_HEARTBEAT_SECONDS)
        yield
        waits_seconds -= settings.STREAM_HEARTBEAT_SECONDS
    gevent.sleep(waits_seconds)
    if seconds > left_seconds:
        raise _failure(base.timed_out())


def _generate_all(call: Call, echo: _Echo) -> str:
    """Return the text of a whole reply. Where the wait for it is ended, what was generated by then is charged."""
    tokens: list[str] = []
    try:
        for token in _generate(call, echo):
            tokens.append(token or "")  # what there is when the wait is ended is needed
    except http.Interrupted as error:
        failure = exchange.interruption(error, provider_worked=True)
        failure.unread_bytes = len("".join(tokens).encode())
        raise failure from error
    return "".join(tokens)


def _failure(error: errors.ApiError) -> ProviderFailed:
    # The request caused it, so the route is not at fault.
    return ProviderFailed(error, provider_worked=True, kind=FailureKind.INVALID_REQUEST)


def _tokens(text: str) -> Iterator[str]:
    size = _TOKEN_CHARACTERS_MAX
    for word in _WORD.finditer(text):
        for at in range(word.start(), word.end(), size):
            yield text[at : min(at + size, word.end())]


def _count_prompt(request: ChatRequest, pause: Callable[[], None]) -> int:
    count = 0
    for message in request.messages:
        count += _TOKENS_PER_MESSAGE
        tokens = _tokens(messages.message_text(message))
        while counted := sum(1 for _ in islice(tokens, _PAUSE_TOKENS)):
            count += counted
            pause()
    return count
