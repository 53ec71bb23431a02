"""How many pages of a user and of an address are in flight, and how fast they follow each other."""

from typing import Any

import pytest
from django.db import connection
from django.http import HttpRequest
from django.test import Client

from gateway_project.web import in_flight
from tests.monotonic_clock import use_clock
from tests.pages.conftest import other_owner, owner, signed_in  # noqa: F401  fixtures

REQUESTS, SIGN_IN = "/dashboard/requests/", "/accounts/login/"
ELSEWHERE: Any = {"REMOTE_ADDR": "192.0.2.7"}


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch, settings):
    monkeypatch.setattr(in_flight, "_WAIT_SECONDS", 0)
    settings.USER_PAGES_IN_FLIGHT = settings.ADDRESS_PAGES_IN_FLIGHT = 1
    yield
    for pages in (in_flight.pages_of_address, in_flight.pages_of_user):
        pages._used_until.clear()  # by the clock of a test
        pages._free_by_owner.clear()  # with the maximum of a test


def meanwhile(client, path, *others):
    """Ask for a page, and for others while it waits for a query of its own. Return all replies, the first one's first."""
    replies = []

    def wait(execute, sql, params, many, context):
        if "session" in sql or "billing_user" in sql:
            return execute(sql, params, many, context)
        while len(replies) < len(others):
            place, (other, arguments) = len(replies), others[len(replies)]
            replies.append(None)  # its own queries do not wait
            replies[place] = other.get(**arguments)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wait):
        first = client.get(path)
    return first, *replies


def test_one_more_page_of_a_user_than_may_be_in_flight_is_refused(alice, owner, other_owner):  # noqa: F811
    elsewhere = signed_in(alice.members.get(), **ELSEWHERE)
    page, json, form = {"path": REQUESTS, "headers": {"accept": "text/html"}}, {"path": REQUESTS}, {"path": SIGN_IN}
    first, refused, refused_json, other, anonymous = meanwhile(
        owner, REQUESTS, (elsewhere, page), (elsewhere, json), (other_owner, page), (Client(), form)
    )
    assert (first.status_code, other.status_code, anonymous.status_code) == (200, 200, 200)
    assert (refused.status_code, refused["Retry-After"], refused["Content-Type"]) == (429, "1", "text/html; charset=utf-8")
    assert "The user has as many pages in flight as it may have (1)." in refused.content.decode()
    assert (refused_json.status_code, refused_json.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert owner.get(REQUESTS).status_code == 200


@pytest.fixture
def occupied():
    """The only place of the address of a test's client is taken."""
    request = HttpRequest()
    in_flight.pages_of_address.begin(request, "127.0.0.1")
    yield
    in_flight.end(request)


@pytest.mark.parametrize("path", ["/", "/models", "/docs", "/rankings", SIGN_IN, "/nothing", "/static/nothing.css"])
def test_one_more_page_of_an_address_than_may_be_in_flight_is_refused(db, occupied, path, django_assert_num_queries):
    with django_assert_num_queries(0):
        refused = Client().get(path, headers={"accept": "text/html"})
    assert (refused.status_code, refused["Retry-After"]) == (429, "1")
    assert "The address has as many pages in flight as it may have (1)." in refused.content.decode()
    assert Client(**ELSEWHERE).get(path).status_code != 429


def test_the_description_of_the_api_counts_as_a_page_does(db, occupied):
    refused = Client().get("/api/openapi.json")
    assert (refused.status_code, refused["Retry-After"], refused.json()["error"]["code"]) == (429, "1", "rate_limit_exceeded")


def test_pages_of_people_behind_one_address_do_not_count_together(owner, other_owner):  # noqa: F811
    first, other = meanwhile(owner, REQUESTS, (other_owner, {"path": REQUESTS}))
    assert (first.status_code, other.status_code) == (200, 200)


def test_a_page_that_ends_in_an_error_counts_no_longer(db):
    assert [Client().get("/nothing").status_code for _ in range(3)] == [404] * 3


@pytest.fixture
def clock(monkeypatch):
    clock: Any = use_clock(monkeypatch, in_flight)
    clock.stop()
    clock.slept = []
    monkeypatch.setattr(clock, "sleep", clock.slept.append, raising=False)
    monkeypatch.setattr(in_flight, "_WAIT_SECONDS", 1.0)
    return clock


def test_pages_that_follow_each_other_too_fast_wait_and_then_are_refused(db, clock):
    """Each counts 8 milliseconds at least: so 125 come at once, and 125 a second after that."""
    statuses = [Client().get("/robots.txt").status_code for _ in range(125)]
    assert (set(statuses), clock.slept) == ({200}, [])
    assert Client().get("/robots.txt").status_code == 200
    assert clock.slept == [] or clock.slept[0] < 0.009
    in_flight.pages_of_address._note("127.0.0.1", 0.2)
    clock.slept.clear()
    assert Client().get("/robots.txt").status_code == 200
    [slept] = clock.slept
    assert 0.19 < slept < 0.23
    for _ in range(4):
        in_flight.pages_of_address._note("127.0.0.1", 0.25)
    assert Client().get("/robots.txt").status_code == 429
    clock.move_on(1)
    clock.slept.clear()
    assert Client().get("/robots.txt").status_code == 200
    assert Client(**ELSEWHERE).get("/robots.txt").status_code == 200
    clock.move_on(10)
    clock.slept.clear()
    assert (Client().get("/robots.txt").status_code, clock.slept) == (200, [])


@pytest.mark.parametrize(("reply_bytes", "counted"), [(0, 0.008), (65_535, 0.008), (700_000, 0.088), (9_000_000, 0.25)])
def test_a_large_reply_counts_as_several_pages(clock, reply_bytes, counted):
    request = HttpRequest()
    in_flight.pages_of_address.begin(request, "127.0.0.1")
    in_flight.end(request, reply_bytes)
    assert round(in_flight.pages_of_address._used_until.get("127.0.0.1") - clock.monotonic(), 3) == counted


def test_a_page_counts_twice_while_there_are_others_of_its_owner(db, clock, occupied, settings):
    settings.ADDRESS_PAGES_IN_FLIGHT = 2
    in_flight.pages_of_address._free_by_owner.clear()
    beside = HttpRequest()
    in_flight.pages_of_address.begin(beside, "127.0.0.1")
    counted = []
    for end_other in (False, True):
        if end_other:
            in_flight.end(beside)
        before = max(in_flight.pages_of_address._used_until.get("127.0.0.1") or 0, clock.monotonic())
        assert Client().get("/robots.txt").status_code == 200
        counted.append(round(in_flight.pages_of_address._used_until.get("127.0.0.1") - before, 3))
    assert counted == [0.016, 0.008]
