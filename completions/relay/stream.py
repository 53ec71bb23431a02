"""A streamed reply: chunks of the provider in, server-sent events out, settled on every exit.

The first chunk is awaited before the status is sent, so that an early failure is an HTTP error. Once the stream has begun,
an error is one event, and no [DONE] follows.
"""

import errno
import math
import time
from collections.abc import Generator, Iterator
from functools import cached_property, partial
from itertools import chain
from typing import Any

from completions.charging.recovery import checkpoints
from completions.charging.recovery.checkpoints import Checkpoint
from completions.chat import Chunk
from completions.pricing.usage import Usage
from completions.providers import base, sse
from completions.providers.base import FailureKind, ProviderFailed
from completions.relay import attempts, charge
from completions.relay.charge import Settlement
from completions.relay.reply_format import EventWriter, ReplyFormat
from completions.relay.running import ChunkStream, Running
from completions.relay.slots import Slot
from gateway_project import errors
from gateway_project.deadline import Deadline
from gateway_project.net import disconnects, draining, http
from gateway_project.web import error_replies

Event = bytes | errors.ApiError

# A client that does not read blocks us in its socket, where nothing is read of the provider. It counts as disconnected while
# there is time to read the rest, or most of what its provider charges would be free. Slow clients may block half of the time.
_UNREAD_SECONDS_MAX = 30  # in one write


class ReplyStream:
    """The body of a streamed reply. The constructor awaits the first chunk, and raises the ApiError of a failure before it.

    ``failure`` is that error where a stream was given up whose reply a repetition may get: the caller closes this once it is
    sent, and the stream is read on. The server closes it when the client disconnects: that frees the provider and settles.
    """

    def __init__(self, running: Running, slot: Slot, reply_format: ReplyFormat) -> None:
        self._events = _events(running, slot, reply_format)
        first = next(self._events)
        self.failure = first if isinstance(first, errors.ApiError) else None
        self._first = [] if isinstance(first, errors.ApiError) else [first]

    def __iter__(self) -> Iterator[bytes]:
        return chain(self._first, self._events)  # type: ignore[arg-type]

    def close(self) -> None:
        self._events.close()


def _events(running: Running, slot: Slot, reply_format: ReplyFormat) -> Generator[Event, None, None]:
    """Yield what is sent for each read, and settle. One generator, since each nested one costs an open stream a kilobyte."""
    with slot, checkpoints.track(running.admitted.completion) as checkpoint:
        progress = _Progress(running, checkpoint, reply_format)
        begun = _begin(progress)
        if isinstance(begun, errors.ApiError):
            try:
                yield begun
            finally:
                progress.settle_late()
            return
        chunks: list[Chunk] | None
        chunks, stream = begun
        wait, deadline = draining.interruptible(_shutting_down), _WriteDeadline(running)
        # Elsewhere a disconnect changes nothing before the end, and is noticed when a chunk cannot be written.
        watched = running.client if running.is_cancellable else None
        error_event: bytes | None = None
        with deadline:
            try:
                while chunks is not None:
                    if written := progress.relay(chunks):
                        deadline.begin_write()
                        yield written
                        deadline.end_write()
                    if watched is None:
                        with wait:
                            chunks = next(stream, None)
                    else:
                        chunks = _next(stream, wait, watched)
            except http.ClientDisconnected:
                progress.settle_disconnected(stream)
                return
            except ProviderFailed as failure:
                running.record_failure(failure)
                error_event = progress.fail(failure)
            except GeneratorExit:
                deadline.end_write()
                progress.settle_disconnected(stream)
                raise
            except BaseException:  # the gateway's own fault
                stream.close()  # first: it generates on, and the database may be slow
                charge.release(running)
                raise
            finally:
                stream.close()
            last_event = progress.finish() if error_event is None else error_event
            deadline.begin_write()
            yield last_event


def _begin(progress: "_Progress") -> tuple[list[Chunk], ChunkStream] | errors.ApiError:
    """Return the first chunks, and the stream of the others. Raises the ApiError of a failure.

    Return the error instead if the stream begins too late, and is read on for a repetition of the request.
    """
    running = progress.running
    try:
        return attempts.stream(running)
    except ProviderFailed as failure:
        if running.late is None or failure.provider_worked or running.admitted.idempotency_key is None:
            progress.fail(failure)
            raise failure.error from failure
        return failure.error
    except BaseException:
        charge.release(running)
        raise


_shutting_down = partial(base.shutting_down, provider_worked=True)


def _next(stream: ChunkStream, wait: draining.interruptible, watched: Any) -> list[Chunk] | None:
    """Return the next chunks; None at the end. Raises ClientDisconnected when the client of the watched socket disconnects."""
    with wait, disconnects.raise_on_disconnect(watched, http.ClientDisconnected()):
        return next(stream, None)


