"""Prometheus metrics: what processes count, and what ``shared`` reads of the whole.

Where PROMETHEUS_MULTIPROC_DIR is set, the processes of a host share what they count through its files. These files may vanish
at any time, so nothing is there that must be known for longer than a process lives: that is in the database.
"""

import os
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import REGISTRY

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
operator_loss_nanos = Counter("gateway_operator_loss_nanos", "Upstream cost that nobody is charged.")
circuits_open = Gauge(
    "gateway_circuits_open", "Circuits that are open or half-open in a process.", ["provider"], multiprocess_mode="livesum"
)
circuit_opened_total = Counter("gateway_circuit_opened_total", "Times that the circuit of a route opened.", ["provider"])
database_circuit_opened_total = Counter(
    "gateway_database_circuit_opened_total", "Times that a process found that the database does not answer."
)
outbox_stored_total = Counter("gateway_outbox_stored_total", "Settlements stored on disk while the database was unavailable.")
outbox_dead_letters_total = Counter("gateway_outbox_dead_letters_total", "Settlements that cannot be applied.")
mails_refused_total = Counter("gateway_mails_refused_total", "Mails that were not sent because a limit was reached.", ["limit"])

# Collectors that read facts when they are asked. The apps register them.
shared = CollectorRegistry()

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def observe_request(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    """Count a reply by route and method. Paths and methods that a client makes up are no labels: they are unbounded."""
    method = request.method if request.method in _METHODS else "other"
    requests_total.labels(route(request), method, response.status_code).inc()
    request_seconds.labels(route(request)).observe(seconds)


def route(request: HttpRequest) -> str:
    """Return the pattern of the request's path."""
    return request.resolver_match.route if request.resolver_match else "unknown"


def render() -> bytes:
    """Return the text of GET /metrics."""
    return generate_latest(_of_processes()) + generate_latest(shared)


def _of_processes() -> CollectorRegistry:
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return registry
