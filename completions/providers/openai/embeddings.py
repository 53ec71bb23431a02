"""Embeddings of servers that speak OpenAI's API: POST {base_url}/embeddings.

They are asked for numbers, and not for base64: not every server has that, and some ignore the field.
"""

from typing import Any

import msgspec

from completions.chat import Call, ChatRequest, Inputs, Usage, WholeReply
from completions.providers import embeddings, exchange, wire
from completions.providers.exchange import UnusableResponse
from completions.providers.openai.response import read_refusal

_SENT = ("input", "dimensions", "user")


class OpenAIEmbedder:
    def check(self, request: ChatRequest, inputs: Inputs) -> None:
        """Accepts every checked request."""

    def embed(self, call: Call, inputs: Inputs) -> WholeReply:
        headers = {"Authorization": f"Bearer {call.route.api_key}"} if call.route.api_key else {}
        response = exchange.post(call, "/embeddings", headers, _body, stream=False, interpret=read_refusal)
        return exchange.read_whole(call, response, lambda body: parse_reply(body, inputs))


def _body(call: Call, *, stream: bool) -> dict[str, Any]:
    fields = call.request.fields
    given = {name: fields[name] for name in _SENT if fields.get(name) is not None}
    return {"model": call.route.upstream_model, **given, "encoding_format": "float"}


class _Item(msgspec.Struct):
    embedding: list[float]
    index: int | None = None  # some servers leave it out, and keep the order


class _Reply(msgspec.Struct):
    data: list[_Item]
    usage: Any = None


def parse_reply(body: bytes, inputs: Inputs) -> WholeReply:
    """Return the reply with its embeddings in the order of the inputs. Raises UnusableResponse."""
    reply = embeddings.decode(body, _Reply)
    found = {place if item.index is None else item.index: item.embedding for place, item in enumerate(reply.data)}
    if sorted(found) != list(range(len(reply.data))):
        raise UnusableResponse("the indexes of its embeddings are not 0, 1, 2 and so on")
    return embeddings.whole_reply([found[index] for index in sorted(found)], inputs, _usage(reply.usage))


def _usage(usage: Any) -> Usage | None:
    """Return the tokens of the inputs, if they are reported. Some servers report their sum only."""
    if not isinstance(usage, dict):
        return None
    tokens = wire.token_count(usage.get("prompt_tokens")) or wire.token_count(usage.get("total_tokens"))
    return Usage(tokens, 0) if tokens else None
