"""The reply, whole or streamed. Every way out settles or releases the hold; what a dead process held, the sweeper releases.

What is charged:

    the upstream reported its usage                  that, exactly
    complete, but no usage                           an estimate of the prompt and of what was relayed
    broken off after the upstream began (2xx)        an estimate of the prompt and of what was relayed, no less than
                                                     the upstream had reported
    failed before that, or unreadable                nothing

A stream's first chunk is awaited before the status is sent, so that an early failure is a true error. Once the stream runs,
an error is one event, and no [DONE] follows.
"""

import errno
import json
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

import gevent
from django.conf import settings

from completions import checkpoints, pricing, providers, settlement, sse
from completions.admission import Admitted
from completions.chat import Chunk, Usage
from completions.checkpoints import Checkpoint
from completions.models import Completion
from completions.providers.base import ProviderFailed
from gateway_project import api, draining, errors

Settlement = Completion.Settlement

# A client that stops reading blocks us in its socket, where no deadline of the upstream is looked at. It must be gone before
# its hold expires, or a reply that was read almost to its end would be free.
_UNREAD_SECONDS_MAX = 5  # ... past the upstream's own deadline


def whole(admitted: Admitted) -> bytes:
    """Ask, settle, and return the chat completion object as JSON. Raises the ApiError of what failed."""
    try:
        with checkpoints.kept(admitted.completion), draining.interruptible(_goodbye(upstream_worked=False)):
            answer = providers.ADAPTERS[admitted.call.offer.kind].complete(admitted.call)
    except ProviderFailed as failure:
        if failure.upstream_worked:
            settlement.settle(admitted, _estimate(admitted, 0), Settlement.PARTIAL)
        else:
            settlement.release(admitted.completion)
        raise failure.error from failure
    except BaseException:
        settlement.release(admitted.completion)
        raise
    usage = answer.usage or _estimate(admitted, answer.text_bytes)
    reply = _dumps({**_head(admitted, "chat.completion"), "choices": answer.choices, "usage": _usage_object(usage)})
    settlement.settle(admitted, usage, Settlement.REPORTED if answer.usage else Settlement.ESTIMATED, reply=reply)
    return reply


class Stream:
    """The body of a streamed reply. Making one awaits the first chunk, and raises the ApiError of what failed before it.

    Closing it, which the server does when the client has left, frees the upstream and settles.
    """

    def __init__(self, admitted: Admitted) -> None:
        self._events = _within_deadline(_checkpointed(admitted))
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


def _checkpointed(admitted: Admitted) -> Generator[bytes, None, None]:
    with checkpoints.kept(admitted.completion) as checkpoint:
        yield from _events(admitted, checkpoint)


def _events(admitted: Admitted, checkpoint: Checkpoint) -> Generator[bytes, None, None]:
    upstream = providers.ADAPTERS[admitted.call.offer.kind].stream(admitted.call)
    progress = _Progress(admitted, checkpoint)
    try:
        while (chunks := _next(upstream)) is not None:
            if not chunks and not progress.writer.has_written:
                continue  # a heartbeat would commit us to status 200
            if written := progress.take(chunks):
                yield written
    except ProviderFailed as failure:
        last = progress.cut_short(failure.error, upstream_worked=failure.upstream_worked)
        if not progress.writer.has_written:
            raise failure.error from failure
        yield last
        return
    except GeneratorExit:
        progress.left(upstream)
        raise
    except BaseException:  # a fault of ours
        upstream.close()  # first: it generates on, and the database may be slow
        settlement.release(admitted.completion)
        raise
    finally:
        upstream.close()
    yield progress.finish()


def _next(upstream: Generator[list[Chunk], None, None]) -> list[Chunk] | None:
    with draining.interruptible(_goodbye(upstream_worked=True)):
        return next(upstream, None)


def _goodbye(*, upstream_worked: bool) -> ProviderFailed:
    return ProviderFailed(
        errors.ServiceUnavailable("The gateway is being restarted. Try again."), upstream_worked=upstream_worked
    )


