"""Values that the layers pass on: a chat request, its offers, and the reply. Frozen dataclasses, independent of Django."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Contents:
    """What the messages contain, counted in one pass. ``image_at`` and ``file_at`` name the first such part, or are "".

    ``prompt_tokens_max`` bounds the tokens of the messages' text: its bytes of UTF-8, plus an allowance for the chat template.
    A file is a document or a sound, whose tokens cannot be estimated. ``message_fields`` are the fields that messages have
    beside role and content.
    """

    text_bytes: int = 0  # UTF-8
    images: int = 0
    image_at: str = ""
    file_at: str = ""
    prompt_tokens_max: int = 0
    message_fields: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A validated request. ``fields`` is the body as received, for upstreams that understand more fields than we check.

    ``prompt_tokens_max`` bounds the tokens of the prompt's text: of the messages, and of every other field that a provider
    may add to the prompt.
    """

    model: str
    messages: list[dict[str, Any]]
    max_tokens: int | None
    stream: bool
    include_usage: bool
    fields: dict[str, Any]
    prompt_tokens_max: int
    max_tokens_field: str = "max_tokens"  # which of its two names the request used
    choices: int = 1
    fallbacks: tuple[tuple[int, str], ...] = ()  # models that may answer instead, each with its index in ``models``
    contents: Contents = Contents()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens by price. ``prompt_tokens`` includes ``cached_tokens`` (read from a cache) and ``cache_write_tokens``."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PriceList:
    """Nanodollars per million tokens. ``image_nanos`` is charged for each image of the prompt, in addition to its tokens."""

    input_nanos: int
    output_nanos: int
    cached_input_nanos: int
    cache_write_nanos: int
    image_nanos: int = 0


@dataclass(frozen=True, slots=True)
class Deadlines:
    """A provider's time limits: to connect; to connect and begin its reply; between two reads; and in all."""

    connect_seconds: int
    first_byte_seconds: int
    idle_seconds: int
    total_seconds: int


@dataclass(frozen=True, slots=True)
class Route:
    """One way to reach a model: a provider, and the model's name there."""

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
    key_fingerprint: str = ""  # of the provider's key and address
    is_key_refused: bool = False  # the provider refused this key: this route is there to be probed
    drains: bool = False  # a reply is read to its end after its client disconnected: the provider charges for it anyway


@dataclass(frozen=True, slots=True)
class Offer:
    """What is offered under a model id now: its price, its limits, and the routes to it."""

    model_id: str
    context_window: int
    max_output_tokens: int
    image_support: bool
    image_tokens_max: int
    function_calling: bool
    price_id: int
    price: PriceList
    routes: tuple[Route, ...]
    alias: str = ""  # the id in the request, when it is an alias of this model


@dataclass(frozen=True, slots=True)
class Call:
    """One request to one upstream. ``max_tokens`` is what the hold pays for, so it is always sent."""

    request: ChatRequest
    offer: Offer
    route: Route
    max_tokens: int
    until: float = math.inf  # the deadline of all attempts together, by the monotonic clock


@dataclass(frozen=True, slots=True)
class WholeReply:
    """A whole reply: OpenAI's ``choices`` as parsed JSON; ``usage`` is None when the upstream reported none, or nonsense."""

    choices: list[dict[str, Any]]
    usage: Usage | None
    text_bytes: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stream: OpenAI's ``choices`` as JSON bytes, ready to be sent.

    ``text_bytes`` is the size of its generated text, for an estimate if the upstream never reports usage. A chunk with
    ``usage`` has no choices.
    """

    choices: bytes
    text_bytes: int = 0
    has_finish_reason: bool = False
    usage: Usage | None = None
