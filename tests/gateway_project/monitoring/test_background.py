"""Who may read the metrics at the worker's address."""

import logging
import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from gateway_project.monitoring import background
from tests.gateway_project.local.launch import free_port

SECRET = "m" * 40


@pytest.fixture
def ask(db):
    port = free_port()
    server = background.serve_metrics("127.0.0.1", port)
    assert server

    def send(path, **headers):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    yield send
    server.shutdown()
    server.server_close()


def test_metrics_are_served_and_nothing_else(ask):
    status, body = ask("/metrics")
    assert status == 200
    assert b"# TYPE gateway_database_up gauge" in body
    for path in ("/", "/healthz", "/v1/models", "/metrics/"):
        assert ask(path) == (404, b"")


def test_the_secret_is_asked_for_where_it_is_set(ask, settings):
    settings.METRICS_SECRET = SECRET
    assert ask("/metrics") == (401, b"")
    assert ask("/metrics", Authorization=f"Bearer {SECRET}x") == (401, b"")
    assert ask("/metrics", Authorization=f"Bearer {SECRET}")[0] == 200


def test_an_address_that_is_taken_is_logged_and_the_worker_goes_on(caplog):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        assert background.serve_metrics("127.0.0.1", taken.getsockname()[1]) is None
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("the worker cannot serve /metrics at 127.0.0.1:")
