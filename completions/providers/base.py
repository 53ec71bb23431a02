"""The interface of a provider: reply whole, reply in chunks, and fail in one way."""

from collections.abc import Generator, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from functools import partial
from typing import Any

from completions.chat import Call, ChatRequest, Chunk, Route, Target, WholeReply
from completions.request.fields import refuse
from gateway_project import errors


class FailureKind(Enum):
    """The consequence of a failed attempt for a further one."""

    RETRYABLE = "the same provider may answer a moment later"
    ROUTE_UNUSABLE = "this provider will not answer: try another route"
    SILENT = (
        "this provider has the request and does not begin to answer: try another route, although it may charge for this one"
    )
    CREDENTIAL_RENEWED = "it refused a credential that has a successor now: ask it once more"
    LOCAL_FAULT = "this host cannot connect to this provider, which says nothing about it: try another route"
    INVALID_REQUEST = "no provider would answer this request"
    SHUTTING_DOWN = "this worker is being stopped"
    CLIENT_DISCONNECTED = "the client no longer waits for a reply"


NO_CREDENTIAL = 0  # instead of a status, of a provider that could not be asked


@dataclass(eq=False, repr=False)
class ProviderFailed(Exception):
    """A failed attempt: the provider sent no reply, or not all of it.

    ``error`` is what the caller is told. ``provider_worked``: the provider sent a 2xx status, and its reply was readable from
    the start; or it had the request until a deadline that ends all waiting. Then inference began, and no other one is asked.
    ``is_cut_off``: it had begun, and the gateway closed the connection at a deadline or a bound, so it may have gone on.
    ``unread_bytes`` is the size of a whole reply that its request made too large. ``wait_seconds`` is the provider's
    Retry-After, if it gave one. ``key_refusal`` is the provider's status and reason where it refuses our key or account,
    or NO_CREDENTIAL and why there is none.
    ``is_scripted``: the request told the provider to fail, which says nothing about the provider.
    ``status`` is the provider's, if it sent one. ``reason`` may be kept: without one it is what the caller is told, unless that
    has the provider's words about the request.
    """

    error: errors.ApiError
    _: KW_ONLY
    provider_worked: bool
    kind: FailureKind = FailureKind.ROUTE_UNUSABLE
    is_cut_off: bool = False
    unread_bytes: int = 0
    wait_seconds: float | None = None
    key_refusal: tuple[int, str] | None = None
    is_scripted: bool = False
    status: int | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        super().__init__(self.error.message)
        self.reason = "" if self.error.quotes_request else self.reason or self.error.message


class Adapter:
    """One kind of provider. It keeps no state between calls: one instance serves all concurrent requests of a process.

    ``preamble_tokens_max``: the most tokens that it bills for its own words in a prompt with tools or a format for the reply.
    ``speaks_messages``: it is sent a request in Anthropic's Messages as it came, with Anthropic's own tools.
    ``speaks_responses``: it is sent the search of the web that a request in OpenAI's Responses asks for.
    """

    preamble_tokens_max = 0
    speaks_messages = False
    speaks_responses = False

    def target(self, provider: str, base_url: str, api_key: str, access: Mapping[str, Any], model: str) -> Target:
        """Return where a model at a provider is asked, whose ``access`` is that of its row in the catalog."""
        return Target()

    def check(self, request: ChatRequest) -> None:
        """Raise InvalidRequest for a request that this provider cannot fulfil. Called before any money is held."""

    def ignored_fields(self, call: Call) -> list[str]:
        """Return the request's fields that the provider is sent in no form, none deeper than "messages.<field>"."""
        return []

    def takes_tiers(self, route: Route) -> bool:
        """Return whether the provider of a route is sent the service tier that a request asks for."""
        return False

    def switches_reasoning_off(self, call: Call) -> bool:
        """Return whether the request keeps a model that reasons of itself from it; in doubt False. The body may be released.

        Here no model reasons: each adapter of models that do says it itself.
        """
        return True

    def complete(self, call: Call) -> WholeReply:
        """Return the whole reply, or as many embeddings as there are inputs, in their order. Raises ProviderFailed."""
        raise NotImplementedError

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        """Yield the reply as it arrives: one list of chunks for each read, and an empty list when a heartbeat is due, or
        when it has not begun by the deadline to begin.

        Raises ProviderFailed, also in the middle, and ends only after a finish reason. Closing it frees the connection.
        """
        raise NotImplementedError


