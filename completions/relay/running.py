"""One completion that runs: what is known of its attempts, and what follows from the latest one."""

import random
import time
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from django.conf import settings

from completions import providers
from completions.charging import idempotency
from completions.charging.admission import Admitted
from completions.charging.records import FailedAttempt, ServedBy
from completions.charging.stored_responses import ResponseRecord
from completions.chat import Call, Chunk, Route
from completions.pricing.usage import Usage
from completions.providers import ignored_fields
from completions.providers.base import ProviderFailed
from completions.relay import circuit_breaker, fair_queue
from completions.request import reasoning
from gateway_project import metrics
from gateway_project.text import dollars

ChunkStream = Generator[list[Chunk], None, None]

# An account that is alone at a provider that hangs must not be refused all others at once, nor be able to burn work for ever.
_SILENT_ROUTE_DIVISOR = 4


@dataclass(frozen=True, slots=True)
class LateStream:
    """A stream that was given up because it did not begin in time, and that may still be read on."""

    call: Call
    chunks: ChunkStream
    unpaid_nanos: int  # what its provider may charge, at most


@dataclass(slots=True)
class Running:
    """One completion, from admission to settlement. ``call`` is the latest attempt, ``client`` the client's socket if known."""

    admitted: Admitted
    client: Any = None
    calls: list[Call] = field(init=False)  # one for each route, in the order of their first attempts
    call: Call = field(init=False)
    further: deque[Call] = field(default_factory=deque)  # those that are not attempted yet, and those to be attempted again
    attempts: int = 0
    attempts_max: int = 0
    charged_nanos: int | None = None  # set when it is settled
    provider_nanos: int | None = None  # the provider's price, set before it is settled; None where no own key served
    response: ResponseRecord | None = None  # to be stored for later requests
    stores_reply: bool = True  # for retries under its Idempotency-Key, if it has one
    has_replied: bool = False  # before it runs: that reply is stored for retries
    attempted_at: float = 0.0  # by the monotonic clock: when the latest attempt began
    first_text_at: float | None = None
    last_text_at: float | None = None
    failed_attempts: list[FailedAttempt] = field(default_factory=list)
    is_kept_out: bool = False  # no provider was asked: the circuits of all routes were open
    late: LateStream | None = None
    late_nanos: int = 0  # of the replies that were given up: counts against the account if nothing else is charged
    unseen_nanos: int = 0  # of a reply that was cut off before its caller saw it: counts against the account
    unknown_finish_reason: str = ""  # of a whole reply: its provider's word, which is no reason that the gateway knows
    ignored_fields: list[str] = field(default_factory=list)  # that the latest attempt's provider was not sent

    account_id = property(attrgetter("admitted.completion.account_id"))

    def __post_init__(self) -> None:
        self.stores_reply = not self.admitted.keeps_nothing
        self.calls = _build_calls(self.admitted, self.client)
        self.call = self.calls[0]

    @property
    def served_by(self) -> ServedBy:
        offer, route, head = self.call.offer, self.call.route, self.call.head
        times_ms: tuple[int | None, int | None] = None, None  # to the first text, and from there to the last
        if (first_at := self.first_text_at) is not None and self.last_text_at is not None:
            times_ms = round((first_at - self.attempted_at) * 1000), round((self.last_text_at - first_at) * 1000)
        failed = self.failed_attempts or ([] if self.is_kept_out else None)
        promised = msgspec.structs.asdict(route.promise) if self.admitted.completion.data_demanded else None
        by = offer.model_id, offer.price_id, route.provider_slug, self.attempts, *times_ms, failed, head.request_id
        return ServedBy(*by, promised, offer.own_key_fee, route.counts_price)

    @property
    def freed_nanos(self) -> int:
        if self.charged_nanos is None:
            return 0
        freed_nanos = self.admitted.held_nanos + self.admitted.completion.provider_held_nanos - self.charged_nanos
        return max(freed_nanos - (self.provider_nanos or 0), 0) if self.call.route.counts_price else freed_nanos

    @property
    def is_cancellable(self) -> bool:
        """Whether the provider's connection is closed when the client leaves, because that ends what it charges.

        Not while a model reasons, as the amount would be unknown, nor where the client may ask again under its Idempotency-Key.
        """
        if not self.call.route.cancels or self.admitted.idempotency_key:
            return False
        return self.call.offer.reasoning is False and not reasoning.is_asked_for(self.call.request.fields)

    @property
    def reasons(self) -> bool:
        """Whether the model is known to generate tokens that its reply does not show: of itself, or because it was asked to."""
        if self.call.offer.reasoning is False:  # it cannot, whatever it is asked
            return False
        is_asked_for = reasoning.is_asked_for(self.call.request.fields)
        if is_asked_for is False and self.call.offer.reasoning:  # not every provider can keep the model from it, or is told to
            return not providers.ADAPTERS[self.call.route.kind].switches_reasoning_off(self.call)
        return bool(self.call.offer.reasoning or is_asked_for)

    @property
    def tier(self) -> str:
        """The service tier of an estimate: what the latest attempt's provider says, else what was asked for."""
        served = self.call.head.served_tier
        return self.call.request.tier if served is None else served

    @property
    def completion_tokens_max(self) -> int:
        """The tokens that the hold pays for at the latest attempt."""
        return self.admitted.request.choices * self.call.max_tokens

    @property
    def is_max_tokens_reduced(self) -> bool:
        request = self.admitted.request
        return request.is_max_tokens_ceiling and self.call.max_tokens < (request.max_tokens or 0)

    def reply_headers(self) -> dict[str, str]:
        """Return the headers of the reply that say how it was served, as far as they are known when it begins."""
        headers = {
            "x-gateway-provider": self.call.route.provider_slug,
            "x-gateway-attempts": str(self.attempts),
            "x-gateway-max-cost": dollars.format_plain(self.admitted.held_nanos),
        }
        if self.failed_attempts:
            headers["x-gateway-failed-providers"] = ", ".join([attempt["provider"] for attempt in self.failed_attempts])
        if self.call.route.own_key_id:
            headers["x-gateway-own-key"] = "used"
        elif self.failed_attempts and any(["own_key" in failed for failed in self.failed_attempts]):  # noqa: C419  faster
            headers["x-gateway-own-key"] = "fallback"
        elif self.admitted.leaves_out_own_key:
            headers["x-gateway-own-key"] = "unmet"
        if self.call.offer.ranking:
            headers["x-gateway-ranking"] = self.call.offer.ranking
        if self.charged_nanos is not None:
            headers["x-gateway-cost"] = dollars.format_plain(self.charged_nanos)
        if self.admitted.idempotency_key and not self.stores_reply:
            headers[idempotency.NOT_STORED_HEADER] = "false"
        if self.is_max_tokens_reduced:
            headers["x-gateway-max-tokens"] = str(self.call.max_tokens)
        if self.ignored_fields:
            headers["x-gateway-ignored-fields"] = ignored_fields.header_value(self.ignored_fields)
        if self.unknown_finish_reason:
            headers["x-gateway-finish-reason"] = ignored_fields.header_value([self.unknown_finish_reason])
        return headers

    def record_text(self) -> None:
        self.last_text_at = time.monotonic()
        self.first_text_at = self.first_text_at or self.last_text_at

    def record_failure(self, failure: ProviderFailed) -> None:
        route, reason = self.call.route, "" if self.admitted.keeps_nothing else failure.reason  # it may quote the request
        failed = FailedAttempt(provider=route.provider_slug, status=failure.status, reason=reason)
        if route.own_key_id:
            failed["own_key"] = True
        self.failed_attempts.append(failed)

    def abandon(self, failure: ProviderFailed) -> None:
        """Leave the latest attempt, although its provider may be at work, for one more. Its cost is the operator's loss."""
        self.attempts_max = min(self.attempts_max, self.attempts + 1)
        is_unseen = failure.is_cut_off and (self.reasons or not self.admitted.request.stream)
        unpaid_nanos = self._unpaid_nanos(is_unseen=is_unseen)
        metrics.record_provider_loss(self.call.route.provider_slug, unpaid_nanos)
        self.late_nanos += self.accountable_nanos(unpaid_nanos)
        failure.provider_worked = False  # what it may charge is counted

    def accountable_nanos(self, lost_nanos: int) -> int:
        """Return what counts of the latest attempt's loss against the account: less, the more the provider seems at fault."""
        route = self.call.route
        if route.own_key_id or circuit_breaker.fails_for_several(route):
            return 0
        if circuit_breaker.has_succeeded_since(route, self.attempted_at):
            return lost_nanos
        return lost_nanos // _SILENT_ROUTE_DIVISOR

    def _unpaid_nanos(self, *, is_unseen: bool) -> int:
        """Return what the provider of the latest attempt may charge us: for all tokens of the hold if none was seen."""
        if self.call.route.own_key_id:
            return 0
        completion = self.admitted.completion
        tokens = self.completion_tokens_max if is_unseen else 0
        usage = Usage(completion.prompt_estimate, tokens, tier=self.tier)
        return self.call.offer.price.cost_nanos(usage, completion.images)

    def give_up(self, call: Call, stream: ChunkStream) -> None:
        """Keep a stream that did not begin in time, until it is known whether another provider answers."""
        self.drop_late()
        self.late = LateStream(call, stream, self._unpaid_nanos(is_unseen=self.reasons))
        if self.admitted.idempotency_key is None:  # only a repetition could get its reply
            stream.close()

    def drop_late(self) -> None:
        """Close a stream that was given up. It is a loss, and counts against the account unless others fail there, too."""
        if self.late:
            self.late.chunks.close()
            metrics.record_provider_loss(self.late.call.route.provider_slug, self.late.unpaid_nanos)
            if not circuit_breaker.fails_for_several(self.late.call.route):
                self.late_nanos += self.late.unpaid_nanos
            self.late = None


def _build_calls(admitted: Admitted, client: Any) -> list[Call]:
    until = time.monotonic() + settings.UPSTREAM_TOTAL_SECONDS
    completion = admitted.completion
    pace = partial(fair_queue.process_queue.spend, completion.key_id)
    calls: dict[int, Call] = {}  # by route: an alias may stand for a model that the request also names
    preferences = admitted.request.provider_preferences
    for offered in admitted.admitted_offers:
        routes = in_order(offered.offer.routes)
        if preferences and preferences.asks_one_provider:
            routes = [min(routes, key=circuit_breaker.stands_back)]
        for route in routes:
            asked = admitted.request, offered.offer, route, offered.max_tokens, until, client
            call = Call(*asked, pace=pace, account_id=completion.account_id, keeps_nothing=admitted.keeps_nothing)
            calls.setdefault(route.id, call)
    return list(calls.values())


def in_order(routes: tuple[Route, ...]) -> list[Route]:
    """Sort routes by priority. Within a priority the order is random: each is first as often as its weight says."""
    if len(routes) == 1:
        return [*routes]
    return sorted(routes, key=lambda route: (route.priority, -(random.random() ** (1 / route.weight))))  # noqa: S311
