"""Traces of completions with OpenTelemetry: the request, its admission, each attempt at a provider, and the settlement.

The functions that do these are declared as ``steps``. Without OTEL_EXPORTER_OTLP_ENDPOINT this module is never imported, and a
completion pays nothing for it. The SDK reads its own OTEL_* variables.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from django.conf import settings
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from completions.chat import Call
from completions.providers.base import ProviderFailed
from completions.relay.running import Running
from gateway_project import errors, installation, metrics
from gateway_project.monitoring import steps
from gateway_project.web.request_notes import notes_of

_HEADERS = {"traceparent": "HTTP_TRACEPARENT", "tracestate": "HTTP_TRACESTATE"}
_SHUT_DOWN_MILLISECONDS = 2_000
_propagator = TraceContextTextMapPropagator()
# Of the request that this greenlet serves, also while its stream is sent. The next request replaces it.
_request_span: ContextVar[Span | None] = ContextVar("request_span", default=None)
_attempt_span: ContextVar[Span | None] = ContextVar("attempt_span", default=None)
_provider: TracerProvider | None = None


def install() -> None:
    """Trace all completions of this process from now on. Call it after the fork: the exporter has a greenlet of its own."""
    global _provider
    resource = Resource.create({"service.name": settings.TRACING_SERVICE_NAME, "service.version": installation.VERSION})
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    steps.observers[:] = [partial(_observe, _provider.get_tracer("model-gateway", installation.VERSION))]


def shut_down() -> None:
    """Send the spans that wait."""
    if _provider:
        _provider.force_flush(_SHUT_DOWN_MILLISECONDS)


def _observe(tracer: Tracer, name: str, run: Callable[..., Any], *args: Any, **named: Any) -> Any:
    if special := _SPECIAL.get(name):
        return special(tracer, run, *args, **named)
    with _child(tracer, name, SpanKind.INTERNAL, {}):
        return run(*args, **named)


def _request(tracer: Tracer, post: Callable[..., Any], view: Any, request: Any, *args: Any, **named: Any) -> Any:
    plain = request._request
    carrier = {name: plain.META[key] for name, key in _HEADERS.items() if key in plain.META}
    route = metrics.route(plain)
    span = tracer.start_span(
        f"POST /{route}",
        context=_propagator.extract(carrier),
        kind=SpanKind.SERVER,
        attributes={"http.request.method": "POST", "http.route": f"/{route}", "gateway.request_id": notes_of(plain).id},
    )
    _request_span.set(span)
    try:
        response = post(view, request, *args, **named)
    except BaseException as error:
        status = getattr(error, "status", 500)
        span.set_attribute("http.response.status_code", status)
        _fail(span, error, is_fault=status >= 500)
        span.end()
        raise
    span.set_attribute("http.response.status_code", response.status_code)
    if response.streaming:
        response._resource_closers.append(span.end)  # after those that settle it
    else:
        span.end()
    return response


def _attempt(tracer: Tracer, attempt: Callable[..., Any], running: Running, call: Call, send: Callable[..., Any]) -> Any:
    facts = {
        "gen_ai.operation.name": "embeddings" if call.request.inputs else "chat",
        "gen_ai.provider.name": call.route.provider_slug,
        "gen_ai.request.model": call.offer.model_id,
        "gateway.attempt": running.attempts + 1,
        "gateway.completion_id": running.admitted.completion.id,
    }
    with _child(tracer, f"attempt {call.route.provider_slug}", SpanKind.CLIENT, facts) as span:
        before = _attempt_span.set(span)
        try:
            return attempt(running, call, send)
        finally:
            _attempt_span.reset(before)


def _post(tracer: Tracer, post: Callable[..., Any], call: Call, headers: dict[str, str], *args: Any, **named: Any) -> Any:
    """Pass the context of the attempt on to its provider, if the operator says so."""
    span = _attempt_span.get()
    carrier: dict[str, str] = {}
    if span and settings.TRACING_PASS_ON:
        _propagator.inject(carrier, set_span_in_context(span))
    return post(call, headers | carrier, *args, **named)


_SPECIAL: dict[str, Callable[..., Any]] = {"request": _request, "attempt": _attempt, "post": _post}


@contextmanager
def _child(tracer: Tracer, name: str, kind: SpanKind, facts: dict[str, Any]) -> Iterator[Span]:
    parent = _request_span.get()
    context = set_span_in_context(parent) if parent else None
    span = tracer.start_span(name, context=context, kind=kind, attributes=facts)
    try:
        yield span
    except BaseException as error:
        _fail(span, error, is_fault=not isinstance(error, errors.ApiError) or error.status >= 500)
        raise
    finally:
        span.end()


def _fail(span: Span, error: BaseException, *, is_fault: bool) -> None:
    """Say why, without messages: they may quote the request. A caller's mistake is no fault of the step."""
    if isinstance(error, ProviderFailed):
        span.set_attribute("error.type", error.kind.name.lower())
        if error.status:
            span.set_attribute("http.response.status_code", error.status)
    else:
        span.set_attribute("error.type", type(error).__name__)
    if is_fault:
        span.set_status(StatusCode.ERROR)
