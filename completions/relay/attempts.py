"""Asking for one completion: the routes in turn, again where that may help, until one answers.

Whatever it takes is one completion to its caller: one hold, one charge, one deadline. Another attempt is made only before the
first byte of an answer; after it, what went wrong is the caller's to see.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import gevent
from django.conf import settings

from billing import money
from completions import providers
from completions.charging.admission import Admitted
from completions.charging.records import ServedBy
from completions.chat import Call, Chunk, Route, WholeReply
from completions.providers import base
from completions.providers.base import FailureKind, ProviderFailed
from completions.relay import circuit_breaker
from gateway_project import errors
from gateway_project.net import disconnects, draining, http

Outcome = TypeVar("Outcome")
Stream = Generator[list[Chunk], None, None]

_WAIT_SECONDS_MAX = 2  # for an upstream that says when to come again; who would have to wait longer is told so
_PAUSE_SECONDS = 0.2  # before it is asked again when it says nothing; up to twice as long, so that not all come at once
_TIMER_SECONDS = 0.01  # by which one may ring too early
_FINAL = (
    FailureKind.INVALID_REQUEST,
    FailureKind.SHUTTING_DOWN,
    FailureKind.CLIENT_DISCONNECTED,
)  # no other attempt would help, and none says anything of the route


@dataclass(slots=True)
class Inquiry:
    """One completion being asked for. ``call`` is what was asked last: what answered, if anything did.

    ``client`` is the caller's socket where the server shows it: who has left need not be waited for.
    """

    admitted: Admitted
    client: Any = None
    call: Call = field(init=False)
    attempts: int = 0
    charged_nanos: int | None = None  # once it is settled
    asked_at: float = 0.0  # by the monotonic clock, the last time
    first_words_at: float | None = None
    last_words_at: float | None = None

    def __post_init__(self) -> None:
        self.call = self._ways()[0]

    @property
    def served_by(self) -> ServedBy:
        """What is known of who answers, for the record."""
        offer, provider_slug = self.call.offer, self.call.route.provider_slug
        return ServedBy(offer.model_id, offer.price_id, provider_slug, self.attempts, *self._pace_ms())

    def hear(self) -> None:
        """Words of a stream have come."""
        self.last_words_at = time.monotonic()
        self.first_words_at = self.first_words_at or self.last_words_at

    def _pace_ms(self) -> tuple[int, int] | tuple[None, None]:
        """To the first words, and from them to the last ones."""
        if self.first_words_at is None or self.last_words_at is None:
            return None, None
        return round((self.first_words_at - self.asked_at) * 1000), round((self.last_words_at - self.first_words_at) * 1000)

    def headers(self) -> dict[str, str]:
        """What the caller is told of it, as far as it is known when the reply begins."""
        headers = {"x-gateway-provider": self.call.route.provider_slug, "x-gateway-attempts": str(self.attempts)}
        if self.charged_nanos is not None:
            headers["x-gateway-cost"] = money.dollars(self.charged_nanos)
        return headers

    def whole(self) -> WholeReply:
        """A whole reply. Raises ProviderFailed."""
        return self._first_success(self._whole)

    def stream(self) -> tuple[list[Chunk], Stream]:
        """The first chunks of a reply that has begun, and the rest of it. Raises ProviderFailed."""
        return self._first_success(self._begun)

    def _first_success(self, ask: Callable[[Call], Outcome]) -> Outcome:
        ways, failures = deque(self._ways()), dict[int, ProviderFailed]()  # by route: a way is gone twice at most
        while ways and self.attempts < settings.UPSTREAM_ATTEMPTS_MAX and time.monotonic() < ways[0].until:
            call = ways.popleft()
            earlier = failures.get(call.route.id)
            if earlier and not self._paused(call, earlier) or not circuit_breaker.admits(call.route, self._account_id):
                continue
            try:
                return self._asked(call, ask)
            except ProviderFailed as error:
                if error.upstream_worked or error.kind in _FINAL:
                    raise
                if error.kind is FailureKind.RETRYABLE and earlier is None:
                    ways.append(call)
                failures[call.route.id] = error
        raise _most_hopeful(list(failures.values())) or self._all_rest()

    @property
    def _account_id(self) -> UUID:
        return self.admitted.completion.account_id

    def _ways(self) -> list[Call]:
        until = time.monotonic() + settings.UPSTREAM_TOTAL_SECONDS
        ways: dict[int, Call] = {}  # by route: an alias may stand for a model that was named as well
        for terms in self.admitted.admitted_offers:
            for route in in_turn(terms.offer.routes):
                ways.setdefault(route.id, Call(self.admitted.request, terms.offer, route, terms.max_tokens, until))
        return list(ways.values())

    def _asked(self, call: Call, ask: Callable[[Call], Outcome]) -> Outcome:
        """One attempt, and what it says of the route."""
        self.call = call
        self.attempts += 1
        self.asked_at = time.monotonic()
        try:
            outcome = ask(call)
        except ProviderFailed as error:
            if error.kind in _FINAL:
                circuit_breaker.unknown(call.route, self._account_id)
            else:
                circuit_breaker.failed(call.route, self._account_id, asked_at=self.asked_at, wait_seconds=error.wait_seconds)
            raise
        except BaseException:
            circuit_breaker.unknown(call.route, self._account_id)
            raise
        circuit_breaker.succeeded(call.route)
        return outcome

    def _whole(self, call: Call) -> WholeReply:
        with self._waiting(call):
            return providers.ADAPTERS[call.route.kind].complete(call)

    def _begun(self, call: Call) -> tuple[list[Chunk], Stream]:
        upstream = providers.ADAPTERS[call.route.kind].stream(call)
        try:
            with self._waiting(call):
                # An empty list is a heartbeat, and one sent on would commit us to status 200.
                return next(chunks for chunks in upstream if chunks), upstream
        except BaseException:
            upstream.close()
            raise

    def _paused(self, call: Call, earlier: ProviderFailed) -> bool:
        """Wait as long as makes sense before the same way is tried again. False when that is too long."""
        wait_seconds = earlier.wait_seconds
        seconds = _PAUSE_SECONDS * random.uniform(1, 2) if wait_seconds is None else wait_seconds  # noqa: S311  no secret
        seconds = max(seconds, circuit_breaker.rests_seconds(call.route, self._account_id))
        if seconds > _WAIT_SECONDS_MAX:
            return False
        with self._waiting(call):
            gevent.sleep(seconds + _TIMER_SECONDS)
        return True

    @contextmanager
    def _waiting(self, call: Call) -> Iterator[None]:
        """Around every wait before the answer begins: it ends when the worker must, and when the caller has left."""
        # ... unless it may ask for the same again, or must pay for it anyway.
        client = None if self.admitted.idempotency_key or call.route.drains else self.client
        try:
            with (
                draining.interruptible(base.shutting_down(upstream_worked=False)),
                disconnects.raise_on_disconnect(client, http.ClientDisconnected()),
            ):
                yield
        except http.ClientDisconnected as error:
            raise base.client_disconnected(upstream_worked=False) from error

    def _all_rest(self) -> ProviderFailed:
        seconds = min(circuit_breaker.rests_seconds(call.route, self._account_id) for call in self._ways())
        wait = timedelta(seconds=min(seconds, errors.CLIENT_PATIENCE_SECONDS))
        return ProviderFailed(base.overloaded(errors.retry_after(wait)), upstream_worked=False)


def _most_hopeful(failures: list[ProviderFailed]) -> ProviderFailed | None:
    """What the caller is told of several: the first that may be gone in a moment, with its Retry-After, or else the first."""
    return max(failures, key=lambda failure: failure.kind is FailureKind.RETRYABLE, default=None)


def in_turn(routes: tuple[Route, ...]) -> list[Route]:
    """By priority; those of one priority in an order drawn by lot, in which each comes first as often as its weight says."""
    return sorted(routes, key=lambda route: (route.priority, -(random.random() ** (1 / route.weight))))  # noqa: S311
