"""Detects that a peer has closed its connection: a client while we wait for an upstream, and an upstream while its connection
is idle in the pool. WSGI would report a client's disconnect only at our next write. Also stops waiting for a client's body.
"""

import select
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import gevent
from gevent import monkey

_READABLE = 1  # libev's event mask for reading
_CHECK_SECONDS = 1  # between two looks at a client that has sent more than its request
_poll = monkey.get_original("select", "poll")  # gevent's own would wait
_POLLRDHUP = getattr(select, "POLLRDHUP", 0)  # Linux only: elsewhere, what was sent hides that its sender has closed


def raise_on_disconnect(client: Any, exception: BaseException) -> AbstractContextManager[None]:
    """Raise ``exception`` in the block when ``client`` disconnects. The block must only wait.

    ``client`` is a gevent socket; with None the block runs without a check.
    """
    return _UNWATCHED if client is None else _watched(client, exception)


_UNWATCHED = nullcontext()


@contextmanager
def _watched(client: Any, exception: BaseException) -> Iterator[None]:
    waiter = gevent.getcurrent()
    loop = gevent.get_hub().loop
    watcher, timer = loop.io(client.fileno(), _READABLE), loop.timer(_CHECK_SECONDS, _CHECK_SECONDS)

    def check() -> None:
        watcher.stop()  # other input, such as a pipelined request, stays readable and would call us without end
        if has_disconnected(client):
            waiter.throw(exception)
        elif not timer.active:
            timer.start(check)

    watcher.start(check)
    try:
        yield
    finally:
        for each in (watcher, timer):
            each.stop()
            each.close()


def stop_reading(client: Any) -> None:
    """Read nothing more from ``client``, a socket or None: the server closes the connection once it has replied.

    Otherwise it would wait for the rest of the body, as long as for the next request.
    """
    if client is not None:
        with suppress(OSError):  # it has left
            client.shutdown(socket.SHUT_RD)


last_replies = set[Any]()  # sockets of clients that get one more reply, which says that the connection ends with it


def end_with_reply(client: Any) -> None:
    """Tell ``client``, a socket or None, with its reply to send nothing more on this connection. ``hang_up`` then ends it."""
    if client is not None:
        last_replies.add(client)


def hang_up(client: Any) -> None:
    """End the connection of ``client``, a socket or None, to which the whole reply was sent. The server closes it later."""
    if client is not None:
        last_replies.discard(client)
        with suppress(OSError):  # it has left
            client.shutdown(socket.SHUT_RDWR)


def has_disconnected(client: Any) -> bool:
    """Return whether ``client``, a gevent socket or None, has closed its connection, whatever it had sent before."""
    if client is None:
        return False
    found = peek(client)
    if not found:
        return found == b""
    poll = _poll()  # the end may have arrived behind what it sent
    poll.register(client.fileno(), _POLLRDHUP)
    return bool(poll.poll(0))


def peek(connection: Any) -> bytes | None:
    """Return the first byte that has arrived, without reading it; b"" when the peer has closed; None when nothing arrived."""
    try:
        found: bytes = connection._sock.recv(1, socket.MSG_PEEK)  # the socket below gevent's, which would wait
    except BlockingIOError:
        return None
    except OSError:
        return b""
    return found
