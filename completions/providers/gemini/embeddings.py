"""Embeddings of Google's Gemini API: POST /v1beta/models/{model}:batchEmbedContents. Text only, and no usage is reported.

https://ai.google.dev/api/embeddings
"""

import msgspec

from completions.chat import Call, ChatRequest, WholeReply
from completions.providers import embeddings
from completions.providers.gemini.adapter import endpoint_of
from completions.providers.gemini.response import read_refusal
from completions.request.fields import Fields, refuse

_INPUTS_MAX = 100  # of one batch


class _Item(msgspec.Struct):
    values: msgspec.Raw


class _Reply(msgspec.Struct):
    embeddings: list[_Item]


class GeminiEmbeddings(embeddings.EmbeddingsAdapter):
    endpoint = endpoint_of("batchEmbedContents")
    read_refusal = staticmethod(read_refusal)

    def check(self, request: ChatRequest) -> None:
        inputs = embeddings.inputs(request)
        if inputs.are_tokens:
            refuse("input", f"must be text for {request.model}: its provider reads no tokens")
        if inputs.number > _INPUTS_MAX:
            refuse("input", f"must have at most {_INPUTS_MAX} items for {request.model}")

    def ignored_fields(self, call: Call) -> list[str]:
        return ["user"] if call.request.fields.get("user") is not None else []

    def body(self, call: Call, *, stream: bool) -> Fields:
        inputs = embeddings.inputs(call.request)
        asked = {"model": f"models/{call.route.upstream_model}"}
        size = {"outputDimensionality": inputs.dimensions} if inputs.dimensions else {}
        texts = embeddings.items(call.request)
        return {"requests": [{**asked, **size, "content": {"parts": [{"text": text}]}} for text in texts]}

    def parse_reply(self, call: Call, body: bytes) -> WholeReply:
        vectors = embeddings.read([item.values for item in embeddings.decode(body, _Reply).embeddings])
        return embeddings.whole_reply(vectors, call.request, None)  # whose usage is to be estimated
