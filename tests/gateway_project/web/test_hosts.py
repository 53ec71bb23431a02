"""Two host names with their own paths, and API requests that skip the work done for pages."""

from typing import Any

import pytest
from django.core.handlers.exception import convert_exception_to_response
from django.db import connection
from django.http import HttpResponse
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver

from gateway_project.web import error_replies, hosts
from gateway_project.web.hosts import ApiMiddleware
from tests import chat, factories
from tests.conftest import client_for

API, BASE = "api.example.org", "example.org"
OF_API = ["/v1/models", "/v1/models/demo/echo", "/v1/usage"]
OF_BASE = ["/api/billing/balance", "/api/billing/ledger", "/api/openapi.json"]
PAGES = ["/", "/dashboard/", "/admin/", "/admin/login/", "/rankings"]
PROBES = ["/healthz", "/readyz", "/metrics"]


@pytest.fixture
def two_addresses(settings):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = API, BASE
    settings.ALLOWED_HOSTS = [API, BASE, "other.example.org"]


@pytest.mark.parametrize("path", OF_API)
def test_only_the_api_address_serves_v1(two_addresses, api, echo_model, path):
    assert api.get(path, HTTP_HOST=API).status_code == 200
    for host in (BASE, "other.example.org"):
        chat.assert_error(api.get(path, HTTP_HOST=host), 404, "invalid_request_error")


def test_only_the_api_address_completes(two_addresses, api, echo_model):
    before = chat.everything_written()
    chat.assert_error(chat.send(api, chat.body(), HTTP_HOST=BASE), 404, "invalid_request_error")
    assert chat.everything_written() == before
    assert chat.send(api, chat.body(), HTTP_HOST=API).status_code == 200


@pytest.mark.parametrize("path", OF_BASE)
def test_only_the_base_address_serves_the_rest(two_addresses, api, echo_model, path):
    assert api.get(path, HTTP_HOST=BASE).status_code == 200
    for host in (API, "other.example.org"):
        chat.assert_error(api.get(path, HTTP_HOST=host), 404, "invalid_request_error")


@pytest.mark.parametrize("path", PAGES)
def test_only_the_base_address_serves_pages(two_addresses, db, path):
    assert client_for(None).get(path, HTTP_HOST=BASE).status_code in (200, 302)
    for host in (API, "other.example.org"):
        chat.assert_error(client_for(None).get(path, HTTP_HOST=host), 404, "invalid_request_error")


@pytest.mark.parametrize("path", PROBES)
@pytest.mark.parametrize("host", [API, BASE, "other.example.org", "10.0.0.1", "not a host"])
def test_probes_are_answered_on_every_address(two_addresses, db, path, host):
    assert client_for(None).get(path, HTTP_HOST=host).status_code == 200


@pytest.mark.parametrize("host", ["elsewhere.example", "not a host", "api.example.org.evil.example", ""])
@pytest.mark.parametrize("path", [*OF_API, *OF_BASE, "/nowhere"])
def test_an_unknown_host_is_refused(two_addresses, api, host, path):
    chat.assert_error(api.get(path, HTTP_HOST=host), 400, "invalid_request_error")


def test_host_names_are_case_insensitive(two_addresses, api, echo_model):
    assert api.get("/v1/models", HTTP_HOST="API.Example.ORG").status_code == 200


def test_an_address_may_have_a_port(settings, api, echo_model):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = "localhost:8001", "localhost:8000"
    assert api.get("/v1/models", HTTP_HOST="localhost:8001").status_code == 200
    assert api.get("/v1/models", HTTP_HOST="localhost:8000").status_code == 404
    assert api.get("/api/billing/balance", HTTP_HOST="localhost:8000").status_code == 200


@pytest.mark.parametrize("names", [("", ""), (API, API)])
def test_one_address_serves_both(settings, api, echo_model, names):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = names
    settings.ALLOWED_HOSTS = [API]
    assert [api.get(path, HTTP_HOST=API).status_code for path in OF_API + OF_BASE] == [200] * 6


def test_a_mail_without_a_request_leads_to_the_host_that_is_known_or_names_the_page(settings):
    assert hosts.mailed_page("statement", "the Statement") == "http://localhost:8000/dashboard/ledger/"
    settings.GATEWAY_DEVELOPMENT = False
    assert hosts.mailed_page("statement", "the Statement") == "the Statement"
    settings.GATEWAY_BASE_HOST = BASE
    assert hosts.mailed_page("statement", "the Statement") == "https://example.org/dashboard/ledger/"


