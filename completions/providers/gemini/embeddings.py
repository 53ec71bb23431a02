"""Embeddings of Google's Gemini API: POST /v1beta/models/{model}:batchEmbedContents. Text only, and no usage is reported.

https://ai.google.dev/api/embeddings
"""

from typing import Any

import msgspec

from completions.chat import Call, ChatRequest, Inputs, WholeReply
from completions.providers import embeddings, reading
from completions.providers.base import Adapter
from completions.providers.gemini.adapter import post
from completions.request.fields import refuse

_INPUTS_MAX = 100  # of one batch


class GeminiEmbeddings(Adapter):
    def check(self, request: ChatRequest) -> None:
        inputs = embeddings.inputs(request)
        if inputs.are_tokens:
            refuse("input", f"must be text for {request.model}: its provider reads no tokens")
        if inputs.number > _INPUTS_MAX:
            refuse("input", f"must have at most {_INPUTS_MAX} items for {request.model}")

    def ignored_fields(self, call: Call) -> list[str]:
        return ["user"] if call.request.fields.get("user") is not None else []

    def complete(self, call: Call) -> WholeReply:
        posted = post(call, "batchEmbedContents", _body, stream=False)
        return reading.read_whole(posted, lambda body: parse_reply(body, embeddings.inputs(call.request)))


def _body(call: Call, *, stream: bool) -> dict[str, Any]:
    inputs = embeddings.inputs(call.request)
    asked = {"model": f"models/{call.route.upstream_model}"}
    size = {"outputDimensionality": inputs.dimensions} if inputs.dimensions else {}
    texts = embeddings.items(call.request)
    return {"requests": [{**asked, **size, "content": {"parts": [{"text": text}]}} for text in texts]}


class _Item(msgspec.Struct):
    values: msgspec.Raw


class _Reply(msgspec.Struct):
    embeddings: list[_Item]


def parse_reply(body: bytes, inputs: Inputs) -> WholeReply:
    """Return the reply, whose usage is to be estimated. Raises UnusableResponse."""
    reply = embeddings.decode(body, _Reply)
    return embeddings.whole_reply(embeddings.read([item.values for item in reply.embeddings]), inputs, None)
