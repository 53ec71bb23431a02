"""LEAF. What Prometheus may read. Several worker processes share PROMETHEUS_MULTIPROC_DIR where it is set."""

import os
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import REGISTRY

# Without it the library fails at the first metric. Emptying it is not ours: every process of the host imports this.
if _directory := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
    Path(_directory).mkdir(parents=True, exist_ok=True)

requests_total = Counter("gateway_requests_total", "Requests answered.", ["route", "method", "status"])
request_seconds = Histogram(
    "gateway_request_seconds", "Seconds until the reply began.", ["route"], buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60)
)
completions_total = Counter(
    "gateway_completions_total", "Completions that were charged, by how they ended.", ["model", "settlement"]
)
operator_loss_nanos = Counter("gateway_operator_loss_nanos", "Upstream cost above the hold, which nobody is charged.")
ledger_violations = Gauge(
    "gateway_ledger_violations", "Findings of the last audit of the book.", multiprocess_mode="mostrecent"
)
ledger_verified_timestamp_seconds = Gauge(
    "gateway_ledger_verified_timestamp_seconds", "When the last audit of the whole book ended.", multiprocess_mode="mostrecent"
)
circuit_opened_total = Counter("gateway_circuit_opened_total", "Times that the circuit of a route opened.", ["provider"])
outbox_stored_total = Counter("gateway_outbox_stored_total", "Settlements stored on disk while the database was unavailable.")
outbox_waiting = Gauge("gateway_outbox_waiting", "Settlements that wait on disk.", multiprocess_mode="mostrecent")
outbox_dead_letters_total = Counter("gateway_outbox_dead_letters_total", "Files of the outbox that cannot be settled.")

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def observe_request(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    """Count a reply under its route: never under its path, nor a method of the caller's making, which have no end."""
    route = request.resolver_match.route if request.resolver_match else "unknown"
    method = request.method if request.method in _METHODS else "other"
    requests_total.labels(route, method, response.status_code).inc()
    request_seconds.labels(route).observe(seconds)


def render() -> bytes:
    """The text of GET /metrics."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)
