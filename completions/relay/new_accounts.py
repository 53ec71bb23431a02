"""Bounds how many requests of an account that never paid wait for the same route at a time, in this process.

Such an account costs nothing to make, and requests that a provider leaves hanging are the operator's cost. So it may have
``NEW_ACCOUNT_ROUTE_REQUESTS`` from the attempt until the reply is there, or its stream begins. Further ones wait for their
turn, as long as a stream may take to begin. All of them continue as soon as a reply of the account is charged.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from gevent.event import Event

from completions.chat import Route
from completions.providers import base
from completions.providers.base import ProviderFailed
from gateway_project import errors
from gateway_project.net import disconnects, draining


@dataclass(slots=True)
class _Queue:
    running: int = 0
    waiting: deque[Event] = field(default_factory=deque)

    def admit(self, number: int) -> None:
        """Let up to so many of those that wait longest continue."""
        while self.waiting and number > 0:
            self.running += 1
            number -= 1
            self.waiting.popleft().set()


_queues: dict[tuple[int, UUID], _Queue] = {}  # by route and account, of requests that run or wait
_NO_TURN: AbstractContextManager[None] = nullcontext()


def turn(route: Route, account_id: UUID, client: Any, *, is_new: bool) -> AbstractContextManager[None]:
    """Wait, if the account is new, until it may have one more request at the route, which the block is.

    Raises ProviderFailed when its turn does not come, or ``client`` leaves. The gateway's own provider has no address, and no
    turns.
    """
    return _turn(route, account_id, client) if is_new and route.base_url else _NO_TURN


@contextmanager
def _turn(route: Route, account_id: UUID, client: Any) -> Iterator[None]:
    place = (route.id, account_id)
    queue = _queues.setdefault(place, _Queue())
    if queue.running < settings.NEW_ACCOUNT_ROUTE_REQUESTS:
        queue.running += 1
    else:
        _wait(queue, place, route, client)
    try:
        yield
    finally:
        _leave(place)


def record_paid(account_id: UUID) -> None:
    """Let all requests of the account continue: it has paid."""
    for (_, waiting_id), queue in _queues.items():
        if waiting_id == account_id:
            queue.admit(len(queue.waiting))


def _wait(queue: _Queue, place: tuple[int, UUID], route: Route, client: Any) -> None:
    may_go_on = Event()
    queue.waiting.append(may_go_on)
    try:
        with (
            draining.interruptible(partial(base.shutting_down, provider_worked=False)),
            disconnects.raise_on_disconnect(client, base.client_disconnected(provider_worked=False)),
        ):
            if not may_go_on.wait(route.deadlines.first_byte_seconds):
                number = settings.NEW_ACCOUNT_ROUTE_REQUESTS
                refusal = errors.TooManyInFlight(
                    f"The account has {number} request{'' if number == 1 else 's'} waiting for this model's provider, which is"
                    " the maximum of an account that has not yet been charged for a request. Try again when one has ended."
                )
                raise ProviderFailed(refusal, provider_worked=False)
    except BaseException:
        if may_go_on.is_set():
            _leave(place)
        else:
            queue.waiting.remove(may_go_on)
        raise


def _leave(place: tuple[int, UUID]) -> None:
    queue = _queues[place]
    queue.running -= 1
    queue.admit(settings.NEW_ACCOUNT_ROUTE_REQUESTS - queue.running)
    if not queue.running:
        del _queues[place]
