"""Detects that a peer has closed its connection: a client while we wait for an upstream, and an upstream while its connection
is idle in the pool. WSGI would report a client's disconnect only at our next write. Also stops waiting for a client's body.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import gevent

_READABLE = 1  # libev's event mask for reading


@contextmanager
def raise_on_disconnect(client: Any, exception: BaseException) -> Iterator[None]:
    """Raise ``exception`` in the block when ``client`` disconnects. The block must only wait.

    ``client`` is a gevent socket; with None the block runs without a check.
    """
    if client is None:
        yield
        return
    waiter = gevent.getcurrent()
    watcher = gevent.get_hub().loop.io(client.fileno(), _READABLE)

    def check() -> None:
        watcher.stop()  # other input, such as a pipelined request, stays readable and would call us without end
        if peek(client) == b"":
            waiter.throw(exception)

    watcher.start(check)
    try:
        yield
    finally:
        watcher.stop()
        watcher.close()


def stop_reading(client: Any) -> None:
    """Read nothing more from ``client``, a socket or None: the server closes the connection once it has replied.

    Otherwise it would wait for the rest of the body, as long as for the next request.
    """
    if client is not None:
        with suppress(OSError):  # it has left
            client.shutdown(socket.SHUT_RD)


def peek(connection: Any) -> bytes | None:
    """Return the first byte that has arrived, without reading it; b"" when the peer has closed; None when nothing arrived."""
    try:
        found: bytes = connection._sock.recv(1, socket.MSG_PEEK)  # the socket below gevent's, which would wait
    except BlockingIOError:
        return None
    except OSError:
        return b""
    return found