class _Progress:
    """What of a stream has come and gone, and how it is settled, whichever way it ends."""

    def __init__(self, admitted: Admitted, checkpoint: Checkpoint) -> None:
        self.writer = _EventWriter(admitted)
        self._admitted = admitted
        self._checkpoint = checkpoint
        self._usage: Usage | None = None
        self._is_finished = False
        self._relayed_bytes = 0

    def take(self, chunks: list[Chunk]) -> bytes:
        """Count what one read brought; what is to be sent for it."""
        self._usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage), self._usage)
        self._is_finished = self._is_finished or any(chunk.finishes for chunk in chunks)
        self._relayed_bytes += sum(chunk.text_bytes for chunk in chunks)
        self._checkpoint.relayed_bytes = self._relayed_bytes
        return self.writer.write(chunks) if chunks else sse.HEARTBEAT

    def finish(self) -> bytes:
        """Settle a stream that came to its end; its last bytes."""
        usage = self._usage or _estimate(self._admitted, self._relayed_bytes)
        last = self.writer.usage(usage) + sse.DONE
        try:
            settled_by = Settlement.REPORTED if self._usage else Settlement.ESTIMATED
            settlement.settle(self._admitted, usage, settled_by, reply=self.writer.written() + last)
        except Exception as exception:  # the status is sent: the only way left to say so is an event
            return self.writer.error(api.translate(exception))
        return last

    def cut_short(self, error: errors.ApiError, *, upstream_worked: bool) -> bytes:
        """Settle a stream that broke off; the event that says so."""
        if upstream_worked or self._usage:
            settlement.settle(self._admitted, self._so_far(), Settlement.PARTIAL)
        else:
            settlement.release(self._admitted.completion)
        return self.writer.error(error)

    def left(self, upstream: Generator[list[Chunk], None, None]) -> None:
        """Settle a stream whose client has left. Who may ask for the reply again is kept all of it."""
        try:
            while self._admitted.attempt and (chunks := _next(upstream)) is not None:
                self.take(chunks)
        except ProviderFailed as failure:
            self.cut_short(failure.error, upstream_worked=failure.upstream_worked)
            return
        upstream.close()  # first: it generates on, and the database may be slow
        if self._admitted.attempt or (self._usage and self._is_finished):
            self.finish()
        else:
            settlement.settle(self._admitted, self._so_far(), Settlement.PARTIAL)

    def _so_far(self) -> Usage:
        # Some upstreams report as they go, and then the latest word is older than the text.
        estimate, reported = _estimate(self._admitted, self._relayed_bytes), self._usage
        if reported is None:
            return estimate
        return replace(
            reported,
            prompt_tokens=max(reported.prompt_tokens, estimate.prompt_tokens),
            completion_tokens=max(reported.completion_tokens, estimate.completion_tokens),
        )


def _estimate(admitted: Admitted, relayed_bytes: int) -> Usage:
    completion_tokens = min(pricing.estimate(relayed_bytes), admitted.call.max_tokens)
    return Usage(admitted.completion.prompt_estimate, completion_tokens)


def _head(admitted: Admitted, kind: str) -> dict[str, Any]:
    """What every object of a reply begins with: our id, our time and the model that was asked for."""
    return {
        "id": admitted.completion.id,
        "object": kind,
        "created": int(admitted.completion.created_at.timestamp()),
        "model": admitted.call.offer.model_id,
    }


def _dumps(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class _EventWriter:
    """Chunks in, events out: every one with our id, our time and the model that was asked for."""

    def __init__(self, admitted: Admitted) -> None:
        self.has_written = False
        self._kept: list[bytes] = []  # for who may ask again
        self._kept_bytes = 0 if admitted.attempt else settings.IDEMPOTENT_REPLY_BYTES_MAX + 1
        head = _head(admitted, "chat.completion.chunk")
        self._include_usage = admitted.call.request.include_usage
        self._head = b"data: " + json.dumps(head, separators=(",", ":")).encode()[:-1]
        self._before = self._head + b',"choices":'
        self._after = b',"usage":null}\n\n' if self._include_usage else b"}\n\n"

    def write(self, chunks: list[Chunk]) -> bytes:
        """One write for what one read brought; a chunk that only reports usage is not passed on."""
        written = b"".join(self._before + chunk.choices + self._after for chunk in chunks if chunk.usage is None)
        self.has_written = self.has_written or bool(written)
        if self._kept_bytes <= settings.IDEMPOTENT_REPLY_BYTES_MAX:  # beyond that it will not be kept anyway
            self._kept.append(written)
            self._kept_bytes += len(written)
        return written

    def written(self) -> bytes:
        """All of it, for who may ask again; longer than is kept when it is too long."""
        return b"".join(self._kept)

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
