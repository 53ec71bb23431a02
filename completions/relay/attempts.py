"""Attempts one completion at its routes: one after another, and again where a retry may help, until one answers.

The client sees one completion: one hold, one charge, one deadline. A further attempt is made only before the client has a byte.
Where a provider may be at work on a reply that does not arrive, one more is made, and no other. No attempt begins for a client
that has disconnected; one that has begun continues, unless the provider cancels, because its provider will charge for it.

How long is a whole reply waited for, before another route is asked instead? Only time tells a long generation from silence. So
a model is given twice the time within which nearly all of its last whole replies came in this process, and
UPSTREAM_WHOLE_SECONDS while it had few of them.
"""

import random
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import TracebackType
from typing import TypeVar

import gevent
from django.conf import settings

from completions import providers
from completions.chat import Call, Chunk, WholeReply
from completions.providers import base, exchange
from completions.providers.base import FailureKind, ProviderFailed
from completions.providers.exchange import UnusableResponse
from completions.relay import circuit_breaker, new_accounts, own_keys, route_health
from completions.relay.running import ChunkStream, Running
from gateway_project import metrics
from gateway_project.deadline import Deadline
from gateway_project.monitoring.steps import step
from gateway_project.net import disconnects, draining, http

Outcome = TypeVar("Outcome")
Send = Callable[[Running, Call], Outcome]

_WAIT_SECONDS_MAX = 2  # for a provider that sends Retry-After; a longer wait is left to the client
_PAUSE_SECONDS = 0.2  # before a retry of a provider that sends none; up to twice as long, so that retries spread out
_TIMER_SECONDS = 0.01  # a timer may fire this much too early

_REPLIES_MIN, _REPLIES_MAX = 20, 200
_NEARLY_ALL = 0.98
_FACTOR = 2
_WHOLE_SECONDS_MIN = 30  # a long reply of a model whose other replies are short is not given up at once
_AGAIN_SECONDS = 1
# Of each model: the seconds of its last whole replies, each from its own attempt.
reply_seconds: defaultdict[str, deque[float]] = defaultdict(partial(deque, maxlen=_REPLIES_MAX))


def whole(running: Running) -> WholeReply:
    """Return a whole reply. Raises ProviderFailed."""
    return _first_success(running, _ask_whole)


def stream(running: Running) -> tuple[list[Chunk], ChunkStream]:
    """Return the first chunks of a stream, and the stream of the others. Raises ProviderFailed."""
    return _first_success(running, _start_stream)


def _first_success(running: Running, send: Send[Outcome]) -> Outcome:
    calls = deque(running.calls)
    if len(calls) > 1:
        calls = deque(sorted(calls, key=lambda call: circuit_breaker.stands_back(call.route)))
    running.further, running.attempts_max = calls, settings.UPSTREAM_ATTEMPTS_MAX
    failures = dict[int, ProviderFailed]()  # by route: each is attempted twice at most
    while calls and running.attempts < running.attempts_max and time.monotonic() < calls[0].until:
        if disconnects.has_disconnected(running.client):
            raise base.client_disconnected(provider_worked=False)
        call = calls.popleft()
        earlier = failures.get(call.route.id)
        if earlier and not _wait_for_retry(running, call, earlier):
            continue
        try:
            with new_accounts.turn(call.route, running.account_id, running.client, is_new=running.admitted.is_new_account):
                if not route_health.may_be_asked(call.route, running.account_id):
                    continue
                return _attempt(running, call, send)
        except ProviderFailed as error:
            if error.kind in route_health.FINAL:
                raise
            if error.provider_worked:
                if error.unread_bytes or not _may_ask_another(running):
                    raise
                running.abandon(error)
            elif error.kind is FailureKind.CREDENTIAL_RENEWED and earlier is None:
                running.attempts_max += 1
                calls.appendleft(call)
            elif error.kind is FailureKind.RETRYABLE and earlier is None:
                calls.append(call)
            failures[call.route.id] = error
    # The first retryable one, with its Retry-After, or else the first.
    most_useful = max(failures.values(), key=lambda failure: failure.kind is FailureKind.RETRYABLE, default=None)
    if most_useful:
        raise most_useful
    failure, running.is_kept_out = route_health.refusal([call.route for call in running.calls], running.account_id)
    if running.is_kept_out and not any(circuit_breaker.fails_for_several(call.route) for call in running.calls):
        metrics.own_circuit_refusals_total.inc()
    raise failure


def _may_ask_another(running: Running) -> bool:
    return (
        running.attempts < running.attempts_max
        and time.monotonic() < running.call.until
        and any(route_health.wait_seconds(call.route, running.account_id) <= 0 for call in running.further)
        and not disconnects.has_disconnected(running.client)
    )


