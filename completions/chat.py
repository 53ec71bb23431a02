"""What is passed inward: one chat request, what is offered for it, and what comes back. Frozen, and free of Django."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in the messages, counted in one walk through them. The names are those of the first part of a kind, or "".

    ``image_bytes`` are those of the images' data URLs. ``file_at`` is a document or a sound: nobody knows how long it is.
    """

    text_bytes: int = 0  # UTF-8
    images: int = 0
    image_at: str = ""
    file_at: str = ""
    image_bytes: int = 0


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
    choices: int = 1
    fallbacks: tuple[tuple[int, str], ...] = ()  # models that may answer instead, with their places in ``models``
    contents: Contents = Contents()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens by how they are priced. ``prompt_tokens`` includes those read from a cache and those written to one."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PriceList:
    """Nanodollars per million tokens; and for each image of the prompt, beside its tokens."""

    input_nanos: int
    output_nanos: int
    cached_input_nanos: int
    cache_write_nanos: int
    image_nanos: int = 0


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a provider may take to accept a connection, to begin, between two reads, and in all."""

    connect_seconds: int
    first_byte_seconds: int
    idle_seconds: int
    total_seconds: int


@dataclass(frozen=True, slots=True)
class Route:
    """Where a model is asked, and under which name."""

    id: int
    provider_slug: str
    kind: str
    base_url: str
    api_key: str
    upstream_model: str
    deadlines: Deadlines
    priority: int = 1
    weight: int = 1
    open_until: float = 0.0  # by the monotonic clock: until then its circuit is open, as its row says
    drains: bool = False  # when its client has left, the reply is read to its end: it would be paid for anyway


@dataclass(frozen=True, slots=True)
class Offer:
    """What stands behind a model id right now: at which price, within which bounds, and the routes to it."""

    model_id: str
    context_window: int
    max_output_tokens: int
    image_support: bool
    image_tokens_max: int
    function_calling: bool
    price_id: int
    price: PriceList
    routes: tuple[Route, ...]
    alias: str = ""  # the id that was asked for, where it stands for this model


@dataclass(frozen=True, slots=True)
class Call:
    """One question to one upstream. ``max_tokens`` is what the hold pays for, so it is always sent."""

    request: ChatRequest
    offer: Offer
    route: Route
    max_tokens: int
    until: float = math.inf  # by the monotonic clock: when all attempts together must have ended


@dataclass(frozen=True, slots=True)
class WholeReply:
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
    has_finish_reason: bool = False
    usage: Usage | None = None
