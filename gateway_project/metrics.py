"""Prometheus metrics: what processes count, and what ``shared`` reads of the whole.

Where PROMETHEUS_MULTIPROC_DIR is set, the processes of a host share what they count through its files. These may vanish at any
time, so what must outlive a process is in the database. A web process adds up what it counts for each request, and writes the
sums once per second: the library takes fifty calls to count one request.
"""

import logging
import os
from collections import defaultdict
from pathlib import Path

import gevent
from django.http import HttpRequest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import REGISTRY

logger = logging.getLogger("gateway.metrics")

WRITE_SECONDS = 1

# Without the directory the library fails at the first metric. Do not empty it here: every process of the host runs this.
if _directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
    Path(_directory).mkdir(parents=True, exist_ok=True)

requests_total = Counter("gateway_requests_total", "Requests answered.", ["route", "method", "status"])
request_seconds = Histogram(
    "gateway_request_seconds", "Seconds until the reply began.", ["route"], buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60)
)
completions_total = Counter(
    "gateway_completions_total", "Completions that were charged, by how they ended.", ["model", "settlement"]
)
attempt_seconds = Histogram(
    "gateway_attempt_seconds",
    "Seconds until a provider had sent a whole reply, had begun a stream, or the attempt had failed.",
    ["provider", "outcome"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
operator_loss_nanos = Counter("gateway_operator_loss_nanos", "Upstream cost that nobody is charged.")
provider_loss_nanos = Counter(
    "gateway_provider_loss_nanos",
    "Of that, what a provider may charge for replies that did not reach their callers.",
    ["provider"],
)
usage_contradictions_total = Counter(
    "gateway_usage_contradictions_total", "Replies whose provider reported a usage that contradicts itself.", ["provider"]
)
unrated_tiers_total = Counter(
    "gateway_unrated_tiers_total",
    "Replies that a provider served at a service tier without rates, and that were charged at the standard ones.",
    ["provider", "tier"],
)
upstream_oddities_total = Counter(
    "gateway_upstream_oddities_total",
    "What a provider sent that its format does not have, and that was read all the same.",
    ["provider", "kind"],
)
circuits_open = Gauge(
    "gateway_circuits_open", "Circuits that are open or half-open in a process.", ["provider"], multiprocess_mode="livesum"
)
circuit_opened_total = Counter("gateway_circuit_opened_total", "Times that the circuit of a route opened.", ["provider"])
own_circuit_refusals_total = Counter(
    "gateway_own_circuit_refusals_total", "503 replies to accounts for which alone the routes of a model failed before."
)
database_circuit_opened_total = Counter(
    "gateway_database_circuit_opened_total", "Times that a process found that the database does not answer."
)
outbox_stored_total = Counter("gateway_outbox_stored_total", "Settlements stored on disk while the database was unavailable.")
outbox_dead_letters_total = Counter("gateway_outbox_dead_letters_total", "Settlements that cannot be applied.")
speedups_off = Gauge(
    "gateway_speedups_off",
    "1 for a library of which a process uses nothing but its own code, else 0.",
    ["library"],
    multiprocess_mode="livemax",
)
mails_refused_total = Counter("gateway_mails_refused_total", "Mails that were not sent because a limit was reached.", ["limit"])

# Collectors that read facts when they are asked. The apps register them.
shared = CollectorRegistry()

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_writes_regularly = False
# The counts that are not written yet, by metric and labels.
_counted: defaultdict[tuple[Counter, tuple[object, ...]], int] = defaultdict(int)
_timed: defaultdict[tuple[Histogram, tuple[str, ...]], list[float]] = defaultdict(list)  # seconds


def record_provider_loss(provider: str, nanos: int) -> None:
    """Count what a provider may charge for a reply that no account pays."""
    operator_loss_nanos.inc(nanos)
    provider_loss_nanos.labels(provider).inc(nanos)


def count_oddity(provider: str, kind: str, number: int = 1) -> None:
    """Count what a provider sent that its format does not have: a ``skipped_event``, an unknown ``finish_reason``."""
    upstream_oddities_total.labels(provider, kind).inc(number)


def observe_request(route: str, method: str | None, status: int, seconds: float) -> None:
    """Count a reply by route and method. Methods that a client makes up are no labels: they are unbounded."""
    _counted[requests_total, (route, method if method in _METHODS else "other", status)] += 1
    _timed[request_seconds, (route,)].append(seconds)
    if not _writes_regularly:
        write()


def count_completion(model_id: str, settlement: str) -> None:
    _counted[completions_total, (model_id, settlement)] += 1
    if not _writes_regularly:
        write()


def observe_attempt(provider: str, outcome: str, seconds: float) -> None:
    _timed[attempt_seconds, (provider, outcome)].append(seconds)
    if not _writes_regularly:
        write()


def write_regularly() -> None:
    """Write once per second what this process counts from now on, for the life of this worker."""
    global _writes_regularly
    _writes_regularly = True

    def write_each_second() -> None:
        while True:
            gevent.sleep(WRITE_SECONDS)
            try:
                write()
            except OSError as error:  # the disk is full, or no descriptor is free
                logger.warning("cannot write metrics: %s", error)

    gevent.spawn(write_each_second)


def write() -> None:
    global _counted, _timed
    counted, timed = _counted, _timed
    _counted, _timed = defaultdict(int), defaultdict(list)
    for (counter, labels), number in counted.items():
        counter.labels(*labels).inc(number)
    for (histogram, names), seconds in timed.items():
        child = histogram.labels(*names)
        for each in seconds:
            child.observe(each)


def route(request: HttpRequest) -> str:
    """Return the pattern of the request's path, for a label: paths are unbounded, because clients make them up."""
    return request.resolver_match.route if request.resolver_match else "unknown"


def render() -> bytes:
    """Return the text of GET /metrics."""
    write()
    of_processes = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        of_processes = CollectorRegistry()
        MultiProcessCollector(of_processes)
    return generate_latest(of_processes) + generate_latest(shared)
