"""What replaces attributes of Django does as they do."""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from django.http import HttpResponse
from django.http.response import BadHeaderError, ResponseHeaders
from django.urls import URLResolver, get_resolver

from gateway_project.local import development
from gateway_project.speedups import django


def test_the_headers_of_a_reply_are_those_that_django_returns():
    response = HttpResponse(b"{}", content_type="application/json", headers={"Cache-Control": "no-store", "X-a": "1"})
    response["x-A"] = "2"  # replaces the other, and its name
    del response["cache-control"]
    response["Cache-Control"] = "no-cache"
    assert list(django.items(response.headers)) == list(Mapping.items(response.headers))
    assert ("x-A", "2") in django.items(response.headers)


@pytest.mark.parametrize(
    ("name", "value"),
    [*[("X-A", value) for value in ("b", "é", "工具", 7, b"b", "b\r\nX-B: c")], *[(name, "b") for name in ("X-A\n", "X-É")]],
)
def test_a_header_is_set_as_django_sets_it(name, value):
    def outcome(set_header):
        headers = ResponseHeaders({})
        try:
            set_header(headers, name, value)
        except (BadHeaderError, UnicodeError) as error:
            return type(error), headers._store
        return headers._store

    assert outcome(django.set_header) == outcome(ResponseHeaders.__setitem__)


@pytest.mark.parametrize(
    "data", [None, {}, {"X-One": "1", "x-one": "2"}, {"A": "ä", "B": 7}, [("A", "b"), ("a", "ä")], ResponseHeaders({"A": "1"})]
)
def test_a_reply_begins_with_the_headers_of_django(data):
    ours, expected = ResponseHeaders.__new__(ResponseHeaders), ResponseHeaders(data)
    django.init_headers(ours, data)
    assert ours._store == expected._store


def test_a_path_has_the_view_that_django_finds_each_time():
    paths = ["/v1/chat/completions", "/v1/models/acme/large", "/v1/chat/completionz", "/healthz", "/rankings", "/docs"]
    resolver = get_resolver()
    for path in [*paths, *paths]:
        found, expected = django.resolve(resolver, path), URLResolver.resolve(resolver, path)
        assert (found.func, found.kwargs, found.route) == (expected.func, expected.kwargs, expected.route)
    kept = {path for _, path in django._matches}
    assert {"/v1/chat/completions", "/docs"} <= kept
    assert not {"/v1/models/acme/large", "/v1/chat/completionz"} & kept  # there is no end of those


@pytest.mark.system
def test_greenlets_have_their_own_prefix_and_urlconf_and_connection():
    code = """
from gevent import monkey; monkey.patch_all()
import gevent, django
django.setup()
from django.conf import settings
from django.urls import base
from gateway_project.speedups import libraries
libraries.install("django")
def serve(prefix):
    base.set_script_prefix(prefix); base.set_urlconf(prefix)
    gevent.sleep(0)
    found = base.get_script_prefix(), base.get_urlconf()
    base.set_urlconf(None)
    return *found, base.get_urlconf()
print([each.get() for each in [gevent.spawn(serve, prefix) for prefix in ("/a/", "/b/")]])
print(base.get_urlconf("none"), settings.REQUEST_BYTES_MAX > 0, hasattr(settings, "NO_SUCH_SETTING"))
import logging; logging.getLogger("gateway.test").warning("a line")
from django.db import connections
def connect():
    before = connections.all(initialized_only=True)
    connections["default"]; gevent.sleep(0)
    return len(before), len(connections.all(initialized_only=True))
print([each.get() for each in [gevent.spawn(connect) for _ in range(2)]])
"""
    environ = {**os.environ, "DJANGO_SETTINGS_MODULE": "gateway_project.settings"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=development.ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    assert ran.stdout.splitlines() == ["[('/a/', '/a/', None), ('/b/', '/b/', None)]", "none True False", "[(0, 1), (0, 1)]"]
    assert "a line" in ran.stderr
