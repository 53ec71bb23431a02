"""A TCP proxy between a gateway and its database, which a test may cut or freeze, and restore."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlencode

from django.db import connection


class DatabaseProxy:
    """Forwards ``port`` of the loopback to a database, in both directions.

    Cut, it closes all connections. Frozen, it keeps them and forwards nothing, like a network that loses all packets. Each
    answer of the database takes ``delay_seconds`` longer.
    """

    delay_seconds = 0.0

    def __init__(self, listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
        self._listener, self._connect, self.port = listener, connect, listener.getsockname()[1]
        self._is_cut = False
        self._thawed = threading.Event()
        self._thawed.set()
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def database_url(self) -> str:
        return self.url()

    def url(self, **changed: str) -> str:
        named = {name: connection.settings_dict[name.upper()] for name in ("user", "password")} | changed
        where = {"host": "127.0.0.1", "port": self.port, "sslmode": "disable", **{k: v for k, v in named.items() if v}}
        return f"postgresql:///{connection.settings_dict['NAME']}?{urlencode(where)}"

    def cut(self) -> None:
        self._is_cut = True
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        self._thawed.clear()

    def restore(self) -> None:
        self._is_cut, self.delay_seconds = False, 0.0
        self._thawed.set()

    def _serve(self) -> None:
        with suppress(OSError):  # the listener was closed: the test is over
            while True:
                near, _ = self._listener.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = self._connect()
                self._ends += [near, far]
                for source, sink, is_answer in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._forward, args=[source, sink, is_answer], daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if is_answer:
                    time.sleep(self.delay_seconds)
                self._thawed.wait()
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()


def _test_database() -> socket.socket:
    host, port = connection.settings_dict["HOST"], int(connection.settings_dict["PORT"] or 5432)
    if not host.startswith("/"):
        return socket.create_connection((host or "127.0.0.1", port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server


@contextmanager
def running_proxy(connect: Callable[[], socket.socket] = _test_database) -> Iterator[DatabaseProxy]:
    """``connect`` connects to the database: by default to that of the tests."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = DatabaseProxy(listener, connect)
        try:
            yield proxy
        finally:
            proxy.restore()
            proxy.cut()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
