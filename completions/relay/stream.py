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
from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import gevent
from django.conf import settings

from completions import sse
from completions.charging import checkpoints, settlement
from completions.charging.checkpoints import Checkpoint
from completions.chat import Chunk, Usage
from completions.models import Completion
from completions.pricing import cost
from completions.providers import base
from completions.providers.base import ProviderFailed
from completions.relay import attempts
from completions.relay.attempts import Inquiry
from gateway_project import compact_json, errors
from gateway_project.net import draining
from gateway_project.web import error_replies

Settlement = Completion.Settlement

# A client that stops reading blocks us in its socket, where no deadline of the upstream is looked at. It must be gone before
# its hold expires, or a reply that was read almost to its end would be free.
_UNREAD_SECONDS_MAX = 5  # ... past the upstream's own deadline

_READ_ON_MAX = 100  # replies that a process reads to their end though their clients have left
_read_on: set[str] = set()  # the ids of their completions


def whole(inquiry: Inquiry) -> bytes:
    """Ask, settle, and return the chat completion object as JSON. Raises the ApiError of what failed."""
    try:
        with checkpoints.kept(inquiry.admitted.completion):
            answer = inquiry.whole()
    except ProviderFailed as failure:
        if failure.upstream_worked:
            _settle(inquiry, _estimate(inquiry, 0), Settlement.PARTIAL)
        else:
            _release(inquiry)
        raise failure.error from failure
    except BaseException:
        _release(inquiry)
        raise
    usage = answer.usage or _estimate(inquiry, answer.text_bytes)
    reply = compact_json.dumps({**_head(inquiry, "chat.completion"), "choices": answer.choices, "usage": _usage_object(usage)})
    _settle(inquiry, usage, Settlement.REPORTED if answer.usage else Settlement.ESTIMATED, reply=reply)
    return reply


def _settle(inquiry: Inquiry, usage: Usage, settled_by: Completion.Settlement, *, reply: bytes | None = None) -> None:
    """Charge ``usage`` at the admitted price of the offer that answered, and note the charge for the headers."""
    admitted = inquiry.admitted
    inquiry.charged_nanos = settlement.settle(
        admitted.completion,
        inquiry.served_by,
        usage,
        inquiry.call.offer.price,
        settled_by,
        has_idempotency_key=admitted.idempotency_key is not None,
        reply=reply,
    )


def _release(inquiry: Inquiry) -> None:
    settlement.release(inquiry.admitted.completion, inquiry.served_by)


class Stream:
    """The body of a streamed reply. Making one awaits the first chunk, and raises the ApiError of what failed before it.

    Closing it, which the server does when the client has left, frees the upstream and settles.
    """

    def __init__(self, inquiry: Inquiry) -> None:
        self._events = _within_deadline(_checkpointed(inquiry))
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


def _checkpointed(inquiry: Inquiry) -> Generator[bytes, None, None]:
    with checkpoints.kept(inquiry.admitted.completion) as checkpoint:
        progress = _Progress(inquiry, checkpoint)
        try:
            chunks, upstream = inquiry.stream()
        except ProviderFailed as failure:
            progress.cut_short(failure)
            raise failure.error from failure
        except BaseException:
            _release(inquiry)
            raise
        yield from _events(progress, chunks, upstream)


def _events(progress: "_Progress", chunks: list[Chunk] | None, upstream: attempts.Stream) -> Generator[bytes, None, None]:
    try:
        while chunks is not None:
            if written := progress.take(chunks):
                yield written
            chunks = _next(upstream)
    except ProviderFailed as failure:
        yield progress.cut_short(failure)
        return
    except GeneratorExit:
        progress.left(upstream)
        raise
    except BaseException:  # a fault of ours
        upstream.close()  # first: it generates on, and the database may be slow
        _release(progress.inquiry)
        raise
    finally:
        upstream.close()
    yield progress.finish()


def _next(upstream: attempts.Stream) -> list[Chunk] | None:
    with draining.interruptible(base.shutting_down(upstream_worked=True)):
        return next(upstream, None)


