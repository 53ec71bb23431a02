"""Detects that a peer has closed its connection: a client while we wait for a provider, and a provider while its connection
is idle in the pool. WSGI would report a client's disconnect only at our next write. Also stops waiting for a client's body.
"""

import select
import socket
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any

import gevent
from gevent import monkey

_READABLE = 1  # libev's event mask for reading
_CHECK_SECONDS = 1  # between two looks at a client that has sent more than its request
_poll = monkey.get_original("select", "poll")  # gevent's own would wait
_POLLRDHUP = getattr(select, "POLLRDHUP", 0)  # Linux only: elsewhere, what was sent hides that its sender has closed


def raise_on_disconnect(client: Any, exception: BaseException) -> AbstractContextManager[None]:
    """Raise ``exception`` in the block, which must only wait, when ``client``, a gevent socket or None, disconnects."""
    return _UNWATCHED if client is None else _watched(client, exception)


_UNWATCHED = nullcontext()


class _watched:  # noqa: N801  a context manager
    """Watches a client. After the block no cycle of references is left for the collector."""

    __slots__ = ("_client", "_exception", "_timer", "_waiter", "_watcher")

    def __init__(self, client: Any, exception: BaseException) -> None:
        self._client, self._exception = client, exception

    def __enter__(self) -> None:
        self._waiter, loop = gevent.getcurrent(), gevent.get_hub().loop
        self._watcher = loop.io(self._client.fileno(), _READABLE)
        self._timer = loop.timer(_CHECK_SECONDS, _CHECK_SECONDS)
        self._watcher.start(self._check)

    def _check(self) -> None:
        self._watcher.stop()  # other input, such as a pipelined request, stays readable and would call us without end
        if has_disconnected(self._client):
            self._waiter.throw(self._exception)
        elif not self._timer.active:
            self._timer.start(self._check)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for each in (self._watcher, self._timer):
            each.stop()
            each.close()


def stop_reading(client: Any) -> None:
    """Read nothing more from ``client``, a socket or None: once it has replied, the server closes and waits for no rest."""
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
