"""Replaces what Django and logging do for every request in ways that take many calls of Python, with what takes few.

Only web processes call this: each serves all its requests in greenlets of one thread. What it replaces is tested against
Django's own, and the versions are pinned (docs/decisions/0026).
"""

import logging
from collections.abc import ValuesView
from typing import Any

from django.conf import LazySettings
from django.http.response import ResponseHeaders
from django.urls import base as urls
from gevent import monkey
from gevent.local import local

# The lock of the system, which gevent has replaced by one in Python: nothing waits while it is held.
_allocate_lock = monkey.get_original("_thread", "RLock")


def install() -> None:
    """Replace them. Call it once per worker, when logging is configured."""
    # A setting is an attribute once it has been read. LazyObject looks at each first, for methods that settings do not have.
    LazySettings.__getattribute__ = object.__getattribute__  # type: ignore[method-assign]
    ResponseHeaders.items = items  # type: ignore[method-assign, assignment]
    # Each greenlet has its own values of these, as with asgiref's class, which has a lock of its own for each access.
    urls._prefixes, urls._urlconfs = local(), local()  # type: ignore[attr-defined]
    logging._lock = _allocate_lock()  # type: ignore[attr-defined]
    for handler in logging.root.handlers:
        handler.lock = _allocate_lock()


def items(headers: ResponseHeaders) -> ValuesView[tuple[str, str]]:
    """Return the names and values of the headers of a reply, as ``Mapping.items`` does in three calls for each."""
    store: dict[str, Any] = headers._store  # (name, value) by lower-case name
    return store.values()
