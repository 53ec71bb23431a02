"""Values that the layers pass on: a chat request, its offers, and the reply. Independent of Django's models. Frozen, but for a
``RequestBody``, which is released while its request waits, and a ``ResponseHead``. Structs cost no Python call.
"""

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, Protocol
from uuid import UUID

import msgspec

from completions.pricing.rates import RateSheet
from completions.pricing.usage import Usage
from gateway_project import large_work
from gateway_project.deadline import Deadline
from gateway_project.net.http import Deadlines

_RELEASED = object()  # instead of a value that is only in the bytes
_KEPT_CHARACTERS_MAX = 1_000  # of a string that is kept when a body is released
_KEPT_MEMBERS_MAX = 8


class Contents(msgspec.Struct, frozen=True):
    """The content of the messages, counted in one pass. ``image_at`` and ``file_at`` name the first such part, or are "".

    ``prompt_tokens_max`` bounds the tokens of the messages' text: its bytes of UTF-8, plus an allowance for the chat template.
    A file is a document, a sound, or an image of a size that the caller chose: its tokens cannot be estimated.
    ``message_fields`` are the fields that messages have beside role and content. ``remote_images`` are those that the gateway
    fetches: the path of each address, and the address.
    """

    text_bytes: int = 0  # UTF-8
    images: int = 0
    image_at: str = ""
    file_at: str = ""
    prompt_tokens_max: int = 0
    message_fields: frozenset[str] = frozenset()
    remote_images: tuple[tuple[str, str], ...] = ()
    wants_hour_cache: bool = False


