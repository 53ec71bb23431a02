"""Sends and receives on sockets of gevent in one system call each, where that is enough, as it nearly always is."""

from typing import Any

from gevent.socket import socket


def send_all(connection: Any, data: bytes) -> None:
    """Send the data, waiting for room where it is needed, as ``connection.sendall`` does in six calls."""
    sent = 0
    if type(connection) is socket:  # and not its subclass for TLS
        try:
            sent = connection._sock.send(data)  # the socket below gevent's, which does not wait
        except BlockingIOError:
            sent = 0
    if sent < len(data):
        connection.sendall(data[sent:] if sent else data)


def receive(connection: Any, bytes_max: int) -> bytes:
    """Wait for bytes, return them. ``connection.recv`` looks first, without effect where the other side has yet to answer."""
    if type(connection) is not socket or connection._read_event is None:  # it is closed
        received: bytes = connection.recv(bytes_max)
        return received
    while True:
        connection._wait(connection._read_event)
        try:
            received = connection._sock.recv(bytes_max)
        except BlockingIOError:  # the kernel has dropped what had arrived
            continue
        return received
