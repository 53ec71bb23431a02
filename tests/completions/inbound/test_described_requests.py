"""The OpenAPI description of a request has the fields that its parser reads, and no others, in all languages."""

from functools import partial
from typing import Any

import pytest

from completions.inbound.embeddings import request as embeddings
from completions.inbound.embeddings.serializers import EmbeddingRequestSerializer
from completions.inbound.messages import request as messages
from completions.inbound.messages.serializers import MessageRequestSerializer
from completions.inbound.responses import request as responses
from completions.inbound.responses.serializers import ModelResponseRequestSerializer
from completions.request import schema
from completions.serializers import ChatCompletionRequestSerializer

HELLO = [{"role": "user", "content": "Hello"}]
# With a field of each kind: of the others, the parser looks only for those whose kind is there.
CHAT = {"model": "demo/echo", "messages": HELLO, "temperature": 1, "stop": "x", "tools": [{"type": "custom"}], "moderation": {}}
MESSAGES = {"model": "demo/echo", "messages": HELLO, "max_tokens": 100}
RESPONSES = {"model": "demo/echo", "input": "Hello"}
EMBEDDINGS = {"model": "demo/embed", "input": "Hello"}
NOT_OF_EMBEDDINGS = {"safety_identifier", "prompt_cache_key", "store"}
ECHO = "echo"  # of the provider for development


class Body(dict[str, Any]):
    """A body that notes which of its fields are looked at."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.seen: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.seen.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.seen.add(str(name))
        return super().__contains__(name)


@pytest.mark.parametrize(
    ("parse", "fields", "serializer", "refused"),
    [
        (schema.parse, CHAT, ChatCompletionRequestSerializer, {"audio"}),
        (messages.parse, MESSAGES, MessageRequestSerializer, {"thread"}),
        (responses.parse, RESPONSES, ModelResponseRequestSerializer, {"conversation"}),
        (partial(embeddings.parse, raw=None), EMBEDDINGS, EmbeddingRequestSerializer, NOT_OF_EMBEDDINGS),
    ],
    ids=["chat", "messages", "responses", "embeddings"],
)
def test_described_fields_of_a_request_are_exactly_those_that_its_parser_reads(parse, fields, serializer, refused):
    body = Body(fields)
    parse(body)
    assert body.seen - refused - {ECHO} == set(serializer().fields)
