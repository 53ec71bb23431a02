"""Embeddings: the adapters of the APIs that make them, and what their replies have in common."""

import base64
import math
import sys
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from django.conf import settings

from completions.chat import Call, ChatRequest, Inputs, WholeReply
from completions.pricing.usage import Usage
from completions.providers import reading, reported_usage
from completions.providers.access import endpoints
from completions.providers.base import Adapter
from completions.providers.exchange import UnusableResponse
from completions.providers.gemini import response as gemini_response
from completions.providers.http_adapter import HttpAdapter
from completions.providers.openai import response as openai_response
from completions.request.fields import Fields, refuse
from gateway_project import large_work

_PAUSE_EMBEDDINGS = 32
_NUMBER_BYTES_MAX = 24  # as OpenAI writes it: on a line of its own
_COMMON_DIMENSIONS_MAX = 3_072
_SENT_TO_OPENAI = ("input", "dimensions", "user")
_GEMINIS_INPUTS_MAX = 100  # of one batch
_decode_vector = msgspec.json.Decoder(list[float] | str).decode
Reply = TypeVar("Reply", bound=msgspec.Struct)


class NoEmbeddings(Adapter):
    """The adapter of a provider that makes no embeddings."""

    def check(self, request: ChatRequest) -> None:
        refuse("model", "has no provider that makes embeddings")


class _EmbeddingsAdapter(HttpAdapter):
    preamble_tokens_max = 0
    switches_reasoning_off = Adapter.switches_reasoning_off

    def parse_reply(self, call: Call, body: bytes) -> WholeReply:
        """Return the reply with its embeddings in the order of the inputs. Raises UnusableResponse."""
        raise NotImplementedError

    def complete(self, call: Call) -> WholeReply:
        return reading.read_whole(self.post(call, stream=False), partial(self.parse_reply, call))


# --- OpenAI's API -----------------------------------------------------------------------------------------------


class _OpenAIItem(msgspec.Struct):
    embedding: msgspec.Raw
    index: int | None = None  # some servers leave it out, and keep the order


class _OpenAIReply(msgspec.Struct):
    data: list[_OpenAIItem]
    usage: Any = None


class OpenAIEmbeddings(_EmbeddingsAdapter):
    """Servers are asked for numbers, and not for base64: not every one has that, and some ignore the field.

    A batch whose reply in numbers would be larger than the gateway reads is asked for in base64, a quarter of the bytes.
    """

    endpoint = endpoints.OPENAI_EMBEDDINGS
    read_refusal = staticmethod(openai_response.read_refusal)

    def body(self, call: Call, *, stream: bool) -> Fields:
        fields, asked = call.request.fields, inputs(call.request)
        given = {name: fields[name] for name in _SENT_TO_OPENAI if fields.get(name) is not None}
        numbers = asked.number * (asked.dimensions or _COMMON_DIMENSIONS_MAX)
        encoding = "base64" if numbers * _NUMBER_BYTES_MAX > settings.UPSTREAM_REPLY_BYTES_MAX else "float"
        return {"model": call.route.upstream_model, **given, "encoding_format": encoding}

    def parse_reply(self, call: Call, body: bytes) -> WholeReply:
        reply = _decode(body, _OpenAIReply)
        found = {place if item.index is None else item.index: item.embedding for place, item in enumerate(reply.data)}
        if sorted(found) != list(range(len(reply.data))):
            raise UnusableResponse("the indexes of its embeddings are not 0, 1, 2 and so on")
        vectors = _read([found[index] for index in sorted(found)])
        tokens = reported_usage.of(call).tokens_of_inputs(reply.usage)
        return _whole_reply(vectors, inputs(call.request), None if tokens is None else Usage(tokens, 0))


# --- Gemini's API: https://ai.google.dev/api/embeddings ---------------------------------------------------------------


class _GeminiItem(msgspec.Struct):
    values: msgspec.Raw


class _GeminiReply(msgspec.Struct):
    embeddings: list[_GeminiItem]


class GeminiEmbeddings(_EmbeddingsAdapter):
    """Text only, and no usage is reported: it is to be estimated."""

    endpoint = endpoints.GEMINI_EMBEDDINGS
    read_refusal = staticmethod(gemini_response.read_refusal)

    def check(self, request: ChatRequest) -> None:
        asked = inputs(request)
        if asked.are_tokens:
            refuse("input", f"must be text for {request.model}: its provider reads no tokens")
        if asked.number > _GEMINIS_INPUTS_MAX:
            refuse("input", f"must have at most {_GEMINIS_INPUTS_MAX} items for {request.model}")

    def ignored_fields(self, call: Call) -> list[str]:
        return ["user"] if call.request.fields.get("user") is not None else []

    def body(self, call: Call, *, stream: bool) -> Fields:
        asked, dimensions = {"model": f"models/{call.route.upstream_model}"}, inputs(call.request).dimensions
        size = {"outputDimensionality": dimensions} if dimensions else {}
        texts = items(call.request)
        return {"requests": [{**asked, **size, "content": {"parts": [{"text": text}]}} for text in texts]}

    def parse_reply(self, call: Call, body: bytes) -> WholeReply:
        vectors = _read([item.values for item in _decode(body, _GeminiReply).embeddings])
        return _whole_reply(vectors, inputs(call.request), None)


# --- Requests and replies -----------------------------------------------------------------------------------------


def inputs(request: ChatRequest) -> Inputs:
    assert request.inputs is not None
    return request.inputs


def items(request: ChatRequest) -> list[Any]:
    """Return the texts, or the lists of tokens, whether the request has one or many."""
    given = request.fields["input"]
    return [given] if inputs(request).is_single else given


def _decode(body: bytes, shape: type[Reply]) -> Reply:
    """Parse a reply, which may have megabytes of numbers. Raises UnusableResponse."""
    try:
        with large_work.turn(len(body)):
            return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnusableResponse("it has no embeddings") from error


def _read(written: Sequence[msgspec.Raw]) -> list["array[float]"]:
    """Return the embeddings that are written as JSON: each in numbers, or in base64. Raises UnusableResponse."""
    vectors: list[array[float]] = []
    try:
        with large_work.turn(sum(map(len, written))) as pause:
            for index, numbers in enumerate(written):
                vectors.append(_vector(_decode_vector(numbers)))
                if index % _PAUSE_EMBEDDINGS == 0:
                    pause()
    except (msgspec.DecodeError, ValueError) as error:
        raise UnusableResponse("it has no embeddings") from error
    return vectors


def _vector(written: list[float] | str) -> "array[float]":
    """Raises ValueError."""
    if isinstance(written, list):
        return array("d", written)
    numbers = array("f", base64.b64decode(written, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    if not math.isfinite(sum(numbers)):
        raise ValueError("a number is not finite")
    return array("d", numbers)


def _whole_reply(vectors: list["array[float]"], asked: Inputs, usage: Usage | None) -> WholeReply:
    """Return the reply. Raises UnusableResponse unless it has an embedding for each input, all of the size asked for."""
    if len(vectors) != asked.number:
        raise UnusableResponse(f"it has {len(vectors)} embeddings for {asked.number} inputs")
    sizes = {len(vector) for vector in vectors}
    if len(sizes) != 1 or 0 in sizes or (asked.dimensions and asked.dimensions not in sizes):
        raise UnusableResponse(f"its embeddings have {', '.join(map(str, sorted(sizes)))} numbers, not as many as asked for")
    return WholeReply(choices=[], usage=usage, text_bytes=0, embeddings=vectors)
