"""Limits on attempts to sign in, as owners, staff and attackers see them."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import gevent.socket
import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import MD5PasswordHasher
from django.db import connection
from django.db.models import F
from django.test import Client, RequestFactory

from billing import tasks
from billing.models import SignInLimit
from billing.sign_in import limits
from gateway_project import errors
from tests import factories
from tests.billing.sign_in.attempts import ALICE, BURST, BURST_OF_ADDRESS, HOUR, SIGN_IN, _slow_rates, attempt, use_up
from tests.faults import fault

__all__ = ["_slow_rates"]


@pytest.fixture
def hashed(settings, monkeypatch):
    """The passwords that were hashed."""
    found = []
    encode = MD5PasswordHasher.encode

    def record(self, password, salt):
        found.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", record)
    return found


def let_pass(seconds):
    SignInLimit.objects.update(full_at=F("full_at") - timedelta(seconds=seconds))
    limits._next_attempts.clear()


def test_after_many_failures_of_a_user_a_correct_password_is_refused_like_a_wrong_one(alice, hashed):
    use_up()
    hashed.clear()
    replies = [attempt(password=password) for password in ("wrong", factories.PASSWORD)]
    for reply in replies:
        assert reply.status_code == 429
        assert 1 <= int(reply["Retry-After"]) <= HOUR
        assert "Too many sign-in attempts. Try again in" in reply.content.decode()
        assert not reply.cookies
    assert hashed == []


@fault(
    "Clock",
    "The database's clock is set back by hours, and a user signs in",
    "The right password is accepted",
)
def test_a_database_clock_set_back_by_hours_does_not_lock_a_user_out(alice):
    use_up()
    let_pass(-10 * BURST * HOUR)
    use_up()  # one burst, and then the limit holds
    assert attempt().status_code == 429


@pytest.mark.parametrize("hours", [0.5, 2.9, 3, 3.1, 5.9, 6, 100])
def test_however_far_the_database_clock_is_set_back_a_user_waits_for_no_more_than_a_burst(alice, hours):
    use_up()
    let_pass(-hours * HOUR)
    reply = attempt()
    if reply.status_code == 429:
        assert 1 <= int(reply["Retry-After"]) <= BURST * HOUR
        let_pass(int(reply["Retry-After"]))
    assert attempt().status_code != 429


def test_a_user_that_does_not_exist_is_limited_alike(db):
    use_up("nobody@example.org")
    assert attempt("nobody@example.org").status_code == 429


@pytest.mark.parametrize("spelling", ["ALICE@example.org", " alice@example.org ", "ａlice@example.org"])
def test_every_spelling_of_an_address_has_the_same_limit(alice, spelling):
    use_up(spelling)
    assert attempt().status_code == 429


def test_an_address_that_fails_as_many_users_is_limited(alice, caplog):
    for number in range(BURST_OF_ADDRESS):
        assert attempt(f"user{number}@example.org").status_code == 200
    first, known = [attempt(password=factories.PASSWORD) for _ in range(2)]
    for reply in (first, known):  # the second is refused from memory
        assert reply.status_code == 429
        assert 1 <= int(reply["Retry-After"]) <= HOUR
        assert "Too many sign-in attempts. Try again in" in reply.content.decode()
        assert "default-src 'self'" in reply["Content-Security-Policy"]
    assert caplog.text.count("sign-in as alice@example.org from 192.0.2.1 refused") == 2
    assert attempt(password=factories.PASSWORD, address="192.0.2.2").status_code == 302


def test_a_refused_address_uses_up_nothing_of_the_user(alice):
    for number in range(BURST_OF_ADDRESS):
        attempt(f"user{number}@example.org")
    for _ in range(BURST):
        assert attempt().status_code == 429
    assert attempt(address="192.0.2.2").status_code == 200


def test_addresses_of_one_ipv6_network_share_a_limit(alice):
    for number in range(BURST_OF_ADDRESS):
        attempt(f"user{number}@example.org", address=f"2001:db8::{number:x}")
    assert attempt(address="2001:db8::ffff:1").status_code == 429
    assert attempt(address="2001:db8:0:1::1").status_code == 200


def test_the_limit_is_a_rate(alice):
    use_up()
    let_pass(HOUR - 600)
    assert attempt().status_code == 429
    let_pass(600)
    assert attempt(password=factories.PASSWORD).status_code == 302


def test_a_success_counts_against_no_limit_of_failures(alice):
    for _ in range(BURST + 1):
        assert attempt(password=factories.PASSWORD).status_code == 302
    use_up()


def test_an_account_with_its_own_password_signs_in_no_faster_than_its_rate(alice, charlie, hashed, monkeypatch):
    monkeypatch.setitem(limits.RATES, "success", limits.Rate(2, HOUR))
    browser = Client()
    statuses = [attempt(password=factories.PASSWORD, client=client).status_code for client in (browser, Client(), Client())]
    assert statuses == [302, 302, 429]
    browser.post("/dashboard/sign-out/")
    hashed.clear()
    for client in (browser, Client()):  # nor on a known device; and that costs no hash
        assert attempt(password=factories.PASSWORD, client=client).status_code == 429
    assert hashed == []
    assert attempt("charlie@example.org", factories.PASSWORD).status_code == 302


def test_strangers_use_up_nothing_that_only_the_right_password_counts_against(alice, monkeypatch):
    monkeypatch.setitem(limits.RATES, "success", limits.Rate(1, HOUR))
    for number in range(BURST - 1):
        attempt(address=f"198.51.100.{number}")
    assert attempt(password=factories.PASSWORD).status_code == 302


def test_a_client_that_has_hung_up_is_neither_counted_nor_hashed_for(alice, hashed):
    here, there = gevent.socket.socketpair()
    with closing(here):
        there.close()
        hashed.clear()
        reply = Client().post(SIGN_IN, {"login": ALICE, "password": "wrong"}, **{"gunicorn.socket": here})
    assert reply.status_code == 408
    assert hashed == []
    assert not SignInLimit.objects.exists()


def test_concurrent_attempts_are_counted_exactly(transactional_db, alice):
    """A web process lets unknown devices in one at a time; here they are of several processes."""

    def one(number):
        request = RequestFactory().post(SIGN_IN, REMOTE_ADDR=f"198.51.100.{number}")
        try:
            return authenticate(request, username=ALICE, password="wrong")
        except errors.RateLimitExceeded as refusal:
            return refusal.status
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(one, range(2 * BURST)))
    assert (outcomes.count(None), outcomes.count(429)) == (BURST, BURST)


# --- Known devices --------------------------------------------------------------------------------------------------


def test_others_cannot_keep_a_user_out_of_a_known_device(alice):
    browser = Client()
    assert attempt(password=factories.PASSWORD, client=browser).status_code == 302
    browser.post("/dashboard/sign-out/")
    use_up()
    for number in range(BURST_OF_ADDRESS):
        attempt(f"user{number}@example.org")
    assert attempt(password=factories.PASSWORD).status_code == 429
    assert attempt(password=factories.PASSWORD, client=browser).status_code == 302


def test_a_known_device_is_limited_too(alice):
    browser = Client()
    attempt(password=factories.PASSWORD, client=browser)
    browser.post("/dashboard/sign-out/")
    use_up(client=browser)
    assert attempt(password=factories.PASSWORD, client=browser).status_code == 429


def test_a_device_is_known_only_for_users_who_have_signed_in_there(alice, charlie):
    browser = Client()
    attempt("charlie@example.org", factories.PASSWORD, client=browser)
    browser.post("/dashboard/sign-out/")
    use_up()
    assert attempt(password=factories.PASSWORD, client=browser).status_code == 429


def test_a_forged_device_is_not_known(alice):
    browser = Client()
    attempt(password=factories.PASSWORD, client=browser)
    [name] = [name for name in browser.cookies if "device" in name]
    value = browser.cookies[name].value
    assert browser.cookies[name]["httponly"]
    forger = Client()
    forger.cookies[name] = value[:-1] + ("A" if value[-1] != "A" else "B")
    use_up()
    assert attempt(password=factories.PASSWORD, client=forger).status_code == 429


# --- The log, and what is kept ---------------------------------------------------------------------------------------


def test_a_failure_is_logged_with_user_and_address_and_without_the_password(alice, caplog):
    attempt("Nobody@example.org\r\nforged\u2028line", "hunter2")
    [record] = [record for record in caplog.records if record.name == "gateway.sign_in"]
    assert record.getMessage() == "sign-in as nobody@example.org??forged?line from 192.0.2.1 failed"
    assert (record.user, record.address) == ("nobody@example.org??forged?line", "192.0.2.1")
    assert "hunter2" not in caplog.text


def test_a_refused_attempt_is_logged(alice, caplog):
    use_up()
    caplog.clear()
    attempt()
    assert "sign-in as alice@example.org from 192.0.2.1 refused, after too many attempts" in caplog.text


def test_a_successful_attempt_logs_no_failure(alice, caplog):
    attempt(password=factories.PASSWORD)
    assert [record for record in caplog.records if record.name == "gateway.sign_in"] == []


def test_limits_that_are_whole_again_are_forgotten(alice):
    use_up()
    assert ALICE not in str(list(SignInLimit.objects.values()))
    assert tasks.forget_sign_in_attempts() == 0
    let_pass(HOUR)
    assert tasks.forget_sign_in_attempts() == BURST  # those of the addresses
    let_pass((BURST - 1) * HOUR)
    assert tasks.forget_sign_in_attempts() == 1
