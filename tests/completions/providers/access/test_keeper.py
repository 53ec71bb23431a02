"""A credential that expires: when it is fetched and renewed, what requests wait for, and what they are told."""

import logging
import threading
import time

import pytest

from completions.providers.access import keeper
from completions.providers.access.keeper import Bearer, CredentialUnavailable, Fetched, Keeper
from tests import waiting
from tests.monotonic_clock import use_clock


class Source:
    """Fetches "s1", "s2", ... each good for an hour; or raises ``error``. ``may_go`` holds each fetch back."""

    def __init__(self) -> None:
        self.fetched = self.begun = self.made = 0
        self.error: Exception | None = None
        self.good_seconds = 3_600.0
        self.may_go = threading.Event()
        self.may_go.set()

    def make_fetch(self):
        self.made += 1
        return self.fetch

    def fetch(self):
        self.begun += 1
        assert self.may_go.wait(waiting.SECONDS_MAX)
        if self.error:
            raise self.error
        self.fetched += 1
        return Fetched.until_expiry(Bearer(f"s{self.fetched}"), self.good_seconds)


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def kept(source):
    kept = Keeper("cloud", source.make_fetch, "our-key")
    yield kept
    source.may_go.set()
    kept.end()


def at_once(number, act):
    """Call ``act`` in so many threads. Return what they returned, and a function that waits for all of them."""
    returned: list = []
    threads = [threading.Thread(target=lambda: returned.append(act())) for _ in range(number)]
    for thread in threads:
        thread.start()
    return returned, lambda: [thread.join() for thread in threads]


@pytest.mark.parametrize(("seconds", "renewed_after"), [(3_600, 3_300), (900, 600), (600, 300), (400, 200), (2, 1), (0, 0)])
def test_a_credential_is_renewed_minutes_before_it_expires_or_at_half_of_its_life(seconds, renewed_after):
    assert Fetched.until_expiry(Bearer("s"), seconds) == (Bearer("s"), seconds, renewed_after)


def test_all_first_requests_wait_for_the_first_credential(kept, source):
    source.may_go.clear()
    shown, join = at_once(8, lambda: kept.proof().secrets)
    waiting.until(lambda: source.begun)
    assert shown == []
    source.may_go.set()
    join()
    assert (shown, source.fetched) == ([("s1",)] * 8, 1)


def test_a_request_does_not_wait_longer_than_it_should(kept, source, monkeypatch):
    monkeypatch.setattr(keeper, "WAIT_SECONDS", 0.05)
    source.may_go.clear()
    with pytest.raises(CredentialUnavailable, match="no credential arrived within 0.05 seconds"):
        kept.proof()


def test_it_is_renewed_outside_of_requests(kept, source):
    source.good_seconds = 2.0
    assert kept.proof() == Bearer("s1")
    waiting.until(lambda: source.fetched == 3)
    assert kept.proof() == Bearer("s3")


def test_one_that_is_late_is_fetched_for_the_request(kept, source, monkeypatch):
    clock = use_clock(monkeypatch, keeper)
    assert kept.proof() == Bearer("s1")
    clock.move_on(3_600)  # as after a sleep of the machine
    assert kept.proof() == Bearer("s2")


def test_the_last_one_is_shown_while_it_is_good_although_no_other_arrives(kept, source, monkeypatch, caplog):
    clock = use_clock(monkeypatch, keeper)
    first = kept.proof()
    source.error = OSError("no way to the server of keys")
    with caplog.at_level(logging.WARNING, "gateway.provider_keys"):
        assert kept.renew(Bearer("s0"))  # of an earlier one: nothing is fetched
        clock.move_on(3_599)
        assert kept.proof() == first
        clock.move_on(1)
        with pytest.raises(CredentialUnavailable, match="OSError: no way to the server of keys"):
            kept.proof()
        source.error = None
        waiting.until(lambda: source.fetched == 2)  # by itself, a second later
        assert kept.proof() == Bearer("s2")
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "the credential of provider cloud cannot be fetched (OSError: no way to the server of keys);"
        " the last one is good for 0 more seconds",
        "provider cloud has a credential again",
    ]


def test_a_request_during_a_pause_fails_at_once_with_the_reason(kept, source):
    source.error = ValueError("our-key is no key; Bearer abcdefghijkl; eyJhbGciOiJSUzI1NiJ9.e30.c2ln")
    with pytest.raises(CredentialUnavailable) as failure:
        kept.proof()
    assert str(failure.value) == "ValueError: *** is no key; ***; ***"
    asked_at = time.monotonic()
    with pytest.raises(CredentialUnavailable):
        kept.proof()
    assert time.monotonic() - asked_at < keeper.WAIT_SECONDS / 2
    assert source.begun <= 2
    waiting.until(lambda: source.begun >= 3)
    assert source.made == source.begun  # what the library remembers is not used again


def test_a_refused_credential_is_renewed_once_for_all_whose_requests_were_refused(kept, source):
    refused = kept.proof()
    source.may_go.clear()
    renewed, join = at_once(8, lambda: kept.renew(refused))
    waiting.until(lambda: source.begun == 2)
    time.sleep(0.05)
    assert renewed == []
    source.may_go.set()
    join()
    assert renewed == [True] * 8
    assert (kept.proof(), source.fetched, source.made) == (Bearer("s2"), 2, 2)
    assert kept.renew(refused)  # of one that comes late
    assert source.fetched == 2


def test_a_successor_that_is_refused_too_is_not_replaced_at_once(kept, source, monkeypatch):
    clock = use_clock(monkeypatch, keeper)
    assert kept.renew(kept.proof())
    assert not kept.renew(kept.proof())
    assert source.fetched == 2
    clock.move_on(11)
    assert kept.renew(kept.proof())
    assert source.fetched == 3


def test_a_refused_credential_without_a_successor_has_none(kept, source):
    refused = kept.proof()
    source.error = OSError("down")
    assert not kept.renew(refused)
    source.error = None
    waiting.until(lambda: source.fetched == 2)
    assert kept.proof() == Bearer("s2")


def test_keys_without_a_life_are_not_asked_for_without_end(kept, source):
    source.good_seconds = 0.0
    with pytest.raises(CredentialUnavailable):
        kept.proof()
    time.sleep(0.2)
    assert source.begun <= 2


def test_one_that_nobody_asks_for_is_renewed_no_longer(kept, source):
    source.good_seconds = 2.0
    kept.proof()
    kept.end()
    waiting.until(lambda: "credential of cloud" not in [thread.name for thread in threading.enumerate()])
    assert source.fetched <= 2
    assert kept.proof().secrets[0] in ("s1", "s2", "s3")  # and again when somebody does


def test_each_provider_has_one_keeper_and_another_with_another_key_or_auth(monkeypatch):
    auth = {"type": "azure"}
    first = keeper.keep("a", auth, "k")
    assert keeper.keep("a", {**auth}, "k") is first
    assert keeper.keep("b", auth, "k") is not first
    assert keeper.keep("a", auth, "other") is not first
    third = keeper.keep("a", {**auth, "client_id": "c"}, "other")
    assert keeper.keepers["a"][1] is third