class _WriteDeadline(Deadline):
    """The deadline of each write to the client. The server takes its error for a disconnect."""

    __slots__ = ("_began_at", "_left_seconds")

    def __init__(self, running: Running) -> None:
        super().__init__(math.inf, BrokenPipeError(errno.EPIPE, "the client does not read"))
        self._left_seconds = running.call.route.deadlines.total_seconds / 2  # in all writes

    def begin_write(self) -> None:
        self._began_at = time.monotonic()
        self.begin(max(min(_UNREAD_SECONDS_MAX, self._left_seconds), 0))

    def end_write(self) -> None:
        self.at = math.inf
        self._left_seconds -= time.monotonic() - self._began_at


class _Progress:
    """Counts what is received and relayed of a stream. Settles it, whichever way it ends."""

    def __init__(self, running: Running, checkpoint: Checkpoint, reply_format: ReplyFormat) -> None:
        self.running = running
        self._checkpoint = checkpoint
        self._reply_format = reply_format
        self._usage: Usage | None = None
        self._reported_bytes = 0  # of the text before the latest report
        self._has_finish_reason = False
        self._relayed_bytes = 0

    @cached_property
    def _writer(self) -> EventWriter:
        return self._reply_format.events(self.running)  # not earlier: the first chunk decides which model answers

    def relay(self, chunks: list[Chunk]) -> bytes:
        self._count(chunks)
        return self._writer.write(chunks) if chunks else sse.HEARTBEAT

    def _count(self, chunks: list[Chunk]) -> None:
        text_bytes = 0
        for chunk in chunks:
            text_bytes += chunk.text_bytes
            if chunk.usage or chunk.has_finish_reason:
                if chunk.usage:
                    self._usage, self._reported_bytes = chunk.usage, self._relayed_bytes + text_bytes
                self._has_finish_reason = self._has_finish_reason or chunk.has_finish_reason
        if text_bytes:
            self.running.record_text()
        self._relayed_bytes += text_bytes
        self._checkpoint.relayed_bytes = self._relayed_bytes
        self._checkpoint.served = self.running

    def finish(self) -> bytes:
        usage = self._usage
        if usage is None or self._reported_bytes < self._relayed_bytes:
            usage = self._usage_so_far()
        expected_nanos = charge.expected_nanos(self.running, usage)
        last = self._writer.end(usage, expected_nanos)
        try:
            settled_by = Settlement.REPORTED if usage == self._usage else Settlement.ESTIMATED
            charge.settle(self.running, usage, settled_by, reply=self._writer.stored() + last)
        except Exception as exception:  # the status is sent already: an event is the only way left to report it
            return self._writer.error(error_replies.translate(exception))
        if self.running.charged_nanos != expected_nanos:  # nothing is known to be charged, and the reply must not say so
            return self._writer.end(usage, self.running.charged_nanos)
        return last

    def fail(self, failure: ProviderFailed) -> bytes:
        """Settle a stream that broke off. Return the error event, or the last bytes if only those were missing."""
        if failure.kind is FailureKind.SHUTTING_DOWN and self._has_finish_reason and self._usage:
            return self.finish()
        charge.settle_broken_off(self.running, failure, self._usage, self._relayed_bytes)
        return self._writer.error(failure.error)

    def settle_disconnected(self, stream: ChunkStream) -> None:
        """Settle a stream whose client left. Read it to its end, unless its provider stops charging when it is closed."""
        try:
            if not self.running.is_cancellable:
                self._read_to_end(stream)
        except ProviderFailed as failure:
            self.running.record_failure(failure)
            self.fail(failure)
            return
        stream.close()  # first: it generates on, and the database may be slow
        if self._has_finish_reason and (self._usage or not self.running.is_cancellable):
            self.finish()
        else:
            charge.settle(self.running, self._usage_so_far(), Settlement.PARTIAL)

    def settle_late(self) -> None:
        """Read a stream that was given up to its end, for a repetition. Charge what its provider reports, or else nothing."""
        late = self.running.late
        assert late is not None
        self.running.call = late.call  # the latest attempt again
        self._checkpoint = Checkpoint()  # of no row: the caller gets no text of it if this process dies
        try:
            self._read_to_end(late.chunks)
        except ProviderFailed as failure:
            self.running.record_failure(failure)
        except BaseException:
            charge.release(self.running)
            raise
        if self._usage and self._has_finish_reason:
            late.chunks.close()
            self.running.late = None  # its provider's report is paid
            self.finish()
        else:
            charge.release(self.running)

    def _read_to_end(self, stream: ChunkStream) -> None:
        """Count the rest, within the provider's own deadlines. Keep it only if the client may ask for it again."""
        wait = draining.interruptible(_shutting_down)
        while (chunks := _next(stream, wait, None)) is not None:
            self._count(chunks)
            if self._writer.is_kept:
                self._writer.write(chunks)

    def _usage_so_far(self) -> Usage:
        return charge.at_least_reported(charge.estimate(self.running, self._relayed_bytes), self._usage)
