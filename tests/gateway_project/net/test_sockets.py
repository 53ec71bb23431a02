"""Sending: all bytes arrive, in order, whether the kernel has room for them or not."""

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
