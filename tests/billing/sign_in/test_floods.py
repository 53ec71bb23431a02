"""A flood of sign-ins from many addresses, as its attackers, owners and staff see it."""

import logging
import time

import pytest
from django.core import mail
from django.test import Client

from billing.models import SignInLimit
from billing.sign_in import limits, mails
from gateway_project import errors, logs, passwords
from gateway_project.web import request_log
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
    monkeypatch.setitem(limits.RATES, "user", limits.Rate(burst=1, interval_seconds=3_600))
    browser = Client()
    assert attempt(browser).status_code == 302
    del browser.cookies["sessionid"]
    assert [attempt(browser, password="wrong").status_code for _ in range(2)] == [200, 429]
    with django_assert_num_queries(0):
        assert attempt(browser).status_code == 429


# What a view refuses by the client's address: the page, how it is asked for, and what is sent.
LIMITED = [
    pytest.param("/accounts/password/reset/", "post", {"email": ALICE}, id="a reset"),
    pytest.param("/accounts/password/reset/", "post", {}, id="a reset of nobody"),
    pytest.param("/accounts/signup/", "post", {"email": "new@example.org"}, id="a sign-up"),
    pytest.param("/accounts/2fa/webauthn/login/", "get", {}, id="a passkey"),
    pytest.param("/accounts/2fa/webauthn/login/", "head", {}, id="a passkey, its head"),
    pytest.param("/accounts/2fa/webauthn/login/", "post", {"credential": "{}"}, id="a passkey that is proved"),
    pytest.param("/accounts/google/login/", "post", {}, id="an identity at Google"),
    pytest.param("/accounts/github/login/", "post", {}, id="an identity at GitHub"),
]


@pytest.mark.parametrize(("path", "method", "fields"), LIMITED)
def test_beyond_the_limit_of_an_address_nothing_is_computed_for_a_refusal(
    alice, monkeypatch, django_assert_num_queries, path, method, fields
):
    monkeypatch.setitem(limits.RATES, "address", limits.Rate(1, 3_600))
    for each in (limits.mail_request_limit, limits.passkey_limit, limits.identity_limit):
        with pytest.raises(errors.RateLimitExceeded):
            limits.count_attempt([each("127.0.0.1")] * 2)
    browser = Client(headers={"accept": "text/html"})
    browser.cookies["sessionid"] = "of-no-session"
    ask = getattr(browser, method)
    ask(path, fields)  # renders the refusal once
    with django_assert_num_queries(0):
        reply = ask(path, fields)
    assert (reply.status_code, reply.templates, mail.outbox) == (429, [], [])
    assert int(reply["Retry-After"]) > 3_000
    assert (b"Too many sign-in attempts." in reply.content) == (method != "head")
    assert not reply.cookies


@pytest.mark.parametrize("path", ["/accounts/password/reset/", "/accounts/signup/", "/accounts/google/login/"])
def test_beyond_the_limit_of_an_address_a_form_is_shown_all_the_same(db, path):
    for limit in (limits.mail_request_limit, limits.passkey_limit, limits.identity_limit):
        limits._next_attempts.put(limit("127.0.0.1").digest, time.monotonic() + 3_600)
    assert Client().get(path, headers={"accept": "text/html"}).status_code in (200, 404)


# --- In the log ------------------------------------------------------------------------------------------------------


def levels(caplog, logger):
    return [logging.getLevelName(each.levelno) for each in caplog.records if each.name == logger]


@pytest.fixture
def minutes(monkeypatch):
    """Pass minutes for what the log tells once in one."""
    now = [0.0]
    for module, name in ((request_log, "_refusals"), (mails, "_refused")):
        monkeypatch.setattr(module, name, logs.Repetitions(clock=lambda: now[0]))

    def wait(count):
        now[0] += 60 * count

    return wait


def test_of_a_flood_of_sign_ins_the_log_has_one_error_a_minute(exhausted, db, caplog, minutes):
    caplog.set_level(logging.INFO)
    assert [attempt(email=f"{number}@example.org").status_code for number in range(5)] == [503] * 5
    assert levels(caplog, "gateway.request") == ["ERROR", "INFO", "INFO", "INFO", "INFO"]
    first = caplog.records[0]
    assert (first.error, first.reason[:15], first.repeated) == ("NoRoom", "Too many people", 0)
    minutes(1)
    attempt()
    last = caplog.records[-1]
    assert (last.levelname, last.repeated) == ("ERROR", 4)


def test_of_mails_beyond_a_limit_the_log_has_one_error_a_minute(alice, caplog, minutes, settings):
    caplog.set_level(logging.INFO)
    settings.MAILBOX_MAILS_PER_DAY = 2
    for _ in range(5):
        assert Client().post("/accounts/password/reset/", {"email": ALICE}).status_code == 200
    assert (len(mail.outbox), levels(caplog, "gateway.sign_in")) == (1, ["ERROR", "INFO", "INFO", "INFO"])
    minutes(1)
    Client().post("/accounts/password/reset/", {"email": ALICE})
    assert [each.repeated for each in caplog.records if each.name == "gateway.sign_in"][-1] == 3


def test_a_mail_beyond_a_limit_is_not_written(alice, settings):
    settings.MAILBOX_MAILS_PER_DAY = 2
    ask = lambda: Client().post("/accounts/password/reset/", {"email": ALICE})  # noqa: E731
    assert "mail/reset.txt" in [each.name for each in ask().templates]
    assert "mail/reset.txt" not in [each.name for each in ask().templates]
