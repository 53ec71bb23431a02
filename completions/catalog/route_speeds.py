"""Orders the routes of a model by how fast its providers answered in the last hour, for requests that ask for it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from completions.chat import Route
from completions.statistics import measurements
from completions.statistics.measurements import NOTHING, Measured
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool

PRICE, LATENCY = "price", "latency"  # the third sort is by throughput

_WINDOW = timedelta(hours=1)
_Measurements = dict[measurements.Route, Measured]
# Read by one request per minute, while the others use the last reading.
_measured: StaleWhileRefresh[None, _Measurements] = StaleWhileRefresh(seconds=60, entries_max=1, stale_on=pool.UNAVAILABLE)


def sort(routes: Sequence[Route], model_id: str, by: str) -> list[Route]:
    """Return the routes with priorities in the order of ``by``. Those that were not measured come last, in their own order."""
    if by == PRICE:  # a model costs the same at every provider
        return list(routes)
    measured = _measured.get(None, lambda _: _read())

    def place(route: Route) -> tuple[float, int]:
        found = measured.get((route.provider_slug, model_id), NOTHING)
        if by == LATENCY:
            return (float("inf") if found.first_token_p50_ms is None else found.first_token_p50_ms), route.priority
        return (float("inf") if found.tokens_per_second is None else -found.tokens_per_second), route.priority

    return [replace(route, priority=rank) for rank, route in enumerate(sorted(routes, key=place), start=1)]


def _read() -> _Measurements:
    try:
        return pool.read(lambda: measurements.measure(pool.database_time() - _WINDOW))
    finally:
        pool.release_connection()
