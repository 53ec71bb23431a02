import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from completions.charging import batch
from completions.providers import echo, reading
from completions.relay import attempts, fair_queue
from completions.relay.slots import ProcessSlots
from gateway_project.db.pipelined_transaction import PipelinedConnection
from gateway_project.net import http
from tests import cells
from tests.base_rows import BaseRows
from tests.monotonic_clock import MonotonicClock, use_clock
from tests.upstream import Upstream, spare, upstream

__all__ = ["spare", "upstream"]


@pytest.fixture(autouse=True, scope="session")
def _short_pauses() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempts, "_PAUSE_SECONDS", 0.01)  # between two attempts, as these fail by script
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_event_loop() -> Iterator[None]:
    """Let tests send requests from threads: the queue and the slots of a process belong to its one event loop."""
    lock = threading.Lock()

    def locked(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                return method(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        queue = fair_queue.process_queue
        patch.setattr(queue, "_starts_max", 1_000)  # none waits for its turn
        for owner, name in ((ProcessSlots, "take"), (ProcessSlots, "release"), (queue, "_enter"), (queue, "_leave")):
            patch.setattr(owner, name, locked(getattr(owner, name)))
        yield


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End every wait for a lock after 0.3 seconds, and refuse nothing at once afterwards. Close the connections at the end."""
    monkeypatch.setattr(batch._committers[cells.NUMBER].group_commit, "_refused_seconds", 0)
    monkeypatch.setitem(connection.settings_dict["SESSION"], "lock_timeout", "300ms")
    connection.close()
    PipelinedConnection.close_all()
    yield
    connection.close()
    PipelinedConnection.close_all()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MonotonicClock:
    """The clock by which deadlines of upstreams are computed. Timers that run already are not moved on."""
    return use_clock(monkeypatch, attempts, echo, http, reading)


@pytest.fixture
def large(upstream: Upstream, db: None, base_rows: BaseRows) -> Any:
    """A model that the scripted upstream serves (``factories.make_large_model``)."""
    return base_rows.insert("acme/large", url=upstream.url)


@pytest.fixture
def reading_images(large: Any) -> None:
    large.image_support = True
    large.save()
