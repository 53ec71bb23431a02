"""In-process caches: entries expire, their number is bounded, and one caller at a time refreshes a value."""

import threading

import pytest

from gateway_project.cache import StaleWhileRefresh, TTLCache


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


# --- TTLCache -----------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(clock):
    return TTLCache(seconds=10, entries_max=3, clock=clock)


def test_value_is_returned_until_it_expires(cache, clock):
    cache.put("a", 1)
    clock.now += 9.9
    assert cache.get("a") == 1
    clock.now += 0.1
    assert cache.get("a") is None


def test_putting_a_key_again_replaces_its_value_and_restarts_its_time(cache, clock):
    cache.put("a", 1)
    clock.now += 9
    cache.put("a", 2)
    clock.now += 9
    assert cache.get("a") == 2
    assert len(cache) == 1


def test_full_cache_drops_the_oldest_entry(cache):
    for number, key in enumerate("abcd"):
        cache.put(key, number)
    assert [cache.get(key) for key in "abcd"] == [None, 1, 2, 3]
    assert len(cache) == 3


def test_put_removes_expired_entries(cache, clock):
    cache.put("a", 1)
    cache.put("b", 2)
    clock.now += 10
    cache.put("c", 3)
    assert len(cache) == 1


def test_discarded_entry_is_gone_and_discarding_it_again_is_harmless(cache):
    cache.put("a", 1)
    cache.discard("a")
    cache.discard("a")
    assert cache.get("a") is None


# --- StaleWhileRefresh --------------------------------------------------------------------------------------------


class Outage(Exception):
    pass


def fail(previous):
    raise Outage


@pytest.fixture
def refreshed(clock):
    return StaleWhileRefresh(seconds=10, entries_max=2, stale_on=(Outage,), clock=clock)


def test_value_is_loaded_once_and_again_after_it_expires(refreshed, clock):
    assert refreshed.get("a", lambda previous: 1) == 1
    clock.now += 9.9
    assert refreshed.get("a", fail) == 1
    clock.now += 0.1
    assert refreshed.get("a", lambda previous: 2) == 2
    assert refreshed.get("a", fail) == 2


def test_load_is_given_the_previous_value(refreshed, clock):
    given = []
    for _ in range(2):
        refreshed.get("a", lambda previous: given.append(previous) or len(given))
        clock.now += 10
    assert given == [None, 1]


def test_other_callers_get_the_previous_value_while_one_refreshes(refreshed, clock):
    refreshed.put("a", 1)
    clock.now += 10
    meanwhile = []

    def load(previous):
        meanwhile.append(refreshed.get("a", fail))
        return 2

    assert refreshed.get("a", load) == 2
    assert meanwhile == [1]
    assert refreshed.get("a", fail) == 2


def test_other_threads_get_the_previous_value_while_one_refreshes(refreshed, clock):
    refreshed.put("a", 1)
    clock.now += 10
    begun, done = threading.Event(), threading.Event()

    def load(previous):
        begun.set()
        assert done.wait(60)
        return 2

    found = []
    thread = threading.Thread(target=lambda: found.append(refreshed.get("a", load)))
    thread.start()
    assert begun.wait(60)
    assert [refreshed.get("a", lambda previous: pytest.fail("loaded twice")) for _ in range(3)] == [1, 1, 1]
    done.set()
    thread.join()
    assert found == [2]
    assert refreshed.get("a", fail) == 2


def test_failed_refresh_serves_the_previous_value_and_is_tried_again_after_its_time(refreshed, clock):
    refreshed.put("a", 1)
    clock.now += 10
    assert refreshed.get("a", fail) == 1
    assert refreshed.get("a", lambda previous: pytest.fail("tried again too soon")) == 1
    clock.now += 10
    assert refreshed.get("a", lambda previous: 2) == 2


def test_failure_is_raised_while_there_is_no_previous_value(refreshed):
    with pytest.raises(Outage):
        refreshed.get("a", fail)
    assert refreshed.get("a", lambda previous: 1) == 1


def test_error_that_is_no_outage_is_raised_to_the_refreshing_caller_only(refreshed, clock):
    refreshed.put("a", 1)
    clock.now += 10
    with pytest.raises(ZeroDivisionError):
        refreshed.get("a", lambda previous: 1 // 0)
    assert refreshed.get("a", fail) == 1


def test_value_of_another_version_is_stale(refreshed):
    refreshed.get("a", lambda previous: 1, version="old")
    assert refreshed.get("a", fail, version="old") == 1
    assert refreshed.get("a", lambda previous: previous + 1, version="new") == 2
    assert refreshed.get("a", lambda previous: pytest.fail("loaded twice"), version="new") == 2


@pytest.mark.parametrize(("age", "given_meanwhile"), [(29, "previous"), (31, "their own")])
def test_previous_value_is_served_beside_a_refresh_up_to_a_bound(clock, age, given_meanwhile):
    bounded = StaleWhileRefresh(seconds=1_000, stale_seconds_max=30, clock=clock)
    bounded.put("a", "previous", version=1)
    clock.now += age
    meanwhile = []

    def load(previous):
        meanwhile.append(bounded.get("a", lambda previous: "their own", version=2))
        return "new"

    assert bounded.get("a", load, version=2) == "new"
    assert meanwhile == [given_meanwhile]
    clock.now += 31
    assert bounded.get("a", fail, version=2) == "new"  # fresh: the bound is for values that are not


def test_outage_renews_a_previous_value_of_any_age(clock):
    bounded = StaleWhileRefresh(seconds=1, stale_seconds_max=30, stale_on=(Outage,), clock=clock)
    bounded.put("a", "previous")
    clock.now += 10_000
    assert bounded.get("a", fail) == "previous"
    assert bounded.get("a", lambda previous: pytest.fail("tried again too soon")) == "previous"
    clock.now += 2

    def load(previous):
        assert bounded.get("a", lambda previous: pytest.fail("beside another try")) == "previous"
        raise Outage

    assert bounded.get("a", load) == "previous"


def test_failed_refresh_does_not_replace_what_another_caller_has_put(clock):
    bounded = StaleWhileRefresh(seconds=1, stale_seconds_max=30, stale_on=(Outage,), clock=clock)
    bounded.put("a", "previous")
    clock.now += 10_000

    def load(previous):
        assert bounded.get("a", lambda previous: "new") == "new"
        raise Outage

    assert [bounded.get("a", load), bounded.get("a", fail)] == ["new", "new"]


def test_fresh_asks_one_caller_to_refresh(refreshed, clock):
    assert refreshed.fresh("a") is None
    refreshed.put("a", 1)
    assert refreshed.fresh("a") == 1
    clock.now += 10
    assert [refreshed.fresh("a"), refreshed.fresh("a")] == [None, 1]
    refreshed.discard("a")
    assert refreshed.fresh("a") is None


def test_full_cache_drops_the_value_stored_longest_ago(refreshed):
    for key in ("a", "b", "a", "c"):
        refreshed.put(key, key)
    assert [refreshed.fresh(key) for key in "abc"] == ["a", None, "c"]
    assert len(refreshed) == 2


def test_cleared_cache_is_empty(refreshed):
    refreshed.put("a", 1)
    refreshed.clear()
    assert len(refreshed) == 0
