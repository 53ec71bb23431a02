"""Sends on a socket of gevent in one system call where the kernel's buffer has room, which it nearly always has."""

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
