"""LEAF. Noticing that somebody has hung up: a client while we wait for somebody else, of which WSGI would tell us at our next
write only; an upstream while its connection waits to be used again.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent

_READABLE = 1  # what an event loop calls it


@contextmanager
def raise_on_disconnect(client: Any, goodbye: BaseException) -> Iterator[None]:
    """Around a wait, and nothing else: ``goodbye`` is raised in it when ``client``, a socket of gevent's or None, hangs up."""
    if client is None:
        yield
        return
    waiter = gevent.getcurrent()
    watcher = gevent.get_hub().loop.io(client.fileno(), _READABLE)

    def look() -> None:
        watcher.stop()  # what else is readable, such as a next request, stays so and would wake us without end
        if peek(client) == b"":
            waiter.throw(goodbye)

    watcher.start(look)
    try:
        yield
    finally:
        watcher.stop()
        watcher.close()


def peek(connection: Any) -> bytes | None:
    """The first of what came and nobody has read, which stays there; b"" when the peer has left; None when nothing came."""
    try:
        found: bytes = connection._sock.recv(1, socket.MSG_PEEK)  # the socket below gevent's, which would wait
    except BlockingIOError:
        return None
    except OSError:
        return b""
    return found
