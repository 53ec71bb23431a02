"""Declares which functions are steps of a request that a trace shows. ``completions.tracing`` observes them."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from django.conf import settings

Function = TypeVar("Function", bound=Callable[..., Any])
observers: list[Callable[..., Any]] = []  # one at most: gets a step's name, its function and the arguments, and calls it


def step(name: str) -> Callable[[Function], Function]:
    """Declare a function a step. Without a tracing endpoint it stays as it is."""

    def declare(run: Function) -> Function:
        @functools.wraps(run)
        def observed(*args: Any, **named: Any) -> Any:
            return observers[0](name, run, *args, **named) if observers else run(*args, **named)

        return cast(Function, observed) if settings.TRACING_ENDPOINT else run

    return declare
