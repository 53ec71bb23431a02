"""Forms of pages: how much of one is read, from whom, and when it is parsed. Pages whose client hangs up."""

import io
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import path, reverse
from gevent import socket

from gateway_project import large_work
from gateway_project.web import page_middleware
from gateway_project.web.bodies_in_flight import process_bodies
from tests.gateway_project.web.counted_lock import CountedLock
from tests.pages.conftest import owner  # noqa: F401  a fixture

FORM_BYTES_MAX = 65_536
FORM = "application/x-www-form-urlencoded"
SIGN_IN, FIND_KEY = "/accounts/login/", "/dashboard/keys/find/"


class CountedBody(io.BytesIO):
    """A body that counts the bytes that are read of it."""

    read_bytes = 0

    def read(self, size=-1):
        piece = super().read(size)
        self.read_bytes += len(piece)
        return piece


def send(client, path, length, **headers):
    """Send a form of that length. Return the reply, and how many of its bytes were read."""
    body = CountedBody(b"secret=" + b"a" * (length - 7))
    extra: Any = {"wsgi.input": body, "CONTENT_LENGTH": str(length), "HTTP_ACCEPT": "text/html", **headers}
    return client.generic("POST", path, b"", FORM, **extra), body.read_bytes


@pytest.fixture
def lock(monkeypatch):
    lock = CountedLock()
    monkeypatch.setattr(large_work, "_lock", lock)
    return lock


@pytest.mark.parametrize("path", [SIGN_IN, FIND_KEY, "/nothing", "/accounts/signup/"])
@pytest.mark.parametrize("cookie", ["", "sessionid=nobody"])
def test_a_form_of_somebody_who_is_not_signed_in_is_refused_unread_beyond_64_kb(db, path, cookie, lock):
    refused, read_bytes = send(Client(), path, FORM_BYTES_MAX + 1, HTTP_COOKIE=cookie)
    assert (refused.status_code, read_bytes, lock.turns) == (413, 0, 0)
    assert "The form is larger than 65,536 bytes. Sign in to send larger ones." in refused.content.decode()
    _, read_bytes = send(Client(), path, FORM_BYTES_MAX, HTTP_COOKIE=cookie)
    assert read_bytes == FORM_BYTES_MAX


def test_a_refused_form_costs_somebody_without_a_session_no_query(db, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert send(Client(), SIGN_IN, FORM_BYTES_MAX + 1)[0].status_code == 413


def test_whoever_is_signed_in_may_send_a_larger_form(owner, lock):  # noqa: F811
    reply, read_bytes = send(owner, FIND_KEY, FORM_BYTES_MAX + 1)
    assert (reply.status_code, read_bytes) == (200, FORM_BYTES_MAX + 1)
    assert lock.turns == 1
    refused, read_bytes = send(owner, FIND_KEY, 2_500_001)
    assert (refused.status_code, read_bytes) == (413, 0)


@pytest.mark.parametrize(("length", "turns"), [(8_192, 0), (8_193, 1)])
def test_a_form_above_8_kb_is_parsed_in_its_turn(db, lock, length, turns):
    send(Client(), SIGN_IN, length)
    assert lock.turns == turns


def test_a_form_with_too_many_fields_is_malformed_whatever_its_size(owner):  # noqa: F811
    for fields in (2_000, 30_000):
        assert owner.generic("POST", FIND_KEY, b"&".join([b"a=1"] * fields), FORM).status_code == 400


def test_a_large_form_counts_among_the_bytes_in_flight_until_its_reply(owner, monkeypatch, settings):  # noqa: F811
    counted = []
    monkeypatch.setattr(page_middleware, "_parse", lambda request, length: counted.append(process_bodies.total_bytes))
    assert send(owner, FIND_KEY, 100_000)[0].status_code == 200
    assert (counted, process_bodies.total_bytes) == ([100_000], 0)
    settings.ACCOUNT_BYTES_IN_FLIGHT_MAX = 99_999
    refused, read_bytes = send(owner, FIND_KEY, 100_000)
    assert (refused.status_code, refused["Retry-After"], read_bytes) == (429, "1", 0)


def test_a_form_without_a_length_is_refused_unread(db):
    body = CountedBody(b"5\r\nlogin\r\n0\r\n\r\n")
    extra: Any = {"wsgi.input": body, "HTTP_TRANSFER_ENCODING": "chunked"}
    refused = Client().generic("POST", reverse("account_login"), b"", FORM, **extra)
    assert (refused.status_code, body.read_bytes) == (411, 0)


def change_session_and_lose_client(request):
    request.session["changed"] = True
    request.META["test.client"].close()
    return HttpResponse("served")


urlpatterns = [path("left", change_session_and_lose_client)]


@pytest.mark.urls(__name__)
def test_a_client_that_hangs_up_before_the_session_is_saved_is_no_failure(db, caplog):
    client, server = socket.socketpair()
    with server:
        reply = Client().get("/left", **{"gunicorn.socket": server, "test.client": client})
    assert (reply.status_code, reply.json()["error"]["message"]) == (408, "The client disconnected.")
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
