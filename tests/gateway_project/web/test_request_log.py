"""Every request has an id and logs one line, and no log line contains a secret or a message."""

import io
import json
import logging
import re
from datetime import datetime

import pytest
from allauth.account.views import LoginView
from django.conf import settings
from django.test import Client
from django.urls import reverse

from billing.models import Account
from completions.models import Provider
from gateway_project import logs
from keys import lifecycle
from tests import chat, factories
from tests.conftest import client_for
from tests.outage import with_the_database_unavailable
from tests.upstream import KEY_ENV, refusal, upstream, whole

__all__ = ["upstream"]

REQUEST_ID = re.compile(r"req_[0-9a-f]{32}")


@pytest.fixture
def lines():
    """The parsed log lines of production's handler of the root logger."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logs.JsonLineFormatter())
    handler.addFilter(logs.ContextFilter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(level)


def request_lines(lines) -> list[dict]:
    return [line for line in lines() if line["logger"] == "gateway.request"]


def test_a_request_logs_one_json_line(alice, echo_model, lines):
    key, secret = factories.make_key(alice)
    reply = chat.ask(client_for(secret))
    [line] = request_lines(lines)
    assert datetime.fromisoformat(line.pop("timestamp")).tzinfo
    assert line.pop("message").startswith("POST /v1/chat/completions 200 ")
    assert line.pop("duration_ms") >= 0
    assert line == {
        "level": "INFO",
        "logger": "gateway.request",
        "request_id": reply["x-request-id"],
        "method": "POST",
        "path": "/v1/chat/completions",
        "route": "v1/chat/completions",
        "status": 200,
        "streaming": False,
        "key": key.pk,
        "completion": reply.json()["id"],
        "cost": reply["x-gateway-cost"],
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/v1/models", 401),
        ("DELETE", "/healthz/none", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/admin/", 302),
        ("GET", "/%0aforged", 404),
        ("BREW", "/v1/models", 401),
    ],
)
def test_every_reply_has_an_id_and_is_logged_once(db, lines, method, path, status):
    reply = client_for(None).generic(method, path)
    assert reply.status_code == status
    assert REQUEST_ID.fullmatch(reply["x-request-id"])
    [line] = request_lines(lines)
    assert (line["request_id"], line["status"], line["method"]) == (reply["x-request-id"], status, method)
    assert (line["key"], line["streaming"]) == (None, False)


def test_a_reply_to_an_unknown_host_has_an_id_and_is_logged(lines):
    reply = client_for(None).get("/v1/models", HTTP_HOST="elsewhere.example")
    chat.assert_error(reply, 400, "invalid_request_error")
    assert [line["request_id"] for line in request_lines(lines)] == [reply["x-request-id"]]


def test_a_stream_and_its_settlement_are_logged_under_one_id(alice, echo_model, lines):
    reply = chat.ask(client_for(factories.make_key(alice)[1]), stream=True)
    [line] = request_lines(lines)
    assert (line["streaming"], line["status"]) == (True, 200)
    assert reply.getvalue()
    [settled] = [line for line in lines() if line["logger"] == "gateway.settlement"]
    assert settled["request_id"] == reply["x-request-id"]
    assert settled["cost_nanos"] == 7_500


def test_request_ids_are_generated_and_unique(lines):
    replies = [client_for(None).get("/healthz", HTTP_X_REQUEST_ID="mine") for _ in range(3)]
    assert len({reply["x-request-id"] for reply in replies}) == 3
    assert "mine" not in str(lines())


def test_an_internal_error_and_its_log_line_have_the_same_id(alice, echo_model, lines, settings):
    settings.ENCRYPTION_KEYS = ["no Fernet key"]
    Provider.objects.update(sealed_api_key="sealed with a key that is lost")
    reply = chat.ask(client_for(factories.make_key(alice)[1]))
    assert reply.status_code == 500
    [fault] = lines()
    assert (fault["request_id"], fault["level"], fault["error"]) == (reply["x-request-id"], "ERROR", "ValueError")
    assert fault["reason"].startswith("Fernet key must be")
    assert "Traceback" in fault["exc_info"]


def test_an_unexpected_exception_of_a_page_has_one_line_with_its_traceback(lines, monkeypatch):
    def fail(request):
        raise RuntimeError

    monkeypatch.setattr(LoginView, "get", lambda view, request: fail(request))
    client = client_for(None)
    client.raise_request_exception = False
    assert client.get(reverse("account_login"), HTTP_ACCEPT="text/html").status_code == 500
    [fault] = lines()
    assert (fault["level"], fault["error"], fault["reason"]) == ("ERROR", "RuntimeError", "RuntimeError")
    assert "in fail" in fault["exc_info"]


@pytest.mark.parametrize("path", ["/v1/usage", "/readyz", "/dashboard/"])
def test_a_request_without_the_database_has_one_line_with_the_first_line_of_the_reason(alice, lines, path):
    client = client_for(factories.make_key(alice)[1])
    client.cookies[settings.SESSION_COOKIE_NAME] = "s" * 32
    reply = with_the_database_unavailable(lambda: client.get(path))
    assert reply.status_code == 503
    [line] = lines()
    assert (line["status"], line["level"], line["error"]) == (503, "ERROR", "OperationalError")
    assert "Connection refused" in line["reason"]
    assert line["message"].endswith(f": OperationalError: {line['reason']}")
    assert "exc_info" not in line


def test_failed_attempts_at_providers_are_told_in_the_line_of_the_request(alice, upstream, lines):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    factories.make_model("acme/large", provider=provider)
    upstream.will(refusal(500, "out of order"), refusal(500, "out of order"), refusal(500, "still out of order"), whole())
    client = client_for(factories.make_key(alice)[1])
    statuses = [chat.ask(client, model="acme/large").status_code for _ in range(2)]
    failed, served = request_lines(lines)
    assert statuses == [502, 200]
    assert (failed["status"], failed["level"], failed["error"]) == (502, "ERROR", "UpstreamFailed")
    assert failed["failures"] == ["provider scripted answered 500: out of order"] * 2
    assert (served["status"], served["level"]) == (200, "WARNING")
    assert served["failures"] == ["provider scripted answered 500: still out of order"]
    assert [line["logger"] for line in lines()] == ["gateway.request"] * 2


def test_what_a_provider_quotes_of_a_request_is_not_logged(alice, upstream, lines):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    factories.make_model("acme/large", provider=provider, upstream_model="large-2026")
    upstream.will(refusal(400, "`large-2026` can't read 'messages': it didn't expect \"one two three\" or 'three'"))
    reply = chat.ask(client_for(factories.make_key(alice)[1]), model="acme/large")
    assert (reply.status_code, "one two three" in reply.json()["error"]["message"]) == (400, True)
    [line] = request_lines(lines)
    assert line["failures"] == [
        "provider scripted answered 400: `large-2026` can't read 'messages': it didn't expect \"...\" or '...'"
    ]


def test_a_form_without_its_token_has_one_line_with_the_reason(db, lines):
    assert Client(enforce_csrf_checks=True).post(reverse("sign-in"), {}).status_code == 403
    [line] = lines()
    assert (line["level"], line["error"]) == ("WARNING", "Forbidden")
    assert line["failures"] == ["the form was refused: CSRF cookie not set."]


def test_a_refused_request_has_the_class_of_its_error_and_no_words_of_it(alice, echo_model, lines):
    client = client_for(factories.make_key(alice)[1])
    assert [chat.ask(client, model="whisper").status_code, chat.ask(client, temperature="whisper").status_code] == [404, 400]
    assert [line["error"] for line in request_lines(lines)] == ["ModelUnknown", "InvalidRequest"]
    assert "whisper" not in str(lines())


def test_a_refused_key_is_not_logged(alice, lines):
    key, secret = factories.make_key(alice)
    client_for(f"{secret[:-1]}!").get("/v1/usage")
    assert [line["key"] for line in request_lines(lines)] == [None]


def test_a_revoked_key_is_logged(alice, echo_model, lines):
    key, secret = factories.make_key(alice)
    lifecycle.revoke_key(key)
    assert chat.ask(client_for(secret)).status_code == 401
    assert [line["key"] for line in request_lines(lines)] == [key.pk]


def test_no_log_line_holds_a_secret_or_a_message(alice: Account, echo_model, lines, caplog):
    """All kinds of requests, valid and invalid, with all loggers at level DEBUG."""
    caplog.set_level(logging.DEBUG)
    key, secret = factories.make_key(alice, requests_per_minute=6)
    client = client_for(secret)
    said, answered, asked = "whisper-7f3a", "murmur-91bc", "query-55d0"
    message = {"messages": [{"role": "user", "content": said}], "echo": {"reply": answered}}
    statuses = [
        chat.ask(client, **message).status_code,
        chat.ask(client, **message, stream=True).getvalue()[:5],
        chat.ask(client, **message | {"echo": {"status": 500}}).status_code,
        chat.ask(client, **message | {"echo": {"reply": answered, "break_after_tokens": 1}}, stream=True).getvalue()[:5],
        chat.ask(client, **message, temperature=said).status_code,
        chat.ask(client, **message, model=said).status_code,
        chat.send(client, b'{"messages": "' + said.encode()).status_code,
        client.get(f"/v1/models?{asked}={asked}").status_code,
        client.get("/v1/usage", HTTP_COOKIE=f"sessionid={asked}").status_code,
        client.get(f"/api/billing/ledger?limit={asked}").status_code,
        client.get("/api/billing/balance").status_code,
        client_for(secret[:-1]).get(f"/v1/usage?{asked}").status_code,
        client_for(None).get("/v1/usage", HTTP_AUTHORIZATION=f"Basic {secret}").status_code,
    ]
    lifecycle.revoke_key(key)
    statuses += [chat.ask(client, **message).status_code, client.get("/v1/usage").status_code]
    assert statuses == [200, b"data:", 502, b"data:", 400, 404, 400, 200, 200, 400, 200, 401, 401, 401, 401]
    everything = json.dumps(lines()) + caplog.text + "".join(str(vars(record)) for record in caplog.records)
    assert len(request_lines(lines)) == len(statuses)
    for hidden in (said, answered, asked, secret, secret[-38:], secret[-30:-6], key.digest, "Bearer"):
        assert hidden not in everything


def test_whole_replies_have_a_content_length_and_streams_have_none(alice, echo_model):
    client = client_for(factories.make_key(alice)[1])
    for reply in (chat.ask(client), client.get("/v1/models"), client.get("/v1/none"), client.get("/healthz")):
        assert int(reply["Content-Length"]) == len(reply.content)
    stream = chat.ask(client, stream=True)
    assert "Content-Length" not in stream
    assert stream.getvalue()
