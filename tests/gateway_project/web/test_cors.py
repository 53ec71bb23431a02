"""CORS: pages of the origins in GATEWAY_CORS_ORIGINS may call the API. Pages of any origin may read the public paths."""

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from gateway_project import environment
from gateway_project.web.openapi import specification
from tests import chat, factories
from tests.conftest import client_for

ORIGIN, OTHER = "https://app.example", "https://evil.example"
API_PATHS = ["/v1/chat/completions", "/v1/models", "/v1/usage", "/v1/nowhere", "/api/billing/balance", "/api/nowhere"]
PUBLIC_PATHS = ["/api/rankings", "/api/openapi.json"]
PAGES = ["/", "/dashboard/", "/admin/login/", "/rankings", "/healthz", "/metrics", "/v1x"]


@pytest.fixture
def allowed(settings):
    settings.GATEWAY_CORS_ORIGINS = settings.CORS_ALLOWED_ORIGINS = ["https://first.example", ORIGIN]


@pytest.fixture
def all_allowed(settings):
    settings.GATEWAY_CORS_ORIGINS, settings.CORS_ALLOW_ALL_ORIGINS = ["*"], True


def send(path: str, method: str = "GET", origin: str | None = ORIGIN, client: Any = None, **headers: str) -> Any:
    given: Any = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    if origin is not None:
        given["HTTP_ORIGIN"] = origin
    return (client or client_for(None)).generic(method, path, content_type="application/json", **given)


def preflight(path: str, origin: str | None = ORIGIN) -> Any:
    wanted = "authorization,content-type,idempotency-key,x-stainless-lang,x-stainless-retry-count"
    return send(path, "OPTIONS", origin, access_control_request_method="POST", access_control_request_headers=wanted)


def listed(reply: Any, header: str) -> set[str]:
    return {name.strip().lower() for name in reply.get(header, "").split(",")}


def cors_headers(reply: Any) -> set[str]:
    return {name.lower() for name in reply.headers if name.lower().startswith("access-control-")}


# --- Preflights ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("db", "allowed")
@pytest.mark.parametrize("path", API_PATHS)
def test_a_preflight_is_answered_without_a_key_and_without_a_query(path, django_assert_num_queries):
    with django_assert_num_queries(0):
        reply = preflight(path)
    assert reply.status_code == 200
    assert reply["access-control-allow-origin"] == ORIGIN
    assert listed(reply, "access-control-allow-methods") == {"get", "post", "patch", "delete"}
    assert listed(reply, "access-control-allow-headers") >= {"*", "authorization", "content-type", "idempotency-key"}
    assert reply["access-control-max-age"] == "7200"
    assert reply["x-request-id"].startswith("req_")
    assert "origin" in listed(reply, "vary")
    assert reply.content == b""


@pytest.mark.usefixtures("db", "allowed")
@pytest.mark.parametrize("origin", [OTHER, "null", "https://app.example.evil.example", "http://app.example", "https://[", "*"])
@pytest.mark.parametrize("path", API_PATHS[:3])
def test_a_preflight_of_another_origin_allows_nothing_and_is_no_401(path, origin):
    reply = preflight(path, origin)
    assert reply.status_code == 200
    assert cors_headers(reply) == set()
    assert "origin" in listed(reply, "vary")


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize("path", API_PATHS)
def test_without_the_setting_a_preflight_allows_nothing_and_is_no_401(path):
    reply = preflight(path)
    assert reply.status_code == 200
    assert cors_headers(reply) == set()


# --- Replies ------------------------------------------------------------------------------------------------------


