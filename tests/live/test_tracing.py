"""Traces of completions, sent by a gateway to a collector on loopback that reads them with OpenTelemetry's own classes."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests import factories, waiting
from tests.completions.routes import add
from tests.live import conftest
from tests.live.gateway import QUESTION, Gateway
from tests.upstream import refusal, spare, streamed, whole

pytestmark = pytest.mark.system

__all__ = ["spare"]

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    def __init__(self):
        self.endpoint, self.spans = "", []

    def of(self, trace: str, count: int):
        """Wait until a trace has so many spans. Return them by name."""
        waiting.until(lambda: len(self._of(trace)) >= count, waiting.PROCESS_SECONDS_MAX)
        found = self._of(trace)
        assert len(found) == count, [span.name for span in found]
        return {span.name: span for span in found}

    def _of(self, trace: str):
        return [span for span in self.spans if span.trace_id.hex() == trace]


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            exported = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in exported.resource_spans:
                for scope in resource.scope_spans:
                    collector.spans += scope.spans
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.endpoint = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever).start()
        yield collector
        server.shutdown()


@pytest.fixture
def gateway(transactional_db, collector, tmp_path) -> Iterator[Gateway]:
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    served = conftest.start(tmp_path / "log", {**settings, "GATEWAY_TRACING_PASS_ON": "1"})
    yield served
    served.stop()


def facts(span):
    return {fact.key: fact.value.string_value or fact.value.int_value for fact in span.attributes}


def test_a_trace_shows_each_attempt_and_goes_on_from_the_callers_to_the_providers(
    gateway, alice, large, upstream, spare, collector
):
    add(large, spare)
    secret = factories.make_key(alice)[1]
    for trace, is_streamed in ((TRACE, False), (TRACE[::-1], True)):
        upstream.will(refusal(500))
        spare.will(streamed("Hello") if is_streamed else whole())
        body = {"model": "acme/large", "messages": QUESTION, "stream": is_streamed}
        context = {"traceparent": f"00-{trace}-{PARENT}-01"}
        answer = gateway.request("POST", "/v1/chat/completions", secret=secret, body=body, **context)
        assert answer.status == 200

        spans = collector.of(trace, 5)
        request = spans.pop("POST /v1/chat/completions")
        assert set(spans) == {"admission", "attempt scripted", "attempt spare", "settlement"}
        assert (request.parent_span_id.hex(), {span.parent_span_id for span in spans.values()}) == (PARENT, {request.span_id})
        assert facts(request)["http.response.status_code"] == 200
        assert facts(request)["gateway.request_id"] == answer.headers["x-request-id"]
        assert all(request.start_time_unix_nano <= span.start_time_unix_nano for span in spans.values())
        assert request.end_time_unix_nano >= spans["settlement"].end_time_unix_nano

        failed, served = spans["attempt scripted"], spans["attempt spare"]
        assert (failed.status.code, served.status.code) == (2, 0)  # error, unset
        assert (facts(failed)["error.type"], facts(failed)["http.response.status_code"]) == ("retryable", 500)
        assert facts(served) | {"gateway.completion_id": ""} == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "spare",
            "gen_ai.request.model": "acme/large",
            "gateway.attempt": 2,
            "gateway.completion_id": "",
        }
        for provider, span in ((upstream, failed), (spare, served)):
            assert provider.requests[-1].headers["traceparent"] == f"00-{trace}-{span.span_id.hex()}-01"


def test_a_refusal_ends_its_trace_and_is_no_error_of_the_gateway(gateway, alice, collector):
    body = {"model": "acme/none", "messages": QUESTION}
    secret = factories.make_key(alice)[1]
    answer = gateway.request("POST", "/v1/chat/completions", secret=secret, body=body, traceparent=f"00-{TRACE}-{PARENT}-01")
    [request] = collector.of(TRACE, 1).values()
    assert (answer.status, request.status.code) == (404, 0)  # unset
    shown = {name: facts(request)[name] for name in ("http.response.status_code", "error.type")}
    assert shown == {"http.response.status_code": 404, "error.type": "ModelUnknown"}
