"""Sending and receiving: all bytes arrive, in order, whether the kernel has room for them, or has them, or not."""

from collections.abc import Iterator
from typing import Any

import gevent
import pytest
from gevent import socket

from gateway_project.net import sockets


@pytest.fixture
def pair() -> Iterator[tuple[Any, Any]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
            yield client, server


def test_what_the_buffer_has_room_for_is_sent_without_waiting(pair):
    client, server = pair
    sockets.send_all(client, b"hello")
    assert server.recv(10) == b"hello"


def test_more_than_the_buffer_holds_is_sent_as_the_peer_reads(pair):
    client, server = pair
    data = bytes(range(256)) * 40_000
    received = bytearray()
    sending = gevent.spawn(sockets.send_all, client, data)
    sending.join(0.1)
    assert not sending.ready()  # it waits for room
    while len(received) < len(data):
        received += server.recv(65_536)
    sending.get()
    assert received == data


def test_a_peer_that_has_reset_the_connection_is_an_error(pair):
    client, server = pair
    client.sendall(b"unread")
    gevent.sleep(0)
    server.close()
    with pytest.raises(ConnectionError):
        sockets.send_all(client, b"x" * 10_000_000)


def test_bytes_are_received_once_they_arrive(pair):
    client, server = pair
    receiving = gevent.spawn(sockets.receive, client, 100)
    receiving.join(0.05)
    assert not receiving.ready()
    server.sendall(b"hello")
    assert receiving.get(timeout=10) == b"hello"
    server.close()
    assert sockets.receive(client, 100) == b""


def test_a_wait_for_bytes_goes_on_where_there_are_none_after_all(pair):
    client, server = pair
    received = []

    class Sock:
        """The socket below gevent's. What had arrived is dropped once, as the kernel does where a checksum is wrong."""

        def __init__(self, sock: Any) -> None:
            self._sock = sock

        def __getattr__(self, name: str) -> Any:
            return getattr(self._sock, name)

        def recv(self, bytes_max: int) -> bytes:
            received.append(self._sock.recv(bytes_max))
            if len(received) == 1:
                raise BlockingIOError
            return received[-1]

    client._sock = Sock(client._sock)
    receiving = gevent.spawn(sockets.receive, client, 100)
    server.sendall(b"dropped")
    receiving.join(0.05)
    assert received == [b"dropped"]
    assert not receiving.ready()
    server.sendall(b"hello")
    assert receiving.get(timeout=10) == b"hello"


def test_nothing_is_received_of_a_closed_connection(pair):
    client, _ = pair
    client.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        sockets.receive(client, 100)


def test_other_kinds_of_connections_receive_by_themselves():
    class Encrypted:
        def recv(self, bytes_max: int) -> bytes:
            return b"x" * bytes_max

    assert sockets.receive(Encrypted(), 3) == b"xxx"
