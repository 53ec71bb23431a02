from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from completions.charging import batch
from completions.providers import echo, exchange
from completions.relay import attempts, fair_queue
from gateway_project.db.pipelined_transaction import PipelinedConnection
from gateway_project.net import http
from tests.base_rows import BaseRows
from tests.monotonic_clock import MonotonicClock, use_clock
from tests.upstream import Upstream, spare, upstream

__all__ = ["spare", "upstream"]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_PAUSE_SECONDS", 0.01)  # between two attempts, as these fail by script


@pytest.fixture(autouse=True)
def _unlimited_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no request wait for its turn: the queue belongs to one event loop, and tests send requests from threads."""
    monkeypatch.setattr(fair_queue.process_queue, "_starts_max", 1_000)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End every wait for a lock after 0.3 seconds, and refuse nothing at once afterwards. Close the connections at the end."""
    monkeypatch.setattr(batch._group_commit, "_refused_seconds", 0)
    monkeypatch.setitem(connection.settings_dict["SESSION"], "lock_timeout", "300ms")
    connection.close()
    PipelinedConnection.close_all()
    yield
    connection.close()
    PipelinedConnection.close_all()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MonotonicClock:
    """The clock by which deadlines of upstreams are computed. Timers that run already are not moved on."""
    return use_clock(monkeypatch, attempts, echo, exchange, http)


@pytest.fixture
def large(upstream: Upstream, db: None, base_rows: BaseRows) -> Any:
    """A model that the scripted upstream serves (``factories.make_large_model``)."""
    return base_rows.insert("acme/large", url=upstream.url)


@pytest.fixture
def reading_images(large: Any) -> None:
    large.image_support = True
    large.save()
