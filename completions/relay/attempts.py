"""Dispatches one completion to its upstream routes: one after another, and again where a retry may help, until one answers.

However many attempts that takes, the client sees one completion: one hold, one charge, one deadline. A further attempt is made
only before the first byte of a reply. A later failure is passed on to the client.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from operator import attrgetter
from types import TracebackType
from typing import Any, TypeVar

import gevent
from django.conf import settings

from completions import providers
from completions.charging import idempotency
from completions.charging.admission import Admitted
from completions.charging.records import FailedAttempt, ServedBy
from completions.charging.stored_responses import ResponseRecord
from completions.chat import Call, Chunk, Route, Usage, WholeReply
from completions.pricing import cost
from completions.providers import base, exchange, ignored_fields
from completions.providers.base import FailureKind, ProviderFailed
from completions.providers.exchange import UnusableResponse
from completions.relay import circuit_breaker, fair_queue, local_faults, new_accounts, provider_keys
from completions.request import reasoning
from gateway_project import errors, metrics
from gateway_project.net import disconnects, draining, http
from gateway_project.text import dollars

Outcome = TypeVar("Outcome")
ChunkStream = Generator[list[Chunk], None, None]

_WAIT_SECONDS_MAX = 2  # for an upstream that sends Retry-After; a longer wait is left to the client
_PAUSE_SECONDS = 0.2  # before a retry of an upstream that sends none; up to twice as long, so that retries spread out
_TIMER_SECONDS = 0.01  # a timer may fire this much too early
# No further attempt helps after these, and they say nothing about the route.
_FINAL = (FailureKind.INVALID_REQUEST, FailureKind.SHUTTING_DOWN, FailureKind.CLIENT_DISCONNECTED)


@dataclass(frozen=True, slots=True)
class LateStream:
    """A stream that was given up because it did not begin in time, and that may still be read on."""

    call: Call
    chunks: ChunkStream
    unpaid_nanos: int  # what its provider may charge, at most


@dataclass(slots=True)
class Dispatch:
    """One completion being dispatched to upstreams. ``call`` is the latest attempt: the one that answered, if any did.

    ``client`` is the client's socket where the server shows it. No attempt begins for a client that has disconnected. One that
    has begun goes on, because its provider will charge for it, unless the provider cancels.
    """

    admitted: Admitted
    client: Any = None
    call: Call = field(init=False)
    attempts: int = 0
    charged_nanos: int | None = None  # set when it is settled
    response: ResponseRecord | None = None  # to be stored for later requests
    stores_reply: bool = True  # for retries under its Idempotency-Key, if it has one
    has_replied: bool = False  # before it runs: that reply is stored for retries
    attempted_at: float = 0.0  # by the monotonic clock: when the latest attempt began
    first_text_at: float | None = None
    last_text_at: float | None = None
    failed_attempts: list[FailedAttempt] = field(default_factory=list)
    is_kept_out: bool = False  # no provider was asked: the circuits of all routes were open
    late: LateStream | None = None
    late_nanos: int = 0  # of the streams that were given up: counts against the account if nothing else is charged
    unseen_nanos: int = 0  # of a reply that was cut off before its caller saw it: counts against the account
    ignored_fields: list[str] = field(default_factory=list)  # that the latest attempt's provider was not sent

    _account_id = property(attrgetter("admitted.completion.account_id"))

    def __post_init__(self) -> None:
        self.call = self._calls()[0]

    @property
    def served_by(self) -> ServedBy:
        """What is known of the model and the provider that answer, for the completion's record."""
        offer, provider_slug = self.call.offer, self.call.route.provider_slug
        first_token_ms, streamed_ms = self._durations_ms()
        failed = self.failed_attempts or ([] if self.is_kept_out else None)
        return ServedBy(
            offer.model_id,
            offer.price_id,
            provider_slug,
            self.attempts,
            first_token_ms,
            streamed_ms,
            failed,
            self.call.head.request_id,
        )

    @property
    def is_cancellable(self) -> bool:
        """Whether the upstream's connection is closed when the client disconnects, because that ends what the provider charges.

        What a model reasons is never cancelled: nobody could tell how much of it was done. Neither is a reply that the client
        may ask for again under its Idempotency-Key.
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
    def completion_tokens_max(self) -> int:
        """The tokens that the latest attempt may generate: the hold pays for no more."""
        return self.admitted.request.choices * self.call.max_tokens

    @property
    def is_max_tokens_reduced(self) -> bool:
        """Whether the model is asked for fewer tokens than the caller wanted, because it cannot generate as many."""
        request = self.admitted.request
        return request.is_max_tokens_ceiling and self.call.max_tokens < (request.max_tokens or 0)

    def record_text(self) -> None:
        """Note the time: generated text has arrived."""
        self.last_text_at = time.monotonic()
        self.first_text_at = self.first_text_at or self.last_text_at

    def record_failure(self, failure: ProviderFailed) -> None:
        """Note how the latest attempt failed, for the completion's record."""
        provider_slug = self.call.route.provider_slug
        self.failed_attempts.append({"provider": provider_slug, "status": failure.status, "reason": failure.reason})

    def _durations_ms(self) -> tuple[int, int] | tuple[None, None]:
        """Return the time to the first text, and the time from there to the last text."""
        if self.first_text_at is None or self.last_text_at is None:
            return None, None
        return round((self.first_text_at - self.attempted_at) * 1000), round((self.last_text_at - self.first_text_at) * 1000)

    def headers(self) -> dict[str, str]:
        """Return the reply headers about the dispatch, as far as they are known when the reply begins.

        The provider is the one of the latest attempt: the one that answered, if any did.
        """
        headers = {
            "x-gateway-provider": self.call.route.provider_slug,
            "x-gateway-attempts": str(self.attempts),
            "x-gateway-max-cost": dollars.format_plain(self.admitted.held_nanos),
        }
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
        return headers

    def complete(self) -> WholeReply:
        """Return a whole reply. Raises ProviderFailed."""
        return self._first_success(self._complete)

    def stream(self) -> tuple[list[Chunk], ChunkStream]:
        """Return the first chunks of a stream, and the stream of the others. Raises ProviderFailed."""
        return self._first_success(self._start_stream)

    def _first_success(self, send: Callable[[Call], Outcome]) -> Outcome:
        calls = deque(self._calls())
        if len(calls) > 1:
            calls = deque(sorted(calls, key=lambda call: circuit_breaker.stands_back(call.route)))
        failures = dict[int, ProviderFailed]()  # by route: each is attempted twice at most
        while calls and self.attempts < settings.UPSTREAM_ATTEMPTS_MAX and time.monotonic() < calls[0].until:
            if disconnects.has_disconnected(self.client):
                raise base.client_disconnected(upstream_worked=False)
            call = calls.popleft()
            earlier = failures.get(call.route.id)
            if earlier and not self._wait_for_retry(call, earlier):
                continue
            try:
                with new_accounts.turn(call.route, self._account_id, self.client, is_new=self.admitted.is_new_account):
                    if not self._may_be_asked(call.route):
                        continue
                    return self._attempt(call, send)
            except ProviderFailed as error:
                if error.upstream_worked or error.kind in _FINAL:
                    raise
                if error.kind is FailureKind.RETRYABLE and earlier is None:
                    calls.append(call)
                failures[call.route.id] = error
        raise _most_useful(list(failures.values())) or self._none_may_be_asked()

    def _calls(self) -> list[Call]:
        """Return one call for each route, in the order in which they are attempted."""
        until = time.monotonic() + settings.UPSTREAM_TOTAL_SECONDS
        completion = self.admitted.completion
        pace = partial(fair_queue.process_queue.spend, completion.key_id)
        calls: dict[int, Call] = {}  # by route: an alias may stand for a model that the request also names
        preferences = self.admitted.request.provider_preferences
        for offered in self.admitted.admitted_offers:
            routes = in_order(offered.offer.routes)
            if preferences and preferences.asks_one_provider:
                routes = [min(routes, key=circuit_breaker.stands_back)]
            for route in routes:
                call = Call(
                    self.admitted.request,
                    offered.offer,
                    route,
                    offered.max_tokens,
                    until,
                    self.client,
                    pace=pace,
                    account_id=completion.account_id,
                )
                calls.setdefault(route.id, call)
        return list(calls.values())

    def _may_be_asked(self, route: Route) -> bool:
        """Ask the circuit before the key: a request that it refuses does not use up the one that probes a refused key."""
        if local_faults.wait_seconds(route) > 0:
            return False
        if not circuit_breaker.allows_request(route, self._account_id):
            return False
        if not provider_keys.allows_request(route):
            circuit_breaker.record_no_verdict(route, self._account_id)
            return False
        return True

    def _attempt(self, call: Call, send: Callable[[Call], Outcome]) -> Outcome:
        """Make one attempt. Tell how it ended to those who decide whether the route is asked again."""
        self.call = call
        self.attempts += 1
        call.request.body.restore()
        self.ignored_fields = providers.unsent_fields(call)  # now: the body is released while the attempt waits
        self.attempted_at = time.monotonic()
        try:
            outcome = send(call)
        except ProviderFailed as error:
            metrics.observe_attempt(call.route.provider_slug, error.kind.name.lower(), time.monotonic() - self.attempted_at)
            self.record_failure(error)
            self._tell_failure(call.route, error)
            raise
        except BaseException:
            circuit_breaker.record_no_verdict(call.route, self._account_id)
            raise
        outcome_name = "stream" if call.request.stream else "whole"
        metrics.observe_attempt(call.route.provider_slug, outcome_name, time.monotonic() - self.attempted_at)
        circuit_breaker.record_success(call.route, self._account_id)
        local_faults.record_success(call.route)
        provider_keys.record_success(call.route)
        call.request.body.forget()
        return outcome

    def _tell_failure(self, route: Route, error: ProviderFailed) -> None:
        if error.key_refusal:
            status, reason = error.key_refusal
            provider_keys.record_refusal(route, self._account_id, status=status, reason=reason)
        elif error.kind is FailureKind.INVALID_REQUEST:  # it looked at the request, so it had accepted the key
            provider_keys.record_success(route)
        elif error.kind is FailureKind.LOCAL_FAULT:
            local_faults.record_fault(route)
        if error.kind in (*_FINAL, FailureKind.LOCAL_FAULT) or error.key_refusal or error.is_scripted:
            circuit_breaker.record_no_verdict(route, self._account_id)
        else:
            circuit_breaker.record_failure(
                route,
                self._account_id,
                attempted_at=self.attempted_at,
                wait_seconds=error.wait_seconds,
                is_new_account=self.admitted.is_new_account,
            )

    def _complete(self, call: Call) -> WholeReply:
        with self._interruptible():
            if call.request.inputs:
                return providers.EMBEDDERS[call.route.kind].embed(call, call.request.inputs)
            return providers.ADAPTERS[call.route.kind].complete(call)

    def _start_stream(self, call: Call) -> tuple[list[Chunk], ChunkStream]:
        upstream = providers.ADAPTERS[call.route.kind].stream(call)
        try:
            with self._interruptible():
                first = self._first_chunks(call, upstream)
        except BaseException:
            upstream.close()
            raise
        if first is None:
            self._give_up(call, upstream)
            raise base.silent()
        self.drop_late()
        return first, upstream

    def _first_chunks(self, call: Call, upstream: ChunkStream) -> list[Chunk] | None:
        """Return the first chunks of a stream; None if it has not begun in time, and the client waits for it."""
        for chunks in upstream:
            if chunks:
                return chunks
            # An empty list after the head is a heartbeat. Passing one on would commit us to status 200.
            if not call.head.has_arrived and not disconnects.has_disconnected(self.client):
                return None
        raise exchange.provider_failure(call, UnusableResponse("the stream ended before it began"), upstream_worked=False)

    def _give_up(self, call: Call, upstream: ChunkStream) -> None:
        """Keep a stream that did not begin in time, until it is known whether another provider answers."""
        self.drop_late()
        completion = self.admitted.completion
        usage = Usage(completion.prompt_estimate, self.completion_tokens_max if self.reasons else 0, tier=call.request.tier)
        unpaid_nanos = cost.usage_cost_nanos(usage, call.offer.price, completion.images)
        self.late = LateStream(call, upstream, unpaid_nanos)
        if self.admitted.idempotency_key is None:  # only a repetition could get its reply
            upstream.close()

    def drop_late(self) -> None:
        """Close a stream that was given up. Nobody pays what its provider charges: that is the operator's loss.

        It counts against the account too, unless the provider fails for several accounts: then the fault is not the request's.
        """
        if self.late:
            self.late.chunks.close()
            metrics.record_provider_loss(self.late.call.route.provider_slug, self.late.unpaid_nanos)
            if not circuit_breaker.fails_for_several(self.late.call.route):
                self.late_nanos += self.late.unpaid_nanos
            self.late = None

    def forget_late(self) -> None:
        """Close a stream that was given up: its provider's report is paid."""
        if self.late:
            self.late.chunks.close()
            self.late = None

    def resume_late(self) -> ChunkStream:
        """Return the stream that was given up, to be read on: it is the latest attempt again."""
        assert self.late is not None
        self.call = self.late.call
        return self.late.chunks

    def _wait_for_retry(self, call: Call, earlier: ProviderFailed) -> bool:
        """Wait before a second attempt of a route. Return False, without waiting, when the wait would be too long."""
        wait_seconds = earlier.wait_seconds
        seconds = _PAUSE_SECONDS * random.uniform(1, 2) if wait_seconds is None else wait_seconds  # noqa: S311  no secret
        seconds = max(seconds, circuit_breaker.open_seconds(call.route, self._account_id))
        if seconds > _WAIT_SECONDS_MAX:
            return False
        with (
            draining.interruptible(partial(base.shutting_down, upstream_worked=False)),
            disconnects.raise_on_disconnect(self.client, base.client_disconnected(upstream_worked=False)),
        ):
            gevent.sleep(seconds + _TIMER_SECONDS)
        return True

    def _interruptible(self) -> AbstractContextManager[None]:
        """End the wait for an upstream when the worker must stop, and a cancellable one when the client disconnects."""
        return self._cancelled_when_left() if self.is_cancellable and self.client else _EndedWithWorker(http.WorkerEnding)

    @contextmanager
    def _cancelled_when_left(self) -> Iterator[None]:
        with (
            _EndedWithWorker(http.WorkerEnding),
            disconnects.raise_on_disconnect(self.client, http.ClientDisconnected()),
        ):
            yield

    def _none_may_be_asked(self) -> ProviderFailed:
        routes = [call.route for call in self._calls()]
        seconds = min(self._seconds_to_wait(route) for route in routes)
        headers = errors.retry_after(timedelta(seconds=min(seconds, errors.RETRY_AFTER_SECONDS_MAX)))
        if all(local_faults.wait_seconds(route) > 0 for route in routes):
            return ProviderFailed(base.not_connectable(headers), upstream_worked=False)
        if all(provider_keys.wait_seconds(route) > 0 for route in routes):
            return ProviderFailed(base.refusing(headers), upstream_worked=False)
        self.is_kept_out = True
        return ProviderFailed(base.failing(headers), upstream_worked=False)

    def _seconds_to_wait(self, route: Route) -> float:
        return max(
            circuit_breaker.open_seconds(route, self._account_id),
            provider_keys.wait_seconds(route),
            local_faults.wait_seconds(route),
        )


class _EndedWithWorker(draining.interruptible):
    """Raises the failure of a wait that was interrupted: that of a provider without a network; others report it themselves."""

    __slots__ = ()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        super().__exit__(kind, error, traceback)
        if isinstance(error, http.Interrupted):
            raise exchange.interruption(error, upstream_worked=True) from error


def _most_useful(failures: list[ProviderFailed]) -> ProviderFailed | None:
    """Return the failure to report: the first retryable one, with its Retry-After, or else the first."""
    return max(failures, key=lambda failure: failure.kind is FailureKind.RETRYABLE, default=None)


def in_order(routes: tuple[Route, ...]) -> list[Route]:
    """Sort routes by priority. Within a priority the order is random: each is first as often as its weight says."""
    if len(routes) == 1:
        return [*routes]
    return sorted(routes, key=lambda route: (route.priority, -(random.random() ** (1 / route.weight))))  # noqa: S311
