"""Parts of Django that take many calls of Python for every request. A worker has one thread, and fixed settings."""

from collections.abc import ValuesView
from typing import Any

from django.conf import LazySettings
from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections, reset_queries
from django.http.response import ResponseHeaders
from django.urls import ResolverMatch, URLResolver
from django.urls import base as urls
from gevent.local import local

from gateway_project.speedups.libraries import Speedup, attribute

_set_header, _resolve = ResponseHeaders.__setitem__, URLResolver.resolve
_unpack = ResponseHeaders._unpack_items  # type: ignore[attr-defined]
_MATCHES_MAX = 256
_matches: dict[tuple[URLResolver, str], ResolverMatch] = {}


def items(headers: ResponseHeaders) -> ValuesView[tuple[str, str]]:
    """Return the names and values of the headers of a reply, as ``Mapping.items`` does in three calls for each."""
    store: dict[str, Any] = headers._store  # (name, value) by lower-case name
    return store.values()


def set_header(headers: ResponseHeaders, name: str, value: Any) -> None:
    """Set a header as Django does, which encodes name and value to see whether they can be sent: what is ASCII can."""
    if type(name) is type(value) is str and (text := name + value).isascii() and "\n" not in text and "\r" not in text:
        headers._store[name.lower()] = name, value
    else:
        _set_header(headers, name, value)


def init_headers(headers: ResponseHeaders, data: Any) -> None:
    """Set the first headers of a reply, which are mostly a dictionary. They are looked at together."""
    headers._store = {}
    given = data if type(data) is dict else dict(_unpack(data)) if data else {}
    try:
        text = "".join([*given, *given.values()])
    except TypeError:  # not all are text
        text = "\n"
    if text.isascii() and "\n" not in text and "\r" not in text:
        for name, value in given.items():
            headers._store[name.lower()] = name, value
    else:
        for name, value in given.items():
            headers[name] = value


def resolve(resolver: URLResolver, path: str) -> ResolverMatch:
    """Return the view of a path as Django does. It is kept for a path that a pattern spells out, of which there are few."""
    match = _matches.get((resolver, path))
    if match is None:
        match = _resolve(resolver, path)
        if path == f"/{match.route}" and len(_matches) < _MATCHES_MAX:
            _matches[resolver, path] = match
    return match


def disconnect() -> None:
    """Let the signals of a request call nothing: DEBUG is never on, the cache is in memory, each request sets its URLs when it
    begins, and what used the database has given its connection back when it ends (``web.gunicorn.replies``).
    """
    request_started.disconnect(reset_queries)
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_caches)
    request_finished.disconnect(close_old_connections)
    request_finished.disconnect(reset_urlconf)


def set_connections() -> None:
    """Keep the connections of each greenlet in a ``local`` of gevent's. asgiref's has a lock of its own for each access."""
    own = local()
    for connection in connections.all(initialized_only=True):
        setattr(own, connection.alias, connection)
    connections._connections = own  # type: ignore[attr-defined]


_OF_GREENLETS = "test_greenlets_have_their_own_prefix_and_urlconf_and_connection"

SPEEDUPS = [
    # A setting is an attribute once it has been read. LazyObject looks at each first, for methods that settings do not have.
    attribute(LazySettings, "__getattribute__", object.__getattribute__, "38", _OF_GREENLETS),
    attribute(ResponseHeaders, "items", items, "43", "test_the_headers_of_a_reply_are_those_that_django_returns"),
    attribute(ResponseHeaders, "__setitem__", set_header, "14", "test_a_header_is_set_as_django_sets_it"),
    attribute(ResponseHeaders, "__init__", init_headers, "11", "test_a_reply_begins_with_the_headers_of_django"),
    attribute(URLResolver, "resolve", resolve, "22", "test_a_path_has_the_view_that_django_finds_each_time"),
    attribute(urls, "_prefixes", local(), "11", _OF_GREENLETS),
    attribute(urls, "_urlconfs", local(), "11", _OF_GREENLETS),
    Speedup("django.db.connections._connections", set_connections, "10", _OF_GREENLETS),
    Speedup("django.core.signals.request_started and request_finished", disconnect, "38", _OF_GREENLETS),
]
