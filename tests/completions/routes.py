"""Models with several routes, and assertions about the route that answered."""

import contextvars
import socket
from collections.abc import Callable
from typing import Any

import gevent

from completions.models import Completion, LanguageModel, Provider, Route
from tests import factories
from tests.upstream import Upstream


def add(
    model: LanguageModel, upstream: Upstream | str, slug: str = "spare", *, priority: int = 2, weight: int = 1, **provider: Any
) -> Route:
    """Add a route to an upstream, or to a base URL."""
    base_url = upstream if isinstance(upstream, str) else upstream.url
    return Route.objects.create(
        model=model,
        provider=factories.make_provider(slug, kind="openai", base_url=base_url, **provider),
        upstream_model=f"{slug}-name",
        priority=priority,
        weight=weight,
    )


def change_provider(model: LanguageModel, **fields: Any) -> None:
    """Change the provider of the model's only route."""
    provider = model.routes.get().provider
    for name, value in fields.items():
        setattr(provider, name, value)
    provider.save()


def let_providers_cancel() -> None:
    """Make every provider one that stops charging when its connection is closed, and every model one that cannot reason."""
    Provider.objects.update(cancels=True)
    LanguageModel.objects.update(reasoning=False)


def closed_port() -> str:
    """Return a base URL on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def assert_answered(answer: Any, provider: str, attempts: int) -> None:
    """Assert which provider answered, at which attempt: by the headers and by the record."""
    assert answer.status_code == 200, answer.content
    assert (answer["x-gateway-provider"], answer["x-gateway-attempts"]) == (provider, str(attempts))
    done = Completion.objects.latest("created_at")
    if done.settlement is not None:
        assert (done.provider_id, done.attempts) == (provider, attempts)


def assert_attempts(attempts: int) -> None:
    """Assert how many attempts a failed request made, by its record."""
    assert Completion.objects.latest("created_at").attempts == attempts


def wait_until(condition: Callable[[], Any]) -> None:
    """Wait while requests in other greenlets go on."""
    for _ in range(1_000):
        if condition():
            return
        gevent.sleep(0.01)
    raise AssertionError("the condition was never true")


def once(condition: Callable[[], Any], *acts: Callable[[], Any]) -> gevent.Greenlet:
    """In a greenlet, wait for the condition and then run the acts in order. A request waits for its upstream meanwhile."""

    def run() -> None:
        wait_until(condition)
        for act in acts:
            gevent.sleep(0.05)  # the gateway has read what the upstream sent before the condition held
            act()

    return gevent.spawn(contextvars.copy_context().run, run)


def has_played(upstream: Upstream, steps: int) -> Callable[[], bool]:
    """Return a condition: the upstream has played this number of steps of its first reply."""
    return lambda: bool(upstream.requests) and upstream.requests[0].played >= steps