def refuse_unsupported(request: ChatRequest, *names: str) -> None:
    """Refuse several choices, and these fields, for a provider that has neither. Raises InvalidRequest."""
    if request.choices > 1:
        refuse("n", "must be 1 for this model")
    for name in names:
        if request.fields.get(name):
            refuse(name, "is not supported by this model")


# --- Errors for the caller --------------------------------------------------------------------------------------
# What may be repeated says "try again later" or "overloaded": opencode goes by such words, in whatever format it reads them.


def status_error(
    status: int, reason: str = "", headers: dict[str, str] | None = None, *, code: str | None = None, param: str | None = None
) -> errors.ApiError:
    """Return the error for a provider's status that is not 2xx. A 401, 402 or 403 is about our account: it is not passed on.

    ``reason``, the provider's message, is passed on when the request is invalid, with its ``code`` and its ``param``;
    ``headers`` when the caller may retry.
    """
    if status in (400, 413, 422):
        message = f"The model's provider refused the request: {reason or 'no reason given'}"
        error = errors.InvalidRequest(message, param=param, quotes_request=True)
        error.code = code or error.code
        return error
    if status in (429, 503, 529):
        return overloaded(headers=headers)
    if status in (408, 504):
        return timed_out()
    return errors.UpstreamFailed("The model's provider failed. Try again later.")


RETRYABLE_STATUSES = (408, 409, 425, 429)  # beside those from 500 on: what failed may be temporary


def failure_kind(status: int) -> FailureKind:
    """Return what a provider's status that is not 2xx says about a further attempt."""
    if status in (400, 413, 422):
        return FailureKind.INVALID_REQUEST
    return FailureKind.RETRYABLE if status in RETRYABLE_STATUSES or status >= 500 else FailureKind.ROUTE_UNUSABLE


def shutting_down(*, provider_worked: bool) -> ProviderFailed:
    """Return the failure of every request that waits for a provider when its worker must end."""
    error = errors.ServiceUnavailable("The gateway is being restarted. Try again.")
    return ProviderFailed(error, provider_worked=provider_worked, kind=FailureKind.SHUTTING_DOWN)


def silent() -> ProviderFailed:
    """Return the failure of a stream that did not begin in time."""
    return ProviderFailed(timed_out(), provider_worked=False, kind=FailureKind.SILENT, reason="TimedOut: no head in time")


def client_disconnected(*, provider_worked: bool) -> ProviderFailed:
    """Return the failure of a request whose client disconnected. Only the log shows it."""
    error = errors.RequestTimeout("The caller left before the reply came.")
    return ProviderFailed(error, provider_worked=provider_worked, kind=FailureKind.CLIENT_DISCONNECTED)


overloaded = partial(errors.UpstreamOverloaded, "The model's provider is overloaded.")
refusing = partial(errors.UpstreamNotAsked, "The model's provider takes no requests of this gateway at the moment.")
failing = partial(
    errors.UpstreamNotAsked, "The gateway does not ask the model's provider at the moment, because requests to it failed."
)
unreachable = partial(errors.UpstreamFailed, "The model's provider cannot be reached. Try again later.")
not_connectable = partial(errors.UpstreamFailed, "The gateway cannot connect to the model's provider. Try again later.")
timed_out = partial(errors.UpstreamTimeout, "The model's provider did not answer in time. Try again later.")
unreadable = partial(errors.UpstreamFailed, "The model's provider sent no readable reply. Try again later.")
broke_off = partial(errors.UpstreamFailed, "The model's provider broke off its reply. Try again later.")
