"""What the adapters of embeddings, and their replies, have in common in every wire format."""

import base64
import math
import sys
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from completions.chat import Call, ChatRequest, Inputs, WholeReply
from completions.pricing.usage import Usage
from completions.providers import reading
from completions.providers.base import Adapter
from completions.providers.exchange import UnusableResponse
from completions.providers.http_adapter import HttpAdapter
from completions.request.fields import refuse
from gateway_project import large_work

_PAUSE_EMBEDDINGS = 32
_decode_vector = msgspec.json.Decoder(list[float] | str).decode
Reply = TypeVar("Reply", bound=msgspec.Struct)


class NoEmbeddings(Adapter):
    """The adapter of a provider that makes no embeddings."""

    def check(self, request: ChatRequest) -> None:
        refuse("model", "has no provider that makes embeddings")


class EmbeddingsAdapter(HttpAdapter):
    """The adapter of an API that makes embeddings over HTTP."""

    preamble_tokens_max = 0
    switches_reasoning_off = Adapter.switches_reasoning_off

    def parse_reply(self, call: Call, body: bytes) -> WholeReply:
        """Return the reply with its embeddings in the order of the inputs. Raises UnusableResponse."""
        raise NotImplementedError

    def complete(self, call: Call) -> WholeReply:
        return reading.read_whole(self.post(call, stream=False), partial(self.parse_reply, call))


def inputs(request: ChatRequest) -> Inputs:
    """Return the inputs of a request for embeddings."""
    assert request.inputs is not None
    return request.inputs


def items(request: ChatRequest) -> list[Any]:
    """Return the texts, or the lists of tokens, whether the request has one or many."""
    given = request.fields["input"]
    return [given] if inputs(request).is_single else given


def decode(body: bytes, shape: type[Reply]) -> Reply:
    """Parse a reply, which may have megabytes of numbers. Raises UnusableResponse."""
    try:
        with large_work.turn(len(body)):
            return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnusableResponse("it has no embeddings") from error


def read(written: Sequence[msgspec.Raw]) -> list["array[float]"]:
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


def whole_reply(vectors: list["array[float]"], request: ChatRequest, usage: Usage | None) -> WholeReply:
    """Return the reply. Raises UnusableResponse unless it has an embedding for each input, all of the size asked for."""
    asked = inputs(request)
    if len(vectors) != asked.number:
        raise UnusableResponse(f"it has {len(vectors)} embeddings for {asked.number} inputs")
    sizes = {len(vector) for vector in vectors}
    if len(sizes) != 1 or 0 in sizes or (asked.dimensions and asked.dimensions not in sizes):
        raise UnusableResponse(f"its embeddings have {', '.join(map(str, sorted(sizes)))} numbers, not as many as asked for")
    return WholeReply(choices=[], usage=usage, text_bytes=0, embeddings=vectors)
