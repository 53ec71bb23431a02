"""Keys that a process knows to be stopped."""

from contextlib import contextmanager

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from keys.limits import limit_state_cache, refusal_cache
from keys.limits.refusal_cache import RefusalCache
from tests.monotonic_clock import use_clock


@pytest.fixture
def stopped(monkeypatch):
    """Stop the clock of the process's caches, so that the test runs within one second of it. Returns the clock."""
    clock = use_clock(monkeypatch, limit_state_cache)
    clock.stop()
    monkeypatch.setattr(refusal_cache, "process_cache", RefusalCache(clock.monotonic))
    return clock


@contextmanager
def no_query_of_keys_or_accounts():
    with CaptureQueriesContext(connection) as captured:
        yield
    # Models are looked up in each request, as tests do not cache them.
    assert [query["sql"] for query in captured if "completions_" not in query["sql"]] == []