class _Progress:
    """What of a stream has come and gone, and how it is settled, whichever way it ends."""

    def __init__(self, inquiry: Inquiry, checkpoint: Checkpoint) -> None:
        self.inquiry = inquiry
        self._checkpoint = checkpoint
        self._usage: Usage | None = None
        self._is_finished = False
        self._relayed_bytes = 0

    @cached_property
    def _writer(self) -> "_EventWriter":
        return _EventWriter(self.inquiry)  # only now that it is known who answers

    def take(self, chunks: list[Chunk]) -> bytes:
        """Count what one read brought; what is to be sent for it."""
        self._checkpoint.served_by = self.inquiry.served_by
        self._usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage), self._usage)
        self._is_finished = self._is_finished or any(chunk.has_finish_reason for chunk in chunks)
        text_bytes = sum(chunk.text_bytes for chunk in chunks)
        if text_bytes:
            self.inquiry.hear()
        self._relayed_bytes += text_bytes
        self._checkpoint.relayed_bytes = self._relayed_bytes
        return self._writer.write(chunks) if chunks else sse.HEARTBEAT

    def finish(self) -> bytes:
        """Settle a stream that came to its end; its last bytes."""
        usage = self._usage or _estimate(self.inquiry, self._relayed_bytes)
        last = self._writer.usage(usage) + sse.DONE
        try:
            settled_by = Settlement.REPORTED if self._usage else Settlement.ESTIMATED
            _settle(self.inquiry, usage, settled_by, reply=self._writer.written() + last)
        except Exception as exception:  # the status is sent: the only way left to say so is an event
            return self._writer.error(error_replies.translate(exception))
        return last

    def cut_short(self, failure: ProviderFailed) -> bytes:
        """Settle a stream that broke off; the event that says so."""
        if failure.upstream_worked or self._usage:
            _settle(self.inquiry, self._so_far(), Settlement.PARTIAL)
        else:
            _release(self.inquiry)
        return self._writer.error(failure.error)

    def left(self, upstream: attempts.Stream) -> None:
        """Settle a stream whose client has left.

        It is read to its end where somebody may ask for the reply again, and where it must be paid to its end anyway.
        """
        is_read_on = self.inquiry.admitted.idempotency_key is not None or self.inquiry.call.route.drains
        try:
            is_read_on = is_read_on and self._read_on(upstream)
        except ProviderFailed as failure:
            self.cut_short(failure)
            return
        upstream.close()  # first: it generates on, and the database may be slow
        if is_read_on or (self._usage and self._is_finished):
            self.finish()
        else:
            _settle(self.inquiry, self._so_far(), Settlement.PARTIAL)

    def _read_on(self, upstream: attempts.Stream) -> bool:
        """To the end, which comes by the upstream's own deadline. False when too many are read for nobody already."""
        if len(_read_on) >= _READ_ON_MAX:
            return False
        _read_on.add(self.inquiry.admitted.completion.id)
        try:
            while (chunks := _next(upstream)) is not None:
                self.take(chunks)
        finally:
            _read_on.remove(self.inquiry.admitted.completion.id)
        return True

    def _so_far(self) -> Usage:
        # Some upstreams report as they go, and then the latest word is older than the text.
        estimate, reported = _estimate(self.inquiry, self._relayed_bytes), self._usage
        if reported is None:
            return estimate
        return replace(
            reported,
            prompt_tokens=max(reported.prompt_tokens, estimate.prompt_tokens),
            completion_tokens=max(reported.completion_tokens, estimate.completion_tokens),
        )


def _estimate(inquiry: Inquiry, relayed_bytes: int) -> Usage:
    completion_tokens = min(cost.estimate_tokens(relayed_bytes), inquiry.admitted.request.choices * inquiry.call.max_tokens)
    return Usage(inquiry.admitted.completion.prompt_estimate, completion_tokens)


def _head(inquiry: Inquiry, kind: str) -> dict[str, Any]:
    """What every object of a reply begins with: our id, our time and the model that answers."""
    completion = inquiry.admitted.completion
    return {
        "id": completion.id,
        "object": kind,
        "created": int(completion.created_at.timestamp()),
        "model": inquiry.call.offer.model_id,
    }


class _EventWriter:
    """Chunks in, events out: every one with our id, our time and the model that answers."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._kept: list[bytes] = []  # for who may ask again
        self._kept_bytes = 0 if inquiry.admitted.idempotency_key else settings.IDEMPOTENT_REPLY_BYTES_MAX + 1
        head = _head(inquiry, "chat.completion.chunk")
        self._include_usage = inquiry.admitted.request.include_usage
        self._head = b"data: " + compact_json.dumps_ascii(head)[:-1]
        self._before = self._head + b',"choices":'
        self._after = b',"usage":null}\n\n' if self._include_usage else b"}\n\n"

    def write(self, chunks: list[Chunk]) -> bytes:
        """One write for what one read brought; a chunk that only reports usage is not passed on."""
        written = b"".join(self._before + chunk.choices + self._after for chunk in chunks if chunk.usage is None)
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
        return self._before + b'[],"usage":' + compact_json.dumps_ascii(_usage_object(usage)) + b"}\n\n"

    def error(self, error: errors.ApiError) -> bytes:
        """A valid chunk with a top-level ``error``, at which the official clients raise."""
        body = compact_json.dumps_ascii(error.body()["error"])
        choices = b'[{"index":0,"delta":{"content":""},"finish_reason":"error"}]'
        return self._head + b',"error":' + body + b',"choices":' + choices + b"}\n\n"


def _usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
