"""What replaces Django's internals does as they do."""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from django.core.handlers import wsgi
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
    "data", [None, {}, {"X-One": "1", "x-one": "2", "Two": "2"}, [("A", "b"), ("a", "ä")], ResponseHeaders({"A": "1"})]
)
def test_a_reply_begins_with_the_headers_that_django_gives_it(data):
    ours, expected = ResponseHeaders.__new__(ResponseHeaders), ResponseHeaders(data)
    django.init_headers(ours, data)
    assert ours._store == expected._store
    for name in ("a", "X-ONE", "three"):
        assert django.has_header(ours, name) == (name in expected)


@pytest.mark.parametrize(
    "environ",
    [{}, {"SCRIPT_NAME": ""}, {"SCRIPT_NAME": "/a"}, {"SCRIPT_URL": "/b/v1", "PATH_INFO": "/v1"}, {"REDIRECT_URL": "/c"}],
)
@pytest.mark.parametrize("forced", [None, "", "/forced"])
def test_the_prefix_of_paths_is_the_one_that_django_finds(settings, environ, forced):
    settings.FORCE_SCRIPT_NAME = forced
    assert django.script_name(environ) == wsgi.get_script_name(environ)


def test_a_path_has_the_view_that_django_finds_each_time_it_is_asked_for():
    paths = ["/v1/chat/completions", "/v1/models/acme/large", "/v1/chat/completionz", "/healthz", "/rankings", "/docs"]
    resolver = get_resolver()
    for path in [*paths, *paths]:
        found, expected = django.resolve(resolver, path), URLResolver.resolve(resolver, path)
        assert (found.func, found.kwargs, found.route) == (expected.func, expected.kwargs, expected.route)
    kept = {path for _, path in django._matches}
    assert {"/v1/chat/completions", "/docs"} <= kept
    assert not {"/v1/models/acme/large", "/v1/chat/completionz"} & kept  # there is no end of those


@pytest.mark.system
def test_greenlets_have_their_own_prefix_and_urlconf_and_settings_and_logs_go_on():
    code = """
from gevent import monkey; monkey.patch_all()
import gevent, django
django.setup()
from django.conf import settings
from django.urls import base
from gateway_project.speedups import django
django.install()
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


@pytest.mark.parametrize("given", [{"X-A": "b", "x-B": "c"}, {"X-A": "ä", "B": "c"}, {"A": 7, "B": "c"}, {"A": "b\nC: d"}, {}])
def test_several_headers_are_set_as_django_sets_each(given):
    def outcome(set_headers):
        headers = ResponseHeaders({"x-a": "1"})
        try:
            set_headers(headers, given)
        except BadHeaderError as error:
            return type(error)
        return headers._store, [django.get_header(headers, name) for name in ("X-A", "b", "none")]

    def set_each(headers, given):
        for name, value in given.items():
            headers[name] = value

    assert outcome(django.set_headers) == outcome(set_each)
    assert django.get_header(ResponseHeaders({"A": "1"}), "b", "2") == ResponseHeaders({"A": "1"}).get("b", "2")


@pytest.mark.parametrize("path", [None, "", "/v1/models", "/\xc3\xa4", "/\xff%25", "/a b"])
def test_a_path_is_the_one_that_django_reads(path):
    variables = {} if path is None else {"PATH_INFO": path}
    assert django.path_info(variables) == wsgi.get_path_info(variables)