@step("attempt")
def _attempt(running: Running, call: Call, send: Send[Outcome]) -> Outcome:
    """Make one attempt. Tell how it ended to those who decide whether the route is asked again."""
    running.call = call
    running.attempts += 1
    call.request.body.restore()
    running.ignored_fields = providers.unsent_fields(call)  # now: the body is released while the attempt waits
    running.attempted_at, measured = time.monotonic(), call.route.metrics_label or call.route.provider_slug
    try:
        outcome = send(running, call)
    except ProviderFailed as error:
        metrics.observe_attempt(measured, error.kind.name.lower(), time.monotonic() - running.attempted_at)
        running.record_failure(error)
        if call.route.own_key_id:
            own_keys.explain(error, call.route.provider_slug)
        route_health.record_failure(
            call.route,
            running.account_id,
            error,
            attempted_at=running.attempted_at,
            is_new_account=running.admitted.is_new_account,
        )
        raise
    except BaseException:
        route_health.record_no_verdict(call.route, running.account_id)
        raise
    outcome_name, seconds = "stream" if call.request.stream else "whole", time.monotonic() - running.attempted_at
    metrics.observe_attempt(measured, outcome_name, seconds)
    if not (call.request.stream or call.route.own_key_id):
        reply_seconds[call.offer.model_id].append(seconds)
    route_health.record_success(call.route, running.account_id)
    call.request.body.forget()
    return outcome


def _ask_whole(running: Running, call: Call) -> WholeReply:
    adapter = providers.ADAPTERS[call.route.kind]
    if not running.further:
        call.head.patience = None
        with _interruptible(running):
            return adapter.complete(call)
    call.head.patience = _Patience(call.offer.model_id, partial(_may_ask_another, running))
    try:
        with _interruptible(running), call.head.patience:
            return adapter.complete(call)
    except http.GivenUp as error:  # of a provider without a network; others report it themselves
        raise exchange.provider_failure(call, error, provider_worked=True) from error


def whole_seconds(model_id: str) -> float:
    """Return how long a whole reply of a model is waited for while another route can be asked."""
    known = sorted(reply_seconds.get(model_id, ()))
    if len(known) < _REPLIES_MIN:
        return settings.UPSTREAM_WHOLE_SECONDS
    return max(_FACTOR * known[int(len(known) * _NEARLY_ALL)], _WHOLE_SECONDS_MIN)


class _Patience(Deadline):
    """Ends the wait for a whole reply once another route may be asked. The reply sets ``at`` to infinity when it arrives."""

    __slots__ = ("_may_ask_another",)

    def __init__(self, model_id: str, may_ask_another: Callable[[], bool]) -> None:
        super().__init__(whole_seconds(model_id), http.GivenUp("no whole reply in time"))
        self._may_ask_another = may_ask_another

    def ring(self) -> None:
        if self._may_ask_another():
            super().ring()
        else:
            self._ticker.alarms[self] = None
            self.begin(_AGAIN_SECONDS)


def _start_stream(running: Running, call: Call) -> tuple[list[Chunk], ChunkStream]:
    stream = providers.ADAPTERS[call.route.kind].stream(call)
    try:
        with _interruptible(running):
            first = _first_chunks(running, call, stream)
    except BaseException:
        stream.close()
        raise
    if first is None:
        running.give_up(call, stream)
        raise base.silent()
    running.drop_late()
    return first, stream


def _first_chunks(running: Running, call: Call, stream: ChunkStream) -> list[Chunk] | None:
    """Return the first chunks of a stream; None if it has not begun in time, and the client waits for it."""
    for chunks in stream:
        if chunks:
            return chunks
        # An empty list after the head is a heartbeat. Passing one on would commit us to status 200.
        if not call.head.has_arrived and not disconnects.has_disconnected(running.client):
            return None
    raise exchange.provider_failure(call, UnusableResponse("the stream ended before it began"), provider_worked=False)


def _wait_for_retry(running: Running, call: Call, earlier: ProviderFailed) -> bool:
    """Wait before a second attempt of a route. Return False, without waiting, when the wait would be too long."""
    wait_seconds = earlier.wait_seconds
    seconds = _PAUSE_SECONDS * random.uniform(1, 2) if wait_seconds is None else wait_seconds  # noqa: S311  no secret
    seconds = max(seconds, circuit_breaker.open_seconds(call.route, running.account_id))
    if seconds > _WAIT_SECONDS_MAX:
        return False
    with (
        draining.interruptible(partial(base.shutting_down, provider_worked=False)),
        disconnects.raise_on_disconnect(running.client, base.client_disconnected(provider_worked=False)),
    ):
        gevent.sleep(seconds + _TIMER_SECONDS)
    return True


def _interruptible(running: Running) -> AbstractContextManager[None]:
    """End the wait for a provider when the worker must stop, and a cancellable one when the client disconnects."""
    if running.is_cancellable and running.client:
        return _cancelled_when_left(running)
    return _EndedWithWorker(http.WorkerEnding)


@contextmanager
def _cancelled_when_left(running: Running) -> Iterator[None]:
    with _EndedWithWorker(http.WorkerEnding), disconnects.raise_on_disconnect(running.client, http.ClientDisconnected()):
        yield


class _EndedWithWorker(draining.interruptible):
    """Raises the failure of a wait that was interrupted: that of a provider without a network; others report it themselves."""

    __slots__ = ()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        super().__exit__(kind, error, traceback)
        if isinstance(error, http.Interrupted):
            raise exchange.interruption(error, provider_worked=True) from error
