"""Reads request bodies: at once where they came with their head, otherwise straight from gunicorn's socket. Discards unread
ones.

gunicorn's own reader copies what it has read ahead for every kilobyte that it discards: five megabytes take it a second, in
which the process serves no other request. Here a body is received in slices that take turns.
"""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import gevent
from django.conf import settings
from gevent.socket import wait_read
from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.errors import NoMoreData, ParseException

from gateway_project import large_work

# Of one body: each takes 10 microseconds, and may have a single byte.
CHUNKS_MAX = 20_000
_PAUSE_CHUNKS = 200
_SLICE_BYTES = 262_144
_PIPELINED_PAUSE_SECONDS = 0.01
_IDLE_SECONDS = 2  # a client that sends nothing more of a body that it was refused


def take_buffered(environ: dict[str, Any], length: int) -> bytes | None:
    """Return the body if all its ``length`` bytes came with the head, as most do; otherwise None, and leave it to be read."""
    body: Any = environ.get("wsgi.input")
    if type(body) is not Body or type(body.reader) is not LengthReader or body.reader.length != length:
        return None
    unreader = body.reader.unreader
    ahead: bytes = unreader.take_buffered()
    if len(ahead) < length:
        unreader.unread(ahead)
        return None
    if len(ahead) > length:
        unreader.unread(ahead[length:])
    body.reader.length = 0
    return ahead[:length]


def read(environ: dict[str, Any], length: int, arrived: Callable[[int], None]) -> bytes | None:
    """Return the body, or less of it where the client stops sending; None if this server's bodies must be read otherwise.

    ``arrived`` is told after each slice how many bytes have arrived; what it raises ends the reading.
    """
    body, client = environ.get("wsgi.input"), environ.get("gunicorn.socket")
    if body is None or not _is_direct(body, client):
        return None
    if length <= large_work.LARGE_BYTES:
        small: bytes = body._read_reader(length)  # as the body does by itself, in five calls more
        arrived(len(small))
        return small
    received = bytearray()

    def keep(piece: bytes) -> None:
        received.extend(piece)
        arrived(len(received))

    _receive(body.reader, client, length, keep)
    return bytes(received)


class InvalidChunks(Exception):
    """A body is not in chunked transfer coding, ends too early, or has more than CHUNKS_MAX chunks."""


def read_chunks(environ: dict[str, Any]) -> Iterator[bytes]:
    """Yield a body in chunked transfer coding piece by piece, each a megabyte at most. Raises InvalidChunks."""
    body = environ["wsgi.input"]
    if not (isinstance(body, Body) and isinstance(body.reader, ChunkedReader)):  # another server has taken the chunks apart
        while piece := body.read(_SLICE_BYTES):
            yield piece
        return
    try:
        for number, piece in enumerate(body.reader.parser or ()):
            if number >= CHUNKS_MAX:
                raise InvalidChunks
            if number % _PAUSE_CHUNKS == _PAUSE_CHUNKS - 1:
                gevent.sleep(0)
            yield piece
    except (ParseException, NoMoreData):
        body.failed = True  # where the next request begins is unknown
        raise InvalidChunks from None
    body.reader.parser = None


def end(request: Any, client: Any) -> None:
    """Discard what was not read of the body of gunicorn's ``request``, after the reply was sent.

    The client may be sending it still, and would not see the reply if the connection were closed at once: it is closed if not
    all arrives in time. If its next request has arrived, pause: gunicorn would serve thousands before anybody else gets a turn.
    """
    reader = request.body.reader
    if request.unreader.buf.tell():
        gevent.sleep(_PIPELINED_PAUSE_SECONDS)
    if getattr(reader, "parser", None):
        _discard_chunks(request)
    if getattr(reader, "length", 0) <= large_work.LARGE_BYTES or not _is_direct(request.body, client):
        return  # gunicorn does it
    with gevent.Timeout(settings.REQUEST_BODY_TIMEOUT_SECONDS, False):
        left = min(reader.length, settings.REQUEST_BYTES_MAX)
        _receive(reader, client, left, len, idle_seconds=_IDLE_SECONDS)
    if reader.length:
        request.force_close()


def _discard_chunks(request: Any) -> None:
    """Discard the rest of a chunked body for a short time, and close the connection: the body may have no end."""
    received = 0
    with suppress(InvalidChunks, OSError), gevent.Timeout(_IDLE_SECONDS, False):
        for piece in read_chunks({"wsgi.input": request.body}):
            received += len(piece)
            if received > settings.REQUEST_BYTES_MAX:
                break
    request.force_close()


def _is_direct(body: Any, client: Any) -> bool:
    is_plain = isinstance(client, socket.socket) and not isinstance(client, ssl.SSLSocket)
    return is_plain and isinstance(body, Body) and isinstance(body.reader, LengthReader)


def _receive(
    reader: LengthReader, client: Any, length: int, take: Callable[[bytes], object], *, idle_seconds: float | None = None
) -> None:
    """Receive up to ``length`` bytes, less where the client stops sending, and pass them to ``take`` piece by piece."""
    ahead = reader.unreader.take_buffered()
    if len(ahead) > length:  # the next request has arrived, too
        reader.unreader.unread(ahead[length:])
        ahead = ahead[:length]
    reader.length -= len(ahead)
    length -= len(ahead)
    take(ahead)
    while length:
        try:
            wait_read(client.fileno(), timeout=idle_seconds)
            with large_work.turn(length):
                piece = client.recv(min(_SLICE_BYTES, length))
        except OSError:  # it has left, or sent nothing for too long
            return
        if not piece:
            return
        reader.length -= len(piece)
        length -= len(piece)
        take(piece)