def assert_readable(reply: Any, origin: str = ORIGIN) -> None:
    assert reply["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in reply
    exposed = listed(reply, "access-control-expose-headers")
    ours = {name.lower() for name in reply.headers if name.lower().startswith(("x-", "retry-"))}
    assert "*" in exposed
    unread = {"x-accel-buffering", "x-content-type-options"}  # proxies and browsers obey them
    assert ours - unread <= exposed, "each named, for browsers that do not know the asterisk"


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_completion_can_be_read_by_an_allowed_page(alice, echo_model, stream):
    client = client_for(factories.make_key(alice, requests_per_minute=60, tokens_per_minute=60_000)[1])
    reply = chat.send(client, chat.body(stream=stream), HTTP_ORIGIN=ORIGIN)
    assert reply.status_code == 200
    assert b"one" in reply.getvalue()
    assert "x-ratelimit-remaining-tokens" in reply
    assert "x-gateway-provider" in reply
    assert_readable(reply)
    assert "origin" in listed(reply, "vary")


@pytest.mark.usefixtures("allowed")
def test_errors_can_be_read_by_an_allowed_page(alice, echo_model):
    limited = client_for(factories.make_key(alice, requests_per_minute=1)[1])
    chat.send(limited, chat.body())
    replies = [
        chat.send(client_for(None), chat.body(), HTTP_ORIGIN=ORIGIN),
        send("/v1/files", "POST"),
        send("/v1/chat/completions", "GET", client=limited),
        chat.send(limited, chat.body(), HTTP_ORIGIN=ORIGIN),
        send("/v1/models", host="elsewhere.example"),
        send("/api/nowhere"),
    ]
    assert [reply.status_code for reply in replies] == [401, 404, 405, 429, 400, 404]
    for reply in replies:
        assert_readable(reply)


@pytest.mark.usefixtures("allowed")
def test_every_header_that_is_described_is_exposed_by_its_name(api):
    paths = specification.read_document()["paths"].items()
    replies = [
        reply for path, each in paths if path.startswith("/v1/") for op in each.values() for reply in op["responses"].values()
    ]
    described = {name.lower() for reply in replies for name in reply.get("headers", {})}
    assert described >= {"x-gateway-ranking", "x-gateway-ignored-fields", "x-gateway-max-tokens"}
    exposed = listed(send("/v1/models", client=api), "access-control-expose-headers")
    assert described - exposed == {"www-authenticate"}  # it says no more than the status


@pytest.mark.usefixtures("allowed")
def test_another_origin_gets_the_reply_but_no_permission_to_read_it(api):
    reply = send("/v1/models", origin=OTHER, client=api)
    assert reply.status_code == 200
    assert cors_headers(reply) == set()
    assert "origin" in listed(reply, "vary")


@pytest.mark.usefixtures("allowed")
def test_a_reply_to_no_page_varies_by_origin_too(api):
    reply = send("/v1/models", origin=None, client=api)
    assert cors_headers(reply) == set()
    assert "origin" in listed(reply, "vary")


def test_without_the_setting_nothing_allows_and_nothing_varies(api):
    assert cors_headers(send("/v1/models", client=api)) == set()
    assert "origin" not in listed(send("/v1/models", origin=None, client=api), "vary")


@pytest.mark.usefixtures("all_allowed")
@pytest.mark.parametrize("origin", [ORIGIN, OTHER, "null"])
def test_an_asterisk_allows_every_origin(api, origin):
    assert_readable(send("/v1/models", origin=origin, client=api), "*")
    assert preflight("/v1/chat/completions", origin)["access-control-allow-origin"] == "*"


@pytest.mark.usefixtures("db", "all_allowed")
@pytest.mark.parametrize("path", PAGES)
def test_pages_and_probes_never_have_the_headers(path):
    assert cors_headers(send(path)) == set()
    assert cors_headers(preflight(path)) == set()


# --- Public paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["off", "allowed"])
@pytest.mark.parametrize("path", PUBLIC_PATHS)
def test_public_replies_can_be_read_by_pages_of_any_origin(db, request, path, setting):
    if setting != "off":
        request.getfixturevalue(setting)
    for reply in (send(path), send(path, origin=None), send(path, origin=OTHER)):
        assert reply.status_code == 200
        assert (reply["access-control-allow-origin"], reply["access-control-expose-headers"]) == ("*", "*")
        assert "origin" not in listed(reply, "vary")  # one copy for all, in any cache


@pytest.mark.parametrize("path", PUBLIC_PATHS)
def test_a_preflight_of_a_public_path_is_answered_without_a_query(db, path, django_assert_num_queries):
    with django_assert_num_queries(0):
        reply = preflight(path, OTHER)
    assert (reply.status_code, reply["access-control-allow-origin"]) == (200, "*")
    assert listed(reply, "access-control-allow-headers") == {"*", "authorization"}


def test_a_revalidated_ranking_and_an_error_can_be_read_by_pages(db):
    etag = send("/api/rankings")["etag"]
    again = send("/api/rankings", if_none_match=etag)
    wrong = send("/api/rankings?limit=0")
    assert [reply.status_code for reply in (again, wrong)] == [304, 400]
    assert {reply["access-control-allow-origin"] for reply in (again, wrong)} == {"*"}


# --- The setting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("", []),
        ("*", ["*"]),
        ("https://app.example, http://localhost:5173", ["https://app.example", "http://localhost:5173"]),
        ("HTTPS://App.Example:443,http://a.example:80", ["https://app.example", "http://a.example"]),
        ("http://[::1]:3000", ["http://[::1]:3000"]),
    ],
)
def test_origins_are_read_as_browsers_send_them(monkeypatch, value, found):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    assert environment.origins("GATEWAY_EXAMPLE") == found


@pytest.mark.parametrize(
    "value",
    [
        *("app.example", "https://", "https://app.example/", "https://app.example/path", "null", "file://", "//app.example"),
        *("*, https://app.example", "https://*.example", "https://user@app.example", "https://app.example:", "https://a b"),
        *("https://app.example?", "https://.example", "https://app.example:123456", "https://\u00e9.example"),
    ],
)
def test_what_is_no_origin_stops_the_process_and_says_why(monkeypatch, value):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_EXAMPLE must have origins such as https://example.com"):
        environment.origins("GATEWAY_EXAMPLE")
