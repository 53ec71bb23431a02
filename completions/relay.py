"""The reply, whole or streamed. Every way out settles or releases the hold; what a dead process held, the sweeper releases.

What is charged:

    the upstream reported its usage                  that, exactly
    complete, but no usage                           an estimate of the prompt and of what was relayed
    broken off after the upstream began (2xx)        an estimate of the prompt and of what was relayed
    failed before that, or unreadable                nothing

A stream's first chunk is awaited before the status is sent, so that an early failure is a true error. Once the stream runs,
an error is one event, and no [DONE] follows.
"""

import errno
import json
from collections.abc import Generator, Iterator
from typing import Any

import gevent
from django.conf import settings

from completions import pricing, providers, settlement, sse
from completions.admission import Admitted
from completions.chat import Chunk, Usage
from completions.models import Completion
from completions.providers.base import ProviderFailed
from gateway_project import api, errors

Settlement = Completion.Settlement

# A client that stops reading blocks us in its socket, where no deadline of the upstream is looked at. It must be gone before
# its hold expires, or a reply that was read almost to its end would be free.
_UNREAD_SECONDS_MAX = 5  # ... past the upstream's own deadline


def whole(admitted: Admitted) -> dict[str, Any]:
    """Ask, settle, and return the chat completion object. Raises the ApiError of what failed."""
    try:
        answer = providers.ADAPTERS[admitted.call.offer.kind].complete(admitted.call)
    except ProviderFailed as failure:
        _close_books(admitted, usage=None, relayed_bytes=0, upstream_worked=failure.upstream_worked)
        raise failure.error from failure
    except BaseException:
        _close_books(admitted, usage=None, relayed_bytes=0, upstream_worked=False)
        raise
    usage = answer.usage or _estimate(admitted, answer.text_bytes)
    settlement.settle(admitted, usage, Settlement.REPORTED if answer.usage else Settlement.ESTIMATED)
    return {
        "id": admitted.completion.pk,
        "object": "chat.completion",
        "created": int(admitted.completion.created_at.timestamp()),
        "model": admitted.call.offer.model_id,
        "choices": answer.choices,
        "usage": _usage_object(usage),
    }


class Stream:
    """The body of a streamed reply. Making one awaits the first chunk, and raises the ApiError of what failed before it.

    Closing it, which the server does when the client has left, frees the upstream and settles.
    """

    def __init__(self, admitted: Admitted) -> None:
        self._events = _within_deadline(_events(admitted))
        self._first: bytes | None = next(self._events)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        first, self._first = self._first, None
        return next(self._events) if first is None else first

    def close(self) -> None:
        self._events.close()


def _within_deadline(events: Generator[bytes, None, None]) -> Generator[bytes, None, None]:
    """The events, with an alarm that also rings while the server is writing one: to the server, the client has left."""
    gone = BrokenPipeError(errno.EPIPE, "the client stopped reading")
    with gevent.Timeout(settings.UPSTREAM_TOTAL_SECONDS + _UNREAD_SECONDS_MAX, gone):
        yield from events


def _events(admitted: Admitted) -> Generator[bytes, None, None]:
    upstream = providers.ADAPTERS[admitted.call.offer.kind].stream(admitted.call)
    writer = _EventWriter(admitted)
    usage: Usage | None = None
    relayed_bytes = 0
    try:
        for chunks in upstream:
            usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage), usage)
            relayed_bytes += sum(chunk.text_bytes for chunk in chunks)
            if not chunks and not writer.has_written:
                continue  # a heartbeat would commit us to status 200
            written = writer.write(chunks) if chunks else sse.HEARTBEAT
            if written:
                yield written
    except ProviderFailed as failure:
        _close_books(admitted, usage, relayed_bytes, upstream_worked=failure.upstream_worked)
        if not writer.has_written:
            raise failure.error from failure
        yield writer.error(failure.error)
        return
    except BaseException as exception:
        # GeneratorExit: the client has left, and the upstream worked for it. Anything else is a fault of ours.
        upstream.close()  # first: it generates on, and the database may be slow
        _close_books(admitted, usage, relayed_bytes, upstream_worked=isinstance(exception, GeneratorExit))
        raise
    finally:
        upstream.close()
    yield _finish(admitted, writer, usage, relayed_bytes)


def _finish(admitted: Admitted, writer: "_EventWriter", usage: Usage | None, relayed_bytes: int) -> bytes:
    settled = usage or _estimate(admitted, relayed_bytes)
    try:
        settlement.settle(admitted, settled, Settlement.REPORTED if usage else Settlement.ESTIMATED)
    except Exception as exception:  # the status is sent: the only way left to say so is an event
        return writer.error(api.translate(exception))
    return writer.usage(settled) + sse.DONE


def _close_books(admitted: Admitted, usage: Usage | None, relayed_bytes: int, *, upstream_worked: bool) -> None:
    """Charge for a reply that was cut short what the table above says."""
    if usage is not None:
        settlement.settle(admitted, usage, Settlement.REPORTED)
    elif upstream_worked:
        settlement.settle(admitted, _estimate(admitted, relayed_bytes), Settlement.PARTIAL)
    else:
        settlement.release(admitted.completion)


def _estimate(admitted: Admitted, relayed_bytes: int) -> Usage:
    request = admitted.call.request
    completion_tokens = min(pricing.estimate(relayed_bytes), admitted.call.max_tokens)
    return Usage(pricing.prompt_tokens_estimate(request), completion_tokens)


class _EventWriter:
    """Chunks in, events out: every one with our id, our time and the model that was asked for."""

    def __init__(self, admitted: Admitted) -> None:
        self.has_written = False
        head = {
            "id": admitted.completion.pk,
            "object": "chat.completion.chunk",
            "created": int(admitted.completion.created_at.timestamp()),
            "model": admitted.call.offer.model_id,
        }
        self._include_usage = admitted.call.request.include_usage
        self._head = b"data: " + json.dumps(head, separators=(",", ":")).encode()[:-1]
        self._before = self._head + b',"choices":'
        self._after = b',"usage":null}\n\n' if self._include_usage else b"}\n\n"

    def write(self, chunks: list[Chunk]) -> bytes:
        """One write for what one read brought; a chunk that only reports usage is not passed on."""
        written = b"".join(self._before + chunk.choices + self._after for chunk in chunks if chunk.usage is None)
        self.has_written = self.has_written or bool(written)
        return written

    def usage(self, usage: Usage) -> bytes:
        if not self._include_usage:
            return b""
        return self._before + b'[],"usage":' + json.dumps(_usage_object(usage), separators=(",", ":")).encode() + b"}\n\n"

    def error(self, error: errors.ApiError) -> bytes:
        """A valid chunk with a top-level ``error``, at which the official clients raise."""
        body = json.dumps(error.body()["error"], separators=(",", ":")).encode()
        choices = b'[{"index":0,"delta":{"content":""},"finish_reason":"error"}]'
        return self._head + b',"error":' + body + b',"choices":' + choices + b"}\n\n"


def _usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