class RequestBody:
    """The fields of a body, which has been validated, and the bytes that they were parsed from, unless it is small.

    Parsed, a body takes up to 30 times as much memory as its bytes. So when a request begins to wait for a provider, its body
    is released: ``fields`` still has every name, but of the values only the short ones. A further attempt restores it.

    ``translate`` makes the fields from those of another language. ``original`` has these where a provider may speak it, too;
    otherwise it is None.
    """

    __slots__ = ("fields", "original", "_raw", "_is_released", "_translate", "_fill")

    def __init__(
        self,
        fields: dict[str, Any],
        raw: bytes | None = None,
        *,
        original: dict[str, Any] | None = None,
        translate: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        self.fields = fields
        self.original = original
        self._raw = raw
        self._is_released = False
        self._translate = translate
        self._fill: Callable[[RequestBody], None] | None = None

    def fill(self, fill: Callable[["RequestBody"], None]) -> None:
        """Call ``fill``, which puts into the fields what is not in the bytes, now and after each restoration."""
        self._fill = fill
        fill(self)

    @property
    def size_bytes(self) -> int:
        """The size of a body that is not small; otherwise 0."""
        return len(self._raw or b"")

    def release(self) -> None:
        """Keep the bytes, and of the values only short ones. Does nothing to a small body."""
        if self._raw is not None and not self._is_released:
            self.fields = {name: value if _is_short(value) else _RELEASED for name, value in self.fields.items()}
            self.original = None if self.original is None else {}
            self._is_released = True

    def restore(self) -> None:
        """Parse the bytes again, if the body is released."""
        if self._is_released and self._raw is not None:
            with large_work.turn(self.size_bytes):
                parsed = msgspec.json.decode(self._raw)
                self.original = None if self.original is None else parsed
                self.fields = self._translate(parsed) if self._translate else parsed
            self._is_released = False
            if self._fill:
                self._fill(self)

    def forget(self) -> None:
        """Release the body for good: no further attempt will be made."""
        self.release()
        self._raw, self._is_released, self._fill = None, False, None


def _is_short(value: Any) -> bool:
    if isinstance(value, dict | list):
        items = list(value.values()) if isinstance(value, dict) else value
        return len(items) <= _KEPT_MEMBERS_MAX and all(not isinstance(item, dict | list) and _is_short(item) for item in items)
    return not isinstance(value, str) or len(value) <= _KEPT_CHARACTERS_MAX


class ProviderPreferences(msgspec.Struct, frozen=True):
    """Which providers may answer, by slug: those of ``order`` first, only those of ``only`` if there are any, no ``ignore``.

    ``sort`` says what the others are ordered by. The maxima are nanodollars per million tokens, which a model may cost;
    ``min_quality`` is of 0 to 100, which the model that an alias stands for must have.

    Without ``allows_fallbacks`` only those of ``order`` are asked, or one provider where there is no order. With
    ``requires_parameters`` only those are asked that are sent every field. The last two are those of ``data_demands.Demand``.
    """

    order: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    sort: str | None = None
    max_input_nanos: int | None = None
    max_output_nanos: int | None = None
    min_quality: float | None = None
    allows_fallbacks: bool = True
    requires_parameters: bool = False
    data_policy: str = ""
    data_regions: tuple[str, ...] = ()

    @property
    def asks_one_provider(self) -> bool:
        return not self.allows_fallbacks and not self.order

    @property
    def bound_models(self) -> bool:
        return (self.max_input_nanos, self.max_output_nanos, self.min_quality) != (None, None, None)

    def allow_price(self, price: RateSheet, tier: str, prompt_tokens_max: int) -> bool:
        """Return whether a model of this price may answer: at the standard rates and at those of a tier, also a long prompt."""
        return all(
            maximum is None or price.rate(meter, each, tokens) <= maximum
            for meter, maximum in (("input", self.max_input_nanos), ("output", self.max_output_nanos))
            for each in ("", tier)
            for tokens in (0, prompt_tokens_max)
        )


class Labels(msgspec.Struct, frozen=True):
    """The caller's own labels of a request: the id of its end user, and tags by name. None: not said."""

    end_user: str | None = None
    tags: dict[str, str] | None = None


class Reasoning(msgspec.Struct, frozen=True):
    """How much the model is to reason: None where the request does not say. ``is_excluded``: the reply shows none of it.

    ``budget_tokens`` is for models that take one; ``effort`` is about as much, for the others. ``name`` is the caller's own
    name of the field, ``unheeded`` its members that no provider gets.
    """

    effort: str | None = None
    budget_tokens: int | None = None
    is_excluded: bool = False
    name: str = "reasoning_effort"
    unheeded: tuple[str, ...] = ()


class Inputs(msgspec.Struct, frozen=True):
    """The inputs of a request for embeddings: ``number`` texts, or lists of tokens where ``are_tokens``.

    ``is_single``: the field has one of them, and not a list of them. ``dimensions``, of each embedding: None for as many as the
    model makes.
    """

    number: int
    is_single: bool = False
    are_tokens: bool = False
    dimensions: int | None = None
    as_base64: bool = False


class ChatRequest(msgspec.Struct, frozen=True):
    """A validated request. ``fields`` is the body as received, for providers that understand more fields than we check.

    While the request waits for a provider, the body may be released: then its ``messages`` must not be read.

    ``prompt_tokens_max`` bounds the tokens of the prompt's text: of the messages, and of every other field that a provider
    may add to the prompt. With ``has_preamble`` a provider adds instructions of its own (``Offer.preamble_tokens_max``).
    """

    model: str
    body: RequestBody
    max_tokens: int | None
    stream: bool
    include_usage: bool
    prompt_tokens_max: int
    has_null_usage: bool = False  # in the chunks before the usage, as OpenAI's have it; OpenRouter's clients refuse null
    max_tokens_field: str = "max_tokens"  # which of its two names the request used
    max_tokens_name: str = "max_tokens"  # the caller's own name of it; empty where no tokens are generated
    is_max_tokens_ceiling: bool = False  # a model that cannot generate as many is asked for as many as it can
    has_preamble: bool = False
    choices: int = 1
    fallbacks: tuple[tuple[int, str], ...] = ()  # models that may answer instead, each with its index in ``models``
    contents: Contents = Contents()
    wants_hour_cache: bool = False  # it marks what a cache is to keep for an hour
    provider_preferences: ProviderPreferences | None = None
    betas: tuple[str, ...] = ()  # of Anthropic's API, that the caller wants
    block_fields: frozenset[str] = frozenset()  # inside of Anthropic's blocks and tools, that not every provider takes
    messages_only_at: str = ""  # the first field that only a provider takes that speaks Anthropic's Messages
    web_search_at: str = ""  # the first field that has the provider search the web
    web_searches_max: int = 0
    web_search: dict[str, Any] | None = None  # the tool in the words of OpenAI's Responses, where the request speaks these
    takes_custom_as_functions: bool = False  # see ``completions.providers.custom_tools``
    has_unsigned_thinking: bool = False  # in Anthropic's blocks: of other makers' models
    labels: Labels = Labels()
    reasoning: Reasoning = Reasoning()
    tier: str = ""  # the service tier that it asks for, of those that have rates of their own
    names_standard_tier: bool = False  # and no other may serve; else a request without a tier leaves it to the provider
    inputs: Inputs | None = None  # of a request for embeddings, which has no messages and generates no tokens

    def max_tokens_of(self, offer: "Offer") -> int | None:
        """Return the tokens that the caller wants from the model of an offer; None where it does not say."""
        if self.max_tokens is None or not self.is_max_tokens_ceiling:
            return self.max_tokens
        return min(self.max_tokens, offer.max_output_tokens)

    @property
    def messages_body(self) -> dict[str, Any] | None:
        """The checked body of a request in Anthropic's Messages, which is released with the fields; None of one in ours."""
        return self.body.original

    fields = property(attrgetter("body.fields"))  # in C: it is read often

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body.fields["messages"]
        return messages


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ModelRules(msgspec.Struct, frozen=True):
    """The rules of a provider for a model. The defaults refuse nothing; ``providers.model_rules`` has the known models.

    ``forced_tools``: a choice of tools may force a call; with ``thinks_when_forced`` of a model that thinks, too.
    ``thinks_unasked``: it thinks, or may, where nothing is said. ``thinking_off``: what keeps it from that; "between_tools"
    only before its reply, "" nothing. ``off_effort_max``: the highest effort beside that. ``efforts``: the levels it takes.
    ``budget_min`` and ``budget_max``, in tokens of thinking; a maximum of 0: it takes no budget. ``adaptive``: it decides
    itself how much it thinks. ``sampling``: which of temperature and top_p it takes. ``penalties``: of frequency and presence.
    ``prefill``: it continues a last message of the assistant. ``system_messages``: in the middle of a conversation.
    ``call_ids``: it wants the ids back that it gave its calls. ``json_schemas``: recursive ones, of tools and of the reply.
    """

    forced_tools: bool = True
    thinks_when_forced: bool = True
    thinks_unasked: bool = False
    thinking_off: Literal["", "disabled", "between_tools"] = "disabled"
    off_effort_max: Effort = "max"
    efforts: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    budget_min: int = 0
    budget_max: int = 0
    adaptive: bool = False
    sampling: Literal["all", "one", "unless_thinking", "none"] = "all"
    penalties: bool = True
    prefill: bool = True
    system_messages: bool = True
    call_ids: bool = True
    json_schemas: bool = True


NO_RULES = ModelRules()


class Proof(Protocol):
    """Proves to a provider who asks: an access key that expires, or a signer."""

    @property
    def secrets(self) -> tuple[str, ...]: ...

    @property
    def hint(self) -> str:
        """Return words that may explain why a provider does not accept it."""

    def headers(self, method: str, url: str, body: bytes) -> dict[str, str]:
        """Return the headers that prove it for exactly this request."""


class Credential(Protocol):
    """Has a proof while there is one. ``completions.providers.access.keeper`` keeps it."""

    def proof(self) -> Proof:
        """Raises CredentialUnavailable."""

    def renew(self, refused: Proof) -> bool:
        """Return whether there is another proof now than the one that the provider refused."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the requests of a route go: for a whole reply and for a stream, with headers that include the provider's key.

    ``credential``: the key is another one from time to time, and not among the headers. ``instead_of_model``: the fields of
    a body whose address has the model's name. ``show_key``: the headers that show a given key. The rest is what
    ``access.platforms`` says.
    """

    url: str = ""
    stream_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    credential: Credential | None = None
    instead_of_model: Mapping[str, str] | None = None
    lacks: frozenset[str] = frozenset()
    betas: Mapping[str, str] | None = None
    tier_header: str = ""
    show_key: Callable[[str], Mapping[str, str]] | None = None


class Promise(msgspec.Struct, frozen=True):
    """How a provider treats the data of requests. None or "": it is not known.

    ``retention_days``: how long it keeps prompts and replies, 0: no longer than it works on them. ``trains``: models are
    trained on them. ``region``: where they are processed, as a code of two letters, or "global" for anywhere.
    """

    retention_days: int | None = None
    trains: bool | None = None
    region: str = ""

    def __str__(self) -> str:
        """Return what is known, in words: "kept for 30 days, not trained on, processed in eu"."""
        kept = "not kept" if self.retention_days == 0 else f"kept for {self.retention_days} days"
        known = {kept: self.retention_days, "trained on" if self.trains else "not trained on": self.trains}
        words = [word for word, fact in known.items() if fact is not None]
        return ", ".join([*words, *([f"processed in {self.region}"] if self.region else [])])


@dataclass(frozen=True, slots=True)
class Route:
    """One way to reach a model: a provider, and the model's name there. ``kind`` is that of its adapter."""

    id: int
    provider_slug: str
    kind: str
    base_url: str
    api_key: str
    upstream_model: str
    deadlines: Deadlines
    priority: int = 1
    weight: int = 1
    hinted_until: float = 0.0  # by the monotonic clock: until then a circuit for it is open in some process, as its row says
    key_fingerprint: str = ""  # of the provider's key and address
    passes_unknown_fields: bool = False  # the operator's own server: it gets every field of a request
    is_key_refused: bool = False  # the provider refused this key: this route is there to be probed
    probed_from: float = 0.0  # by the monotonic clock: then it may be, at the earliest
    cancels: bool = False  # the provider stops charging when the connection is closed
    rules: ModelRules = NO_RULES
    target: Target = Target()
    promise: Promise = Promise()
    takes_own_keys: bool = False
    own_key_id: str = ""  # of the account's own key, which it shows instead of ours
    counts_price: bool | None = None  # whether limits and budgets count the provider's price; None: it shows ours
    metrics_label: str = ""  # instead of the provider, whose figures are those of our key


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that an alias may stand for now, with its quality of 0 to 100 in the ranking: None when it was never tested."""

    model_id: str
    price: RateSheet
    quality: float | None


@dataclass(frozen=True, slots=True)
class Offer:
    """The offer under a model id now: its price, its limits, and the routes to it.

    ``preamble_tokens_max`` is the most tokens a provider of one of the routes adds to a prompt with tools, or with a format for
    the reply. With ``own_key_fee`` its routes show own keys of the account, and only so many basis points are charged.
    """

    model_id: str
    context_window: int
    max_output_tokens: int
    image_support: bool
    image_tokens_max: int
    function_calling: bool
    price_id: int
    price: RateSheet
    routes: tuple[Route, ...]
    preamble_tokens_max: int = 0
    alias: str = ""  # the id in the request, when it is an alias of this model
    ranking: str = ""  # the alias as it was on the day of its ranking: an id that keeps its meaning
    candidates: tuple[Candidate, ...] = ()  # what the alias may stand for, the best first
    reasoning: bool | None = None  # whether the model reasons unseen, if not told otherwise; None: only when asked
    requests_in_flight_max: int | None = None  # of each key; None: as many as the key may have for all models
    is_embedding: bool = False  # it makes embeddings, and writes no text
    own_key_fee: int | None = None


class ResponseHead(msgspec.Struct):
    """The head of a provider's response: whether it is there, and what it says for the record. None: it says nothing.

    ``patience`` ends the wait for a whole reply that another provider may give; None: it is waited for as long as it takes.
    ``served_tier`` and ``unrated_tier`` are what its body says: the service tier that served, of those that have rates, and
    the provider's word for one that has none.
    """

    has_arrived: bool = False
    request_id: str | None = None
    patience: Deadline | None = None
    served_tier: str | None = None
    unrated_tier: str = ""
    proof: Proof | None = None  # that was shown


# Told how many seconds a read of a stream occupied the process, it may wait before the next one.
Pace = Callable[[float], None]


def no_pace(seconds: float) -> None:
    """Never wait."""


class Call(msgspec.Struct, frozen=True):
    """One request to one provider. ``max_tokens`` is what the hold pays for, so it is always sent."""

    request: ChatRequest
    offer: Offer
    route: Route
    max_tokens: int
    until: float = math.inf  # the deadline of all attempts together, by the monotonic clock
    client: Any = None  # the client's socket, where the server shows it
    head: ResponseHead = msgspec.field(default_factory=ResponseHead)  # of the latest attempt
    pace: Pace = no_pace
    account_id: UUID | None = None  # of the caller
    keeps_nothing: bool = False  # as ``Admitted`` says
    opened_seals: dict[str, Any] = msgspec.field(default_factory=dict)  # what is in them, until the request is sent


class WholeReply(msgspec.Struct, frozen=True):
    """A whole reply: OpenAI's ``choices`` as parsed JSON; ``usage`` is None when the provider reported none, or nonsense.

    ``message`` is the provider's own object, where the request and the provider speak Anthropic's Messages; otherwise None.
    ``unknown_finish_reason`` is the provider's word, where it is none that the gateway knows.
    ``embeddings`` are what a request for embeddings gets instead of choices, in the order of its inputs: arrays of doubles,
    because lists of floats take four times as much memory.
    """

    choices: list[dict[str, Any]]
    usage: Usage | None
    text_bytes: int
    message: dict[str, Any] | None = None
    unknown_finish_reason: str = ""
    embeddings: list["array[float]"] = msgspec.field(default_factory=list)


class Chunk(msgspec.Struct, frozen=True):
    """A piece of a stream: OpenAI's ``choices`` as JSON bytes, ready to be sent.

    ``text_bytes`` is the size of its generated text, for an estimate if the provider never reports usage. A chunk with
    ``usage`` has no choices. ``event`` is the provider's own event, where the request and the provider speak Anthropic's
    Messages; otherwise None.
    """

    choices: bytes
    text_bytes: int = 0
    has_finish_reason: bool = False
    usage: Usage | None = None
    event: dict[str, Any] | None = None
