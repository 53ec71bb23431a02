"""What is passed inward: one chat request, what is offered for it, and what comes back. Frozen, and free of Django."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request whose shape has been checked. ``fields`` is the body as it came, for upstreams that understand more."""

    model: str
    messages: list[dict[str, Any]]
    max_tokens: int | None
    stream: bool
    include_usage: bool
    fields: dict[str, Any]
    body_bytes: int
    max_tokens_field: str = "max_tokens"  # the name that the cap came by, which has two

    @property
    def text_bytes(self) -> int:
        """UTF-8 bytes of the messages' contents."""
        return sum(len(message["content"].encode()) for message in self.messages)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens by how they are priced. ``prompt_tokens`` includes those read from a cache and those written to one."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Offer:
    """What stands behind a model id right now: where it is asked, under which name, at which price."""

    model_id: str
    provider_slug: str
    kind: str
    base_url: str
    api_key: str
    upstream_model: str
    max_output_tokens: int
    price_id: int
    price: "PriceList"


@dataclass(frozen=True, slots=True)
class PriceList:
    """Nanodollars per million tokens."""

    input_nanos: int
    output_nanos: int
    cached_input_nanos: int
    cache_write_nanos: int


@dataclass(frozen=True, slots=True)
class Call:
    """One question to one upstream. ``max_tokens`` is what the hold pays for, so it is always sent."""

    request: ChatRequest
    offer: Offer
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole reply: OpenAI's ``choices``, as parsed JSON, and the usage if the upstream reported a possible one."""

    choices: list[dict[str, Any]]
    usage: Usage | None
    text_bytes: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stream: OpenAI's ``choices`` as JSON bytes, ready to be sent on.

    ``text_bytes`` is the generated text in it, for an estimate should the usage never come. A chunk with ``usage`` has no
    choices of its own.
    """

    choices: bytes
    text_bytes: int = 0
    finishes: bool = False
    usage: Usage | None = None
