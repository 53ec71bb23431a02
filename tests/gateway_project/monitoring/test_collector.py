"""A scrape ends although what it reads does not answer, and many scrapes at a time cost one reading."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway_project.monitoring import collector
from gateway_project.monitoring.collector import Reading
from tests import waiting


def test_who_asks_at_the_same_time_or_soon_after_shares_a_reading():
    begun, go_on = [], threading.Event()

    def read():
        begun.append(1)
        go_on.wait(waiting.SECONDS_MAX)
        return "facts"

    reading = Reading("something", read)
    with ThreadPoolExecutor(10) as pool:
        asked = [pool.submit(reading.latest) for _ in range(10)]
        go_on.set()
        assert [each.result() for each in asked] == ["facts"] * 10
    assert reading.latest() == "facts"
    assert len(begun) == 1


def test_an_old_reading_is_made_anew(monkeypatch):
    monkeypatch.setattr(collector, "KEPT_SECONDS", -1)
    numbers = iter(range(3))
    reading = Reading("something", lambda: next(numbers))
    assert [reading.latest() for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("error", [OSError("refused"), RuntimeError("a bug")])
def test_an_error_is_logged_and_gives_nothing(caplog, error):
    def read():
        raise error

    assert Reading("something", read).latest() is None
    assert [record.getMessage() for record in caplog.records] == [f"cannot read something for the metrics: {error}"]


def test_what_hangs_gives_nothing_and_is_not_begun_twice(monkeypatch):
    monkeypatch.setattr(collector, "WAIT_SECONDS", 0.01)
    begun, hangs = [], threading.Event()

    def read():
        begun.append(1)
        hangs.wait(waiting.SECONDS_MAX)
        return "facts"

    reading = Reading("something", read)
    assert [reading.latest() for _ in range(3)] == [None] * 3
    assert len(begun) == 1
    hangs.set()
    waiting.until(lambda: reading.latest() == "facts")
    assert reading.latest() == "facts"
