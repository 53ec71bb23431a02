"""In-process caches: entries expire, and their number is bounded."""

import pytest

from gateway_project.cache import TTLCache


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


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
