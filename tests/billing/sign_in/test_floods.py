"""A flood of sign-ins from many addresses, as its attackers, owners and staff see it."""

import pytest
from django.test import Client

from billing.models import SignInLimit
from billing.sign_in import limits
from gateway_project import passwords
from tests import factories

SIGN_IN = "/accounts/login/"
ALICE = "alice@example.org"


@pytest.fixture
def exhausted(monkeypatch):
    """Attempts of unknown devices have used up what they may take of a core, for an hour."""
    share = passwords._Share()
    share.spend(3_600 * passwords._SHARE + passwords._BURST_SECONDS)
    monkeypatch.setattr(passwords, "_share", share)


def attempt(client=None, *, email=ALICE, password=factories.PASSWORD):
    return (client or Client()).post(SIGN_IN, {"login": email, "password": password}, headers={"accept": "text/html"})


def test_beyond_their_share_unknown_devices_are_told_to_come_back(alice, exhausted):
    reply = attempt()
    assert (reply.status_code, reply["Retry-After"]) == (503, "5")
    assert "Too many people are signing in right now." in reply.content.decode()
    assert "default-src 'self'" in reply["Content-Security-Policy"]
    assert reply["X-Frame-Options"] == "DENY"
    assert not reply.cookies
    assert not SignInLimit.objects.exists()


def test_attempts_of_one_user_take_one_place_among_all(alice, monkeypatch):
    """While one of them has its turn, the next wait for each other: the queue of all is free for others."""
    monkeypatch.setattr(passwords, "_WAIT_SECONDS_MAX", 0)
    subject = limits.user_limit(ALICE).subject
    with passwords.turn_of(subject, None):
        assert attempt().status_code == 503
        assert attempt(email="bob@example.org").status_code == 200
    assert passwords._turns_of == {}


def test_attempts_of_one_address_take_one_place_among_all(alice, monkeypatch):
    monkeypatch.setattr(passwords, "_WAIT_SECONDS_MAX", 0)
    browser = Client()
    attempt(browser)
    del browser.cookies["sessionid"]
    with passwords.turn_of(limits.address_limit("127.0.0.1").subject, None):
        assert attempt().status_code == 503
        assert attempt(browser).status_code == 302  # a known device waits for no stranger


def test_their_refusal_asks_the_database_nothing(exhausted, django_assert_num_queries, db):
    browser = Client()
    browser.cookies["sessionid"] = "of-no-session"
    with django_assert_num_queries(0):
        assert attempt(browser).status_code == 503


def test_the_page_that_signs_in_is_served_all_the_same(db, exhausted):
    assert Client().get(SIGN_IN).status_code == 200


def test_a_known_device_signs_in_all_the_same(db, request):
    factories.make_user(ALICE, is_staff=True)
    browser = Client()
    assert attempt(browser).status_code == 302
    del browser.cookies["sessionid"]
    request.getfixturevalue("exhausted")
    assert attempt(browser).status_code == 302
    assert attempt(browser, email="bob@example.org").status_code == 503  # who has not signed in there


def test_beyond_its_limit_a_known_device_is_refused_from_memory(alice, monkeypatch, django_assert_num_queries):
    monkeypatch.setattr(limits, "USER", limits.Rate(burst=1, interval_seconds=3_600))
    browser = Client()
    assert attempt(browser).status_code == 302
    del browser.cookies["sessionid"]
    assert [attempt(browser, password="wrong").status_code for _ in range(2)] == [200, 429]
    with django_assert_num_queries(0):
        assert attempt(browser).status_code == 429
