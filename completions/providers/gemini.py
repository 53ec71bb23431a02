"""Google's Gemini, in its own words: generateContent and its stream."""

from collections.abc import Generator, Iterator
from urllib.parse import quote

from django.conf import settings

from completions import sse
from completions.chat import Answer, Call, ChatRequest, Chunk
from completions.providers import exchange, gemini_request, gemini_wire
from completions.providers.exchange import Unusable
from completions.providers.gemini_wire import ResponseReader
from gateway_project import http


class Gemini:
    """Its OpenAI-compatible endpoint is not asked: it knows less, and reports less of what is used."""

    def check(self, request: ChatRequest) -> None:
        gemini_request.check(request)

    def complete(self, call: Call) -> Answer:
        reply = _post(call, "generateContent", stream=False)
        try:
            return gemini_wire.parse_answer(reply.read_all())
        except (http.OutboundError, Unusable) as error:
            raise exchange.broken_off(call, error, upstream_worked=not isinstance(error, Unusable)) from error
        finally:
            reply.close()

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        reply = _post(call, "streamGenerateContent?alt=sse", stream=True)
        reader = ResponseReader()
        try:
            yield from _read(reply, reader)
        except (http.OutboundError, sse.EventTooLarge, Unusable) as error:
            if not reader.finish_reason:  # what breaks after it cost the caller nothing
                upstream_worked = reader.has_passed_on or not isinstance(error, Unusable)
                raise exchange.broken_off(call, error, upstream_worked=upstream_worked) from error
        finally:
            reply.close()
        yield reader.last()


def _read(reply: http.Reply, reader: ResponseReader) -> Iterator[list[Chunk]]:
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
    if not reader.finish_reason:
        if not reader.has_passed_on:
            raise Unusable("the stream ended before it began")
        raise http.Broken("the stream ended without a finish reason")


def _post(call: Call, method: str, *, stream: bool) -> http.Reply:
    # The key is not put into the address, where access logs would keep it.
    headers = {"x-goog-api-key": call.route.api_key} if call.route.api_key else {}
    path = f"/v1beta/models/{quote(call.route.upstream_model, safe='')}:{method}"
    return exchange.post(call, path, headers, gemini_request.body(call), stream=stream, meaning=gemini_wire.meaning)
