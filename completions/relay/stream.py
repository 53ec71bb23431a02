"""A streamed reply: chunks of the upstream in, server-sent events out, settled on every exit.

The first chunk is awaited before the status is sent, so that an early failure is an HTTP error. Once the stream has begun,
an error is one event, and no [DONE] follows.
"""

import errno
from collections.abc import Generator, Iterator
from functools import cached_property

import gevent
from django.conf import settings

from completions import sse
from completions.charging import checkpoints
from completions.charging.checkpoints import Checkpoint
from completions.chat import Chunk, Usage
from completions.providers import base
from completions.providers.base import ProviderFailed
from completions.relay import charge
from completions.relay.attempts import ChunkStream, Dispatch
from completions.relay.charge import Settlement
from completions.relay.reply_format import EventWriter
from gateway_project.net import draining
from gateway_project.web import error_replies

# A client that stops reading blocks us in its socket, where no deadline of the upstream is checked. Its connection must be
# cut before its hold expires, or a reply that was read almost to its end would be free.
_UNREAD_SECONDS_MAX = 5  # after the upstream's own deadline

_READ_TO_END_MAX = 100  # replies that a process reads to their end at a time after their clients disconnected
_ids_read_to_end: set[str] = set()  # the ids of their completions


class ReplyStream:
    """The body of a streamed reply. The constructor awaits the first chunk; it raises the ApiError of a failure before it.

    The server closes it when the client disconnects: that frees the upstream and settles.
    """

    def __init__(self, dispatch: Dispatch) -> None:
        self._events = _within_deadline(_checkpointed(dispatch))
        self._first: bytes | None = next(self._events)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        first, self._first = self._first, None
        return next(self._events) if first is None else first

    def close(self) -> None:
        self._events.close()


def _within_deadline(events: Generator[bytes, None, None]) -> Generator[bytes, None, None]:
    """Yield the events. A timer also runs while the server writes one; the server takes its error for a disconnect."""
    unread = BrokenPipeError(errno.EPIPE, "the client stopped reading")
    with gevent.Timeout(settings.UPSTREAM_TOTAL_SECONDS + _UNREAD_SECONDS_MAX, unread):
        yield from events


def _checkpointed(dispatch: Dispatch) -> Generator[bytes, None, None]:
    with checkpoints.track(dispatch.admitted.completion) as checkpoint:
        progress = _Progress(dispatch, checkpoint)
        try:
            chunks, upstream = dispatch.stream()
        except ProviderFailed as failure:
            progress.fail(failure)
            raise failure.error from failure
        except BaseException:
            charge.release(dispatch)
            raise
        yield from _events(progress, chunks, upstream)


def _events(progress: "_Progress", chunks: list[Chunk] | None, upstream: ChunkStream) -> Generator[bytes, None, None]:
    try:
        while chunks is not None:
            if written := progress.relay(chunks):
                yield written
            chunks = _next(upstream)
    except ProviderFailed as failure:
        yield progress.fail(failure)
        return
    except GeneratorExit:
        progress.settle_disconnected(upstream)
        raise
    except BaseException:  # the gateway's own fault
        upstream.close()  # first: it generates on, and the database may be slow
        charge.release(progress.dispatch)
        raise
    finally:
        upstream.close()
    yield progress.finish()


def _next(upstream: ChunkStream) -> list[Chunk] | None:
    with draining.interruptible(base.shutting_down(upstream_worked=True)):
        return next(upstream, None)


class _Progress:
    """What has been received and relayed of a stream. Settles it, whichever way it ends."""

    def __init__(self, dispatch: Dispatch, checkpoint: Checkpoint) -> None:
        self.dispatch = dispatch
        self._checkpoint = checkpoint
        self._usage: Usage | None = None
        self._has_finish_reason = False
        self._relayed_bytes = 0

    @cached_property
    def _writer(self) -> EventWriter:
        return EventWriter(self.dispatch)  # not earlier: the first chunk decides which model answers

    def relay(self, chunks: list[Chunk]) -> bytes:
        """Count the chunks of one read. Return what is sent for them."""
        self._checkpoint.served_by = self.dispatch.served_by
        self._usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage), self._usage)
        self._has_finish_reason = self._has_finish_reason or any(chunk.has_finish_reason for chunk in chunks)
        text_bytes = sum(chunk.text_bytes for chunk in chunks)
        if text_bytes:
            self.dispatch.record_text()
        self._relayed_bytes += text_bytes
        self._checkpoint.relayed_bytes = self._relayed_bytes
        return self._writer.write(chunks) if chunks else sse.HEARTBEAT

    def finish(self) -> bytes:
        """Settle a complete stream. Return its last bytes."""
        usage = self._usage or charge.estimate(self.dispatch, self._relayed_bytes)
        last = self._writer.usage(usage) + sse.DONE
        try:
            settled_by = Settlement.REPORTED if self._usage else Settlement.ESTIMATED
            charge.settle(self.dispatch, usage, settled_by, reply=self._writer.stored() + last)
        except Exception as exception:  # the status is sent already: an event is the only way left to report it
            return self._writer.error(error_replies.translate(exception))
        return last

    def fail(self, failure: ProviderFailed) -> bytes:
        """Settle a stream that broke off. Return the error event."""
        if failure.upstream_worked or self._usage:
            charge.settle(self.dispatch, self._usage_so_far(), Settlement.PARTIAL)
        else:
            charge.release(self.dispatch)
        return self._writer.error(failure.error)

    def settle_disconnected(self, upstream: ChunkStream) -> None:
        """Settle a stream whose client disconnected.

        It is read to its end when the client may ask for the reply again under its Idempotency-Key, and when the provider
        charges for all of it anyway.
        """
        is_read_to_end = self.dispatch.admitted.idempotency_key is not None or self.dispatch.call.route.drains
        try:
            is_read_to_end = is_read_to_end and self._read_to_end(upstream)
        except ProviderFailed as failure:
            self.fail(failure)
            return
        upstream.close()  # first: it generates on, and the database may be slow
        if is_read_to_end or (self._usage and self._has_finish_reason):
            self.finish()
        else:
            charge.settle(self.dispatch, self._usage_so_far(), Settlement.PARTIAL)

    def _read_to_end(self, upstream: ChunkStream) -> bool:
        """Read the rest, until the upstream's own deadline at most. Return False when the process reads too many already."""
        if len(_ids_read_to_end) >= _READ_TO_END_MAX:
            return False
        _ids_read_to_end.add(self.dispatch.admitted.completion.id)
        try:
            while (chunks := _next(upstream)) is not None:
                self.relay(chunks)
        finally:
            _ids_read_to_end.remove(self.dispatch.admitted.completion.id)
        return True

    def _usage_so_far(self) -> Usage:
        return charge.at_least_reported(charge.estimate(self.dispatch, self._relayed_bytes), self._usage)
