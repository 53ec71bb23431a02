"""The facts of the database, the broker's queue and the hosts' gauges, as Prometheus metrics.

A scrape must end while the database or the broker does not answer, in processes with and without an event loop. So one thread
for each ``Reading`` reads, once for all who ask within a few seconds, and the scrape waits for it for a bounded time.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db import transaction
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gateway_project import errors, installation
from gateway_project.db import cell, everywhere, pool
from gateway_project.monitoring import facts, processes
from gateway_project.monitoring.models import Process

Value = TypeVar("Value")

logger = logging.getLogger("gateway.metrics")

WAIT_SECONDS = 3.0
KEPT_SECONDS = 5.0
QUEUE = "celery"  # Celery's default
_STATEMENT_SECONDS = 2
_BROKER_SECONDS = 1


class Reading(Generic[Value]):
    """The last result of ``read``, which may raise anything; ``what`` names it in the log."""

    def __init__(self, what: str, read: Callable[[], Value]) -> None:
        self._what, self._read = what, read
        self._lock = threading.Lock()
        self._value: Value | None = None
        self._begun_at = self._ended_at = -math.inf
        self._ended = threading.Event()
        self._ended.set()

    def latest(self) -> Value | None:
        """Return the reading of the last KEPT_SECONDS, or a new one. None: reading failed, or takes too long."""
        with self._lock:
            if self._ended.is_set():
                if time.monotonic() - self._ended_at <= KEPT_SECONDS:
                    return self._value
                self._begun_at, self._value = time.monotonic(), None
                self._ended.clear()
                threading.Thread(target=self._run, name=f"reading of {self._what}", daemon=True).start()
        left_seconds = max(0.0, self._begun_at + WAIT_SECONDS - time.monotonic())
        return self._value if self._ended.wait(left_seconds) else None

    def _run(self) -> None:
        try:
            self._value = self._read()
        except Exception as error:  # a scrape shows everything else, whatever is wrong here
            logger.warning("cannot read %s for the metrics: %s", self._what, errors.reason(error))
        finally:
            self._ended_at = time.monotonic()
            self._ended.set()


class FactsCollector(Collector):
    """Reads the facts when it is asked. Without the database they are absent, because an old value would hide that."""

    def __init__(self) -> None:
        self._database = Reading("the database", _read_facts)
        self._broker = Reading("the broker", _read_queue)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield _gauge("gateway_build_info", "1, for the version that replies.", [[installation.VERSION, 1]], ["version"])
        found = self._database.latest()
        yield _gauge("gateway_database_up", "1 if the facts of the database could be read, else 0.", [[found is not None]])
        metrics, hosts, cells = found or ([], {}, {})
        yield from metrics
        rows = [[str(number), is_up] for number, is_up in cells.items()]
        yield _gauge("gateway_cell_up", "1 for a cell that answers, else 0, where there are several.", rows, ["cell"])
        yield from _host_gauges(hosts)
        if settings.REDIS_URL:
            waiting = self._broker.latest()
            yield _gauge("gateway_broker_up", "1 if Celery's broker could be read, else 0.", [[waiting is not None]])
            if waiting is not None:
                yield _gauge("gateway_queue_waiting", "Tasks that wait for a worker.", [[waiting]])


def _gauge(name: str, help: str, rows: Iterable[Sequence[Any]], labels: Sequence[str] = ()) -> GaugeMetricFamily:
    """Return a gauge with these samples; a row has the labels' values and then the number."""
    family = GaugeMetricFamily(name, help, labels=labels)
    for *values, number in rows:
        family.add_metric(values, float(number))
    return family


def _host_gauges(reported: dict[str, dict[str, int]]) -> Iterator[GaugeMetricFamily]:
    """Yield what hosts measured: this one now, the others when they last reported."""
    hosts = {**reported, processes.host(): processes.measure()}
    for gauge in facts.declared(facts.HostGauge):
        rows = [[host, values[gauge.name]] for host, values in sorted(hosts.items()) if gauge.name in values]
        yield _gauge(gauge.name, gauge.help, rows, ["host"])


def _read_facts() -> tuple[list[GaugeMetricFamily], dict[str, dict[str, int]], dict[int, bool]]:
    """Return the facts, the gauges of each host by name as it last reported them, and which cells answer."""
    try:
        with pool.time_limit():
            reported = Process.objects.order_by("seen_at").values_list("host", "gauges")  # of a host, the latest row wins
            return [read(fact) for fact in facts.declared(facts.Fact)], dict(reported), everywhere.answers()
    finally:
        pool.release_connection()


def read(fact: facts.Fact) -> GaugeMetricFamily:
    """Run the fact's SQL, in each cell if it is about them. Raises the database's errors."""
    if fact.across_cells is None:
        return _gauge(fact.name, fact.help, _rows(fact), fact.labels)
    by_labels: dict[tuple[Any, ...], list[Any]] = {}
    for row in everywhere.gather(lambda: _rows(fact), may_miss=True):
        by_labels.setdefault(row[:-1], []).append(row[-1])
    rows = [(*labels, fact.across_cells(numbers)) for labels, numbers in by_labels.items()]
    return _gauge(fact.name, fact.help, rows, fact.labels)


def _rows(fact: facts.Fact) -> list[Any]:
    # A transaction for each, so that none keeps a lock of a table while it waits for another.
    with transaction.atomic():
        cell.execute(f"SET LOCAL statement_timeout = '{_STATEMENT_SECONDS}s'")
        return cell.execute(fact.sql)


def _read_queue() -> int:
    import redis  # here, because most processes need it only now
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    limits: dict[str, Any] = {"socket_timeout": _BROKER_SECONDS, "socket_connect_timeout": _BROKER_SECONDS}
    with redis.Redis.from_url(settings.REDIS_URL, retry=Retry(NoBackoff(), 0), **limits) as client:
        return int(client.llen(QUEUE))
