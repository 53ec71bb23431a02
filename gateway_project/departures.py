"""LEAF. Noticing that a client has hung up while we wait for somebody else: WSGI would tell us at our next write only."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent

_READABLE = 1  # what an event loop calls it


@contextmanager
def noticed(client: Any, goodbye: BaseException) -> Iterator[None]:
    """Around a wait, and nothing else: ``goodbye`` is raised in it when ``client``, a socket of gevent's or None, hangs up."""
    if client is None:
        yield
        return
    waiter = gevent.getcurrent()
    watcher = gevent.get_hub().loop.io(client.fileno(), _READABLE)

    def look() -> None:
        watcher.stop()  # what else is readable, such as a next request, stays so and would wake us without end
        if _has_left(client):
            waiter.throw(goodbye)

    watcher.start(look)
    try:
        yield
    finally:
        watcher.stop()
        watcher.close()


def _has_left(client: Any) -> bool:
    try:
        # The socket below gevent's, which would wait; and a look that takes nothing away.
        return not client._sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
