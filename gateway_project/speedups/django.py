"""Replaces what Django and logging do for every request in ways that take many calls of Python, with what takes few.

Only web processes call this: each serves all its requests in greenlets of one thread. What it replaces is tested against
Django's own, and the versions are pinned (docs/decisions/0042).
"""

import logging
from collections.abc import ValuesView
from typing import Any

from django.conf import LazySettings, settings
from django.core.handlers import wsgi
from django.core.handlers.base import reset_urlconf
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections
from django.http.response import HttpResponseBase, ResponseHeaders
from django.urls import ResolverMatch, URLResolver
from django.urls import base as urls
from gevent.local import local

from gateway_project import logs
from gateway_project.db import pool


def install() -> None:
    """Replace them. Call it once per worker, when logging is configured."""
    # A setting is an attribute once it has been read. LazyObject looks at each first, for methods that settings do not have.
    LazySettings.__getattribute__ = object.__getattribute__  # type: ignore[method-assign]
    ResponseHeaders.items = items  # type: ignore[method-assign, assignment]
    ResponseHeaders.__setitem__ = set_header  # type: ignore[method-assign]
    ResponseHeaders.__init__ = init_headers  # type: ignore[method-assign, assignment]
    ResponseHeaders.get = get_header  # type: ignore[method-assign, assignment]
    ResponseHeaders.__contains__ = has_header  # type: ignore[method-assign, assignment]
    URLResolver.resolve = resolve  # type: ignore[method-assign, assignment]
    wsgi.get_script_name = script_name  # type: ignore[assignment]
    wsgi.get_path_info = path_info  # type: ignore[assignment]
    # Whatever has used the database in a request has given its connection back when the request ends.
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    request_finished.disconnect(reset_urlconf)  # each request sets it when it begins
    HttpResponseBase.close = close  # type: ignore[method-assign, assignment]
    # Each greenlet has its own values of these, as with asgiref's class, which has a lock of its own for each access.
    urls._prefixes, urls._urlconfs = local(), local()  # type: ignore[attr-defined]
    own_connections = local()
    for connection in connections.all(initialized_only=True):
        setattr(own_connections, connection.alias, connection)
    connections._connections = own_connections  # type: ignore[attr-defined]
    logging.setLogRecordFactory(logs.Record)


_set_header, _resolve = ResponseHeaders.__setitem__, URLResolver.resolve
_path_info = wsgi.get_path_info
_script_name, _close = wsgi.get_script_name, HttpResponseBase.close
_unpack = ResponseHeaders._unpack_items  # type: ignore[attr-defined]
_MATCHES_MAX = 256
_matches: dict[tuple[URLResolver, str], ResolverMatch] = {}


def set_header(headers: ResponseHeaders, name: str, value: Any) -> None:
    """Set a header as Django does, which encodes name and value to see whether they can be sent: what is ASCII can."""
    if type(name) is type(value) is str and (text := name + value).isascii() and "\n" not in text and "\r" not in text:
        headers._store[name.lower()] = name, value
    else:
        _set_header(headers, name, value)


def set_headers(headers: ResponseHeaders, given: dict[Any, Any]) -> None:
    """Set several headers, which are looked at together: nearly always all of them are ASCII."""
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


def get_header(headers: ResponseHeaders, name: str, default: Any = None) -> Any:
    return headers._store.get(name.lower(), (name, default))[1]


def resolve(resolver: URLResolver, path: str) -> ResolverMatch:
    """Return the view of a path as Django does. It is kept for a path that a pattern spells out, of which there are few."""
    match = _matches.get((resolver, path))
    if match is None:
        match = _resolve(resolver, path)
        if path == f"/{match.route}" and len(_matches) < _MATCHES_MAX:
            _matches[resolver, path] = match
    return match


def init_headers(headers: ResponseHeaders, data: Any) -> None:
    """Set the first headers of a reply, which are mostly a dictionary."""
    headers._store = {}
    if data:
        set_headers(headers, data if type(data) is dict else dict(_unpack(data)))


def has_header(headers: ResponseHeaders, name: str) -> bool:
    return name.lower() in headers._store


def script_name(variables: dict[str, Any]) -> str:
    """Return what stands before the path in the address, which Django looks for under several names."""
    if variables.get("SCRIPT_NAME") or "SCRIPT_URL" in variables or "REDIRECT_URL" in variables or settings.FORCE_SCRIPT_NAME:
        return _script_name(variables)
    return ""


def path_info(variables: dict[str, Any]) -> str:
    """Return the path, which Django encodes and decodes again: what is ASCII stays as it is."""
    path = variables.get("PATH_INFO", "/")
    return path if path.isascii() else _path_info(variables)


def close(response: HttpResponseBase) -> None:
    """Close a reply, and give back the connection of one that used the database while it was sent."""
    _close(response)
    pool.release_connection()


def items(headers: ResponseHeaders) -> ValuesView[tuple[str, str]]:
    """Return the names and values of the headers of a reply, as ``Mapping.items`` does in three calls for each."""
    store: dict[str, Any] = headers._store  # (name, value) by lower-case name
    return store.values()
