"""How many pages of a user and of an address are in flight, and how fast they follow each other."""

from typing import Any

import gevent
import gevent.event
import gevent.socket
import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from gateway_project import errors
from gateway_project.web import in_flight
from gateway_project.web.page_middleware import PageQueryMiddleware
from tests.monotonic_clock import use_clock
from tests.pages.conftest import other_owner, owner, signed_in  # noqa: F401  fixtures

REQUESTS, SIGN_IN = "/dashboard/requests/", "/accounts/login/"
ELSEWHERE: Any = {"REMOTE_ADDR": "192.0.2.7"}
AHEAD_SECONDS = in_flight._AHEAD_SECONDS  # which other tests do not have


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch, settings):
    monkeypatch.setattr(in_flight, "_WAIT_SECONDS", 0)
    monkeypatch.setattr(in_flight, "_PAGE_WAIT_SECONDS", 0)
    monkeypatch.setattr(in_flight, "_AHEAD_SECONDS", AHEAD_SECONDS)
    settings.USER_PAGES_IN_FLIGHT = settings.ADDRESS_PAGES_IN_FLIGHT = 1
    _forget()  # what tests elsewhere used
    yield
    _forget()


def _forget():
    for pages in (in_flight.pages_of_address, in_flight.pages_of_user):
        pages._used_until.clear()  # by the clock of a test
        pages._places_by_owner.clear()  # with the maximum of a test


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
    clock.computed_seconds = 0.0
    monkeypatch.setattr(clock, "sleep", clock.slept.append, raising=False)
    monkeypatch.setattr(clock, "thread_time", lambda: clock.computed_seconds, raising=False)
    monkeypatch.setattr(in_flight, "_PAGE_WAIT_SECONDS", 10.0)
    return clock


def counted(clock):
    """Return what the pages of a test's client have used and not waited for."""
    return round(in_flight.pages_of_address._used_until.get("127.0.0.1") - clock.monotonic(), 3)


def test_pages_that_follow_each_other_too_fast_wait_and_then_are_refused(db, clock):
    """Each counts 8 milliseconds at least: so 125 come at once, and 125 a second after that."""
    statuses = [Client().get("/robots.txt").status_code for _ in range(125)]
    assert (set(statuses), clock.slept) == ({200}, [])
    assert Client().get("/robots.txt").status_code == 200
    assert clock.slept == [] or clock.slept[0] < 0.009
    in_flight.pages_of_address._count("127.0.0.1", 9.9)
    clock.slept.clear()
    assert Client().get("/robots.txt").status_code == 200
    assert 9.89 < clock.slept.pop() < 9.93
    in_flight.pages_of_address._count("127.0.0.1", 0.25)
    assert Client().get("/robots.txt").status_code == 429
    assert 9.9 < clock.slept.pop() <= 10
    clock.move_on(1)
    assert Client().get("/robots.txt").status_code == 200
    clock.slept.clear()
    assert Client(**ELSEWHERE).get("/robots.txt").status_code == 200
    clock.move_on(20)
    assert (Client().get("/robots.txt").status_code, clock.slept) == (200, [])


@pytest.mark.parametrize(("reply_bytes", "seconds"), [(0, 0.008), (65_535, 0.008), (700_000, 0.088), (9_000_000, 0.5)])
def test_a_large_reply_counts_as_several_pages(clock, reply_bytes, seconds):
    request = HttpRequest()
    in_flight.pages_of_address.begin(request, "127.0.0.1")
    in_flight.end(request, reply_bytes)
    assert counted(clock) == seconds


@pytest.mark.parametrize(("computed_seconds", "seconds"), [(0.001, 0.008), (0.04, 0.12), (0.3, 0.5)])
def test_a_page_counts_three_times_what_the_processor_took_and_not_how_long_it_waited(clock, computed_seconds, seconds):
    request = HttpRequest()
    in_flight.pages_of_address.begin(request, "127.0.0.1")
    clock.move_on(3)
    clock.computed_seconds = computed_seconds
    in_flight.end(request)
    assert counted(clock) == seconds


@pytest.mark.parametrize(("queries", "seconds"), [([0.004] * 10, 0.008), ([0.015, 0.025], 0.09), ([9.0], 0.5)])
def test_a_page_counts_three_times_what_its_slow_queries_took(clock, queries, seconds):
    request = HttpRequest()
    in_flight.pages_of_address.begin(request, "127.0.0.1")
    for query_seconds in queries:
        in_flight.count_query(request, query_seconds)
    in_flight.end(request)
    assert counted(clock) == seconds


