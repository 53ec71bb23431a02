"""Anthropic's own Messages API, which says more than its OpenAI-compatible one: what was cached, thought, refused, and why."""

from collections.abc import Generator, Iterator

from django.conf import settings

from completions import sse
from completions.chat import Answer, Call, ChatRequest, Chunk
from completions.providers import anthropic_request, base, exchange
from completions.providers.anthropic_wire import EventReader, is_about_our_account, parse_answer
from completions.providers.base import ProviderFailed
from completions.providers.exchange import Unusable
from gateway_project import http

_VERSION = "2023-06-01"  # of the wire format; the only one there is


class Anthropic:
    """api.anthropic.com, or a server that speaks as it does."""

    def check(self, request: ChatRequest) -> None:
        anthropic_request.check(request)

    def complete(self, call: Call) -> Answer:
        reply = _post(call, stream=False)
        try:
            return parse_answer(reply.read_all())
        except (http.OutboundError, Unusable) as error:
            raise exchange.broken_off(call, error, upstream_worked=not isinstance(error, Unusable)) from error
        finally:
            reply.close()

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        reply = _post(call, stream=True)
        reader = EventReader()
        try:
            yield from _read(reply, reader)
        except (http.OutboundError, sse.EventTooLarge, Unusable) as error:
            if not reader.finished:  # what breaks after the finish reason cost the caller nothing
                upstream_worked = reader.has_passed_on or not isinstance(error, Unusable)
                raise exchange.broken_off(call, error, upstream_worked=upstream_worked) from error
        finally:
            reply.close()


def _read(reply: http.Reply, reader: EventReader) -> Iterator[list[Chunk]]:
    decoder = sse.Decoder(settings.UPSTREAM_EVENT_BYTES_MAX)
    for received in exchange.arrivals(reply):
        if received is None:
            yield []
            continue
        chunks, failure = reader.read_all(decoder.feed(received))
        if chunks:
            yield chunks
        if failure:
            raise failure
        if reader.done:
            break
    if not reader.has_passed_on:
        raise Unusable("the stream ended before it began")
    if not reader.finished:
        raise http.Broken("the stream ended without a reason to stop")


def _post(call: Call, *, stream: bool) -> http.Reply:
    headers = {"anthropic-version": _VERSION}
    if call.route.api_key:
        headers["x-api-key"] = call.route.api_key
    try:
        return exchange.post(call, "/v1/messages", headers, anthropic_request.body(call, stream=stream), stream=stream)
    except ProviderFailed as failure:
        if is_about_our_account(failure.error.message):  # the caller would take it for his own
            raise ProviderFailed(base.refusal(402), upstream_worked=False) from failure
        raise
