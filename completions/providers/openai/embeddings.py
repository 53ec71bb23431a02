"""Embeddings of servers that speak OpenAI's API: POST {base_url}/embeddings.

They are asked for numbers, and not for base64: not every server has that, and some ignore the field. A batch whose reply in
numbers would be larger than the gateway reads is asked for in base64, which takes a quarter of the bytes.
"""

from typing import Any

import msgspec
from django.conf import settings

from completions.chat import Call, WholeReply
from completions.pricing.usage import Usage
from completions.providers import embeddings, reported_usage
from completions.providers.endpoints import Endpoint
from completions.providers.exchange import UnusableResponse
from completions.providers.openai.response import read_refusal
from completions.request.fields import Fields

_NUMBER_BYTES_MAX = 24  # as OpenAI writes it: on a line of its own
_COMMON_DIMENSIONS_MAX = 3_072
_SENT = ("input", "dimensions", "user")


class _Item(msgspec.Struct):
    embedding: msgspec.Raw
    index: int | None = None  # some servers leave it out, and keep the order


class _Reply(msgspec.Struct):
    data: list[_Item]
    usage: Any = None


class OpenAIEmbeddings(embeddings.EmbeddingsAdapter):
    endpoint = Endpoint("/embeddings")
    read_refusal = staticmethod(read_refusal)

    def body(self, call: Call, *, stream: bool) -> Fields:
        fields, inputs = call.request.fields, embeddings.inputs(call.request)
        given = {name: fields[name] for name in _SENT if fields.get(name) is not None}
        numbers = inputs.number * (inputs.dimensions or _COMMON_DIMENSIONS_MAX)
        encoding = "base64" if numbers * _NUMBER_BYTES_MAX > settings.UPSTREAM_REPLY_BYTES_MAX else "float"
        return {"model": call.route.upstream_model, **given, "encoding_format": encoding}

    def parse_reply(self, call: Call, body: bytes) -> WholeReply:
        reply = embeddings.decode(body, _Reply)
        found = {place if item.index is None else item.index: item.embedding for place, item in enumerate(reply.data)}
        if sorted(found) != list(range(len(reply.data))):
            raise UnusableResponse("the indexes of its embeddings are not 0, 1, 2 and so on")
        vectors = embeddings.read([found[index] for index in sorted(found)])
        tokens = reported_usage.of(call).tokens_of_inputs(reply.usage)
        return embeddings.whole_reply(vectors, call.request, None if tokens is None else Usage(tokens, 0))