def test_each_address_has_its_own_missing_page(two_addresses, db):
    reply = client_for(None).get("/nowhere", HTTP_HOST=BASE, HTTP_ACCEPT="text/html")
    assert (reply.status_code, reply["content-type"]) == (404, "text/html; charset=utf-8")
    chat.assert_error(client_for(None).get("/v1/nowhere", HTTP_HOST=API, HTTP_ACCEPT="text/html"), 404, "invalid_request_error")


@pytest.mark.parametrize("urlconf", ["both", "api", "base", "health", "metrics"])
def test_errors_outside_views_have_the_api_format_on_every_address(urlconf):
    resolver = get_resolver(f"gateway_project.urls.{urlconf}")
    ours = [error_replies.bad_request, error_replies.permission_denied, error_replies.not_found, error_replies.server_error]
    assert [resolver.resolve_error_handler(status) for status in (400, 403, 404, 500)] == ours


# --- What the API does not pay for --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*OF_API, *OF_BASE[:2], *PROBES])
def test_the_api_sets_no_cookie_and_reads_none(api, echo_model, path):
    with CaptureQueriesContext(connection) as queries:
        reply = api.get(path, HTTP_COOKIE="sessionid=0123456789abcdef; csrftoken=x; messages=y")
    assert reply.status_code == 200
    assert not reply.cookies
    assert "Cookie" not in reply.get("Vary", "")
    assert not [query for query in queries if "session" in query["sql"]]
    assert not hasattr(reply.wsgi_request, "session")
    assert not hasattr(reply.wsgi_request, "_messages")


def test_a_completion_needs_no_csrf_token_and_no_session(alice, echo_model):
    client = client_for(factories.make_key(alice)[1])
    client.handler.enforce_csrf_checks = True
    reply = chat.send(client, chat.body(), HTTP_COOKIE="sessionid=x", HTTP_ORIGIN="https://elsewhere.example")
    assert reply.status_code == 200
    assert not reply.cookies
    assert not hasattr(reply.wsgi_request, "session")


@pytest.mark.parametrize("header", ["Content-Security-Policy", "X-Frame-Options", "Referrer-Policy"])
def test_headers_for_browsers_are_for_pages(db, api, echo_model, header):
    assert header not in api.get("/v1/models")
    assert header in client_for(None).get("/admin/login/")


def test_a_page_path_with_an_api_prefix_is_a_page(db):
    assert client_for(None).get("/v1x/", HTTP_ACCEPT="text/html")["content-type"].startswith("text/html")


# At most: identity (once per process and key), what is asked for, and nothing that grows with the tables.
QUERIES_MAX = {"/v1/models": 6, "/v1/models/demo/echo": 5, "/v1/usage": 6, "/api/billing/balance": 2, "/api/billing/ledger": 3}


@pytest.mark.parametrize("path", QUERIES_MAX)
def test_a_request_takes_few_queries(alice, echo_model, django_assert_max_num_queries, path):
    client = client_for(factories.make_key(alice)[1])
    for _ in range(20):
        factories.credit(alice, 1)
        factories.make_key(alice)
    with django_assert_max_num_queries(QUERIES_MAX[path]):
        assert client.get(path).status_code == 200


def test_a_completion_takes_no_more_queries_for_a_busy_account(alice, echo_model):
    client = client_for(factories.make_key(alice, limit_cents=900, type="FIXED")[1])
    factories.make_model("demo/first")

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert chat.ask(client, max_tokens=1).status_code == 200
        return len(captured)

    queries()
    first = queries()
    for number in range(20):
        factories.credit(alice, 1)
        factories.make_model(f"demo/{number}", provider=factories.make_provider(f"echo-{number}"))
        chat.ask(client, max_tokens=1)
    assert queries() == first


@pytest.mark.parametrize("secret", ["", "sk-1234", "mgw_live_" + "a" * 22 + "_" + "b" * 38, "x" * 10_000])
def test_a_flood_of_junk_costs_no_query(db, django_assert_num_queries, secret):
    with django_assert_num_queries(0):
        chat.assert_error(client_for(None).get("/v1/models", HTTP_AUTHORIZATION=f"Bearer {secret}"), 401, "invalid_api_key")


def test_api_requests_reach_no_layer_for_pages(settings):
    paths = settings.MIDDLEWARE
    behind = paths[paths.index("gateway_project.web.hosts.ApiMiddleware") :]
    assert sum(".Page" in path for path in behind) == sum(".Page" in path for path in paths) > 5
    answered: Any = convert_exception_to_response(ApiMiddleware(lambda request: HttpResponse("a page")))
    contents = [answered(RequestFactory().get(path)).content for path in ("/healthz", "/v1", "/", "/dashboard/")]
    assert [content == b"a page" for content in contents] == [False, False, True, True]