def test_the_queries_of_a_page_are_counted(db):
    def page(request):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.02)")
        return HttpResponse()

    request, (ours, theirs) = RequestFactory().get("/docs"), gevent.socket.socketpair()
    with ours, theirs:
        request.META["gunicorn.socket"] = ours
        PageQueryMiddleware(page)(request)
    assert request.__dict__["queried_seconds"] > 0.014


def test_no_time_of_the_processor_counts_for_two_pages_of_an_owner(clock, settings):
    settings.ADDRESS_PAGES_IN_FLIGHT = 2
    first, second = HttpRequest(), HttpRequest()
    for request in (first, second):
        in_flight.pages_of_address.begin(request, "127.0.0.1")
    clock.computed_seconds = 0.1
    in_flight.end(first)
    clock.computed_seconds = 0.15
    in_flight.end(second)
    assert counted(clock) == 0.45


def test_a_page_counts_little_under_its_address_once_its_user_is_known(clock):
    request = HttpRequest()
    in_flight.pages_of_address.begin(request, "127.0.0.1")
    clock.computed_seconds = 0.2
    in_flight.pages_of_user.begin(request, 1)
    assert counted(clock) == 0.008
    clock.computed_seconds = 0.3
    in_flight.end(request, 700_000)
    assert counted(clock) == 0.008
    assert round(in_flight.pages_of_user._used_until.get(1) - clock.monotonic(), 3) == 0.3


class AtOnce:
    """Serves pages at once, as the event loop of a process does, with the bounds that the gateway has."""

    def __init__(self):
        self.order: list[str] = []  # of the addresses that were served
        self._all_asked = gevent.event.Event()
        self._all_asked.set()

    def page(self, *, user=None, address="192.0.2.1"):
        request = HttpRequest()
        try:
            in_flight.pages_of_address.begin(request, address)
            if user is not None:
                in_flight.pages_of_user.begin(request, user)
            self._all_asked.wait()  # else a slow machine has served the first before the last asks
        except errors.RateLimitExceeded as refusal:
            return refusal.status, refusal.headers["Retry-After"]
        finally:
            in_flight.end(request)
        self.order.append(address)
        return 200, None

    def replies(self, pages):
        self._all_asked.clear()
        greenlets = [gevent.spawn(self.page, **page) for page in pages]
        gevent.spawn(self._all_asked.set)  # it runs after them
        return [each.get() for each in greenlets]


@pytest.fixture
def at_once(monkeypatch, settings):
    settings.USER_PAGES_IN_FLIGHT, settings.ADDRESS_PAGES_IN_FLIGHT = 4, 8
    monkeypatch.setattr(in_flight, "_WAIT_SECONDS", 1.0)
    monkeypatch.setattr(in_flight, "_PAGE_WAIT_SECONDS", 10.0)
    monkeypatch.setattr(in_flight, "Event", gevent.event.Event)
    monkeypatch.setattr(use_clock(monkeypatch, in_flight), "sleep", gevent.sleep, raising=False)
    return AtOnce()


def test_thirty_tabs_of_a_user_are_all_served(at_once):
    assert at_once.replies([{"user": 1}] * 30) == [(200, None)] * 30


def test_sixty_users_behind_one_address_are_all_served(at_once):
    assert at_once.replies([{"user": user} for user in range(60)]) == [(200, None)] * 60


def test_thirty_people_behind_one_address_who_are_not_signed_in_are_all_served(at_once):
    assert at_once.replies([{}] * 30) == [(200, None)] * 30


def test_two_hundred_pages_of_an_owner_are_not_waited_for_by_others(at_once):
    """Those that find 64 others waiting are refused, and another owner's page is served before those that wait."""
    *replies, other = at_once.replies([{}] * 200 + [{"user": 2, "address": "192.0.2.2"}])
    assert other == (200, None)
    assert "192.0.2.2" in at_once.order[:9]
    assert replies == [(200, None)] * 72 + [(429, "1")] * 128


def test_pages_are_served_in_the_order_of_their_asking(at_once, settings):
    settings.USER_PAGES_IN_FLIGHT = 1
    addresses = [f"192.0.2.{number}" for number in range(5)]
    at_once.replies([{"user": 1, "address": address} for address in addresses])
    assert at_once.order == addresses


def test_a_page_that_is_killed_while_it_waits_leaves_its_place_to_the_next(at_once, settings):
    settings.ADDRESS_PAGES_IN_FLIGHT = 1
    _, killed, last = (gevent.spawn(at_once.page) for _ in range(3))
    gevent.sleep(0)
    killed.kill()
    assert last.get() == (200, None)


def test_a_static_file_is_served_while_the_address_has_as_many_pages_in_flight_as_it_may(occupied):
    reply = Client().get("/static/dashboard/dashboard.css")
    assert (reply.status_code, reply["Content-Type"]) == (200, 'text/css; charset="utf-8"')
    reply.close()
