"""Every refusal, in one table with a row for each condition, and the order in which refusals are decided.

A refusal writes nothing. A streamed request is refused like any other, before the stream begins.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest
from django.conf import settings
from django.db.models.functions import Now
from django.test import override_settings
from django.utils import timezone

from billing import locks
from billing.ledger import writer
from billing.models import Account, Hold
from completions.models import Completion, LanguageModel, Price, Provider, Route
from gateway_project import errors
from gateway_project.db import pool
from keys import lifecycle, rotation, secret
from keys.models import ApiKey, SpendingDay
from keys.spending_limit import SpendingLimit
from tests import chat, factories, outage, usage
from tests.cases import undone
from tests.completions.rows import lost_nanos
from tests.conftest import client_for


@dataclass
class Request:
    """A valid request. Tests change it, or its ``Scenario``, so that the gateway must refuse it."""

    secret: str | None
    path: str = chat.PATH
    method: str = "POST"
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=lambda: {"max_tokens": 100})
    raw: bytes | None = None

    def send(self, **fields: Any) -> Any:
        raw = chat.body(**self.fields, **fields) if self.raw is None else self.raw
        headers: dict[str, Any] = self.headers
        return client_for(self.secret).generic(
            self.method, self.path, cast(Any, raw), content_type=self.content_type, **headers
        )


class Scenario:
    """alice, a key of hers and demo/echo, set up so that every request succeeds until a row of the table changes something."""

    def __init__(self, alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
        self.account, self.monkeypatch = alice, monkeypatch
        self.key, self.secret = factories.make_key(alice)

    def request(self, **changes: Any) -> Request:
        return Request(self.secret, **changes)

    def set_key(self, **columns: Any) -> Request:
        ApiKey.objects.filter(pk=self.key.pk).update(**columns)
        return self.request()

    def set_all(self, rows: Any, **columns: Any) -> Request:
        assert rows.objects.update(**columns)
        return self.request()

    def spend_limit(self, type: str, period: str | None = None, *, left_nanos: int = 0) -> Request:
        """Set a limit of one cent, all of it spent today but ``left_nanos``."""
        lifecycle.set_spending_limit(self.key, SpendingLimit(1, type, period))
        today = pool.database_time().date()
        spent_nanos = 10_000_000 - left_nanos
        usage.reserve(self.key, day=today, amount_nanos=spent_nanos)
        usage.commit(self.key, day=today, held_nanos=spent_nanos, spent_nanos=spent_nanos, prompt_tokens=1, completion_tokens=1)
        return self.request()

    def exceed_rate_limit(self, **columns: Any) -> Request:
        """Limit the rate of the key, and use the limit up with a successful request."""
        request = self.set_key(**columns)
        assert request.send().status_code == 200
        return request


# --- Conditions: each changes the scenario and returns a request -----------------------------------------------------


def too_much_unpaid(scenario: Scenario) -> Request:
    """The account has ten minutes to wait."""
    return scenario.set_all(Account, unpaid_until=pool.database_time() + timedelta(hours=1, minutes=10))


def continues_nothing(scenario: Scenario) -> Request:
    raw = b'{"model": "demo/echo", "input": "Hello", "previous_response_id": "resp_1"}'
    return scenario.request(path="/v1/responses", raw=raw)


def another_secret(scenario: Scenario) -> Request:
    """A well-formed secret with the id of an existing key, which was never issued."""
    return Request(secret.mint(scenario.key.pk))


def mistyped_secret(scenario: Scenario) -> Request:
    last = "A" if scenario.secret[-1] != "A" else "B"
    return Request(scenario.secret[:-1] + last)


def secret_of_no_key(scenario: Scenario) -> Request:
    other, minted = factories.make_key(scenario.account)
    other.delete()
    return Request(minted)


def deleted_key(scenario: Scenario) -> Request:
    """A key deleted after a request, so that its identity is cached."""
    assert scenario.request(path="/v1/usage", method="GET").send().status_code == 200
    scenario.key.delete()
    return scenario.request()


def revoked(scenario: Scenario) -> Request:
    assert scenario.request(path="/v1/usage", method="GET").send().status_code == 200
    lifecycle.revoke_key(scenario.key)
    return scenario.request()


def paused(scenario: Scenario) -> Request:
    assert scenario.request(path="/v1/usage", method="GET").send().status_code == 200
    lifecycle.pause_key(scenario.key)
    return scenario.request()


def ended_secret(scenario: Scenario) -> Request:
    """A secret whose key was rotated after a request, so that its identity is cached."""
    assert scenario.request(path="/v1/usage", method="GET").send().status_code == 200
    rotation.rotate_secret(scenario.key, grace=timedelta(0))
    return scenario.request()


def other_scheme(scenario: Scenario) -> Request:
    return Request(None, headers={"HTTP_AUTHORIZATION": f"Basic {scenario.secret}"})


def encoded(scenario: Scenario) -> Request:
    return scenario.request(raw=b"{}", headers={"HTTP_CONTENT_ENCODING": "br"})


def body_too_large(scenario: Scenario) -> Request:
    settings.REQUEST_BYTES_MAX = 1_000
    return scenario.request(raw=b'{"model": "' + b"x" * 1_000)


def no_credentials(scenario: Scenario) -> Request:
    scenario.monkeypatch.delenv("EXAMPLE_API_KEY", raising=False)
    return scenario.set_all(Provider, api_key_env="EXAMPLE_API_KEY")


def unpriced(scenario: Scenario) -> Request:
    Price.objects.all().delete()
    return scenario.request()


def priced_from_tomorrow(scenario: Scenario) -> Request:
    factories.change_prices(Price.objects, effective_from=Now() + timedelta(days=1))
    return scenario.request()


def unrouted(scenario: Scenario) -> Request:
    Route.objects.all().delete()
    return scenario.request()


def tied_up_account(scenario: Scenario) -> Request:
    account = locks.lock_account(scenario.account.pk)
    later = timezone.now() + timedelta(hours=1)
    usage.place(account, account.balance_nanos, reference="running", expires_at=later)
    return scenario.request()


def all_in_flight_of_the_key(scenario: Scenario) -> Request:
    usage.reserve(scenario.key, day=pool.database_time().date(), amount_nanos=0)
    return scenario.set_key(requests_in_flight_max=1)


def all_in_flight_of_the_account(scenario: Scenario) -> Request:
    usage.place(scenario.account, 0, expires_at=timezone.now() + timedelta(hours=1))
    return scenario.set_all(Account, requests_in_flight_max=1)


def tied_up_window(scenario: Scenario) -> Request:
    lifecycle.set_spending_limit(scenario.key, SpendingLimit(100, "FIXED"))
    usage.reserve(scenario.key, day=pool.database_time().date(), amount_nanos=1_000_000_000)
    return scenario.request()


def broke(scenario: Scenario) -> Request:
    writer.refund(locks.lock_account(scenario.account.pk), amount_cents=1000, reference="all of it", reason="test")
    return scenario.request()


def in_debt(scenario: Scenario) -> Request:
    writer.refund(locks.lock_account(scenario.account.pk), amount_cents=2000, reference="twice it", reason="test")
    return scenario.request()


def lost_encryption_key(scenario: Scenario) -> Request:
    """A provider's API key that no encryption key can decrypt."""
    return scenario.set_all(Provider, sealed_api_key="sealed with a key that is lost")


def malformed_encryption_key(scenario: Scenario) -> Request:
    """A fault of the gateway, which a system check reports before it serves."""
    settings.ENCRYPTION_KEYS = ["no Fernet key"]
    return lost_encryption_key(scenario)


# --- The table ----------------------------------------------------------------------------------------------------

INVALID = "invalid_request_error"
FINAL = {"x-should-retry": "false"}
NEVER = {**FINAL, "retry-after": None}
SOON = {"retry-after": "1", "retry-after-ms": "1000", "x-should-retry": None}
RATES = {
    "retry-after": r"[1-9]|[1-5]\d|60",
    "retry-after-ms": r"\d+",
    "x-should-retry": None,
    "x-ratelimit-limit-{}": r"\d+",
    "x-ratelimit-remaining-{}": r"\d+",
    "x-ratelimit-reset-{}": r"\d+ms|\d+s|\d+m\d+s",
}

BAD_KEY = (401, INVALID, "invalid_api_key", None, {"www-authenticate": "Bearer"})
NO_MODEL = (404, INVALID, "model_not_found", "model", {})
NO_PATH = (404, INVALID, INVALID, None, {})
TOO_MUCH = (429, "rate_limit_error", "rate_limit_exceeded", None)
TOO_LITTLE = (402, "insufficient_quota", "insufficient_quota", None, NEVER)


def bad(param: str | None) -> tuple[Any, ...]:
    return 400, INVALID, INVALID, param, {}


def rates(what: str, **changes: str | None) -> dict[str, str | None]:
    return {name.format(what): value for name, value in RATES.items()} | changes


# group, condition, status, type, code, param, headers: a pattern, or None where the header must be absent
GROUPS: dict[str, dict[str, tuple[Any, ...]]] = {
    "the key": {
        "no key": (lambda scenario: Request(None), *BAD_KEY),
        "another scheme": (other_scheme, *BAD_KEY),
        "not like a key": (lambda scenario: Request("sk-1234"), *BAD_KEY),
        "mistyped": (mistyped_secret, *BAD_KEY),
        "never given out": (another_secret, *BAD_KEY),
        "of no key": (secret_of_no_key, *BAD_KEY),
        "deleted": (deleted_key, *BAD_KEY),
        "revoked": (revoked, *BAD_KEY),
        "paused": (paused, *BAD_KEY),
        "rotated": (ended_secret, *BAD_KEY),
        "expired": (lambda scenario: scenario.set_key(expires_at=Now()), *BAD_KEY),
        "account closed": (lambda scenario: scenario.set_all(Account, is_active=False), *BAD_KEY),
    },
    "the request": {
        "no JSON": (lambda scenario: scenario.request(raw=b"model=demo/echo"), *bad(None)),
        "no object": (lambda scenario: scenario.request(raw=b"[]"), *bad(None)),
        "empty body": (lambda scenario: scenario.request(raw=b""), *bad(None)),
        "twice the same name": (lambda scenario: scenario.request(raw=b'{"model":"a","model":"b"}'), *bad("model")),
        "bad field": (lambda scenario: scenario.request(fields={"temperature": 3}), *bad("temperature")),
        "bad message": (lambda scenario: scenario.request(fields={"messages": [{}]}), *bad("messages[0].role")),
        "above the model": (lambda scenario: scenario.request(fields={"max_tokens": 4097}), *bad("max_tokens")),
        "bad echo": (lambda scenario: scenario.request(fields={"echo": {"status": 200}}), *bad("echo.status")),
        "continues from nothing": (continues_nothing, 400, INVALID, "previous_response_not_found", "previous_response_id", {}),
        "encoded": (encoded, 415, INVALID, INVALID, None, {"accept-encoding": "zstd, gzip, deflate"}),
        "too large": (body_too_large, 413, INVALID, INVALID, None, {}),
        "not called JSON": (lambda scenario: scenario.request(content_type="text/plain"), 415, INVALID, INVALID, None, {}),
        "a form": (lambda scenario: scenario.request(content_type="multipart/form-data"), 415, INVALID, INVALID, None, {}),
        "not called anything": (lambda scenario: scenario.request(content_type=""), 415, INVALID, INVALID, None, {}),
    },
    "the path and the method": {
        "no such path": (lambda scenario: scenario.request(path="/v1/images"), *NO_PATH),
        "no such /api path": (lambda scenario: scenario.request(path="/api/billing"), *NO_PATH),
        "no such response": (
            lambda scenario: scenario.request(path="/v1/responses/resp_1", method="GET"),
            *(404, INVALID, INVALID, "id", {}),
        ),
        "a slash more": (lambda scenario: scenario.request(path=f"{chat.PATH}/"), *NO_PATH),
        "wrong method": (
            lambda scenario: scenario.request(method="GET"),
            405,
            INVALID,
            INVALID,
            None,
            {"allow": "POST, OPTIONS"},
        ),
        "wrong method on a list": (
            lambda scenario: scenario.request(method="DELETE", path="/v1/models"),
            405,
            INVALID,
            INVALID,
            None,
            {"allow": "GET, HEAD, OPTIONS"},
        ),
        "bad parameter": (lambda scenario: scenario.request(method="GET", path="/api/billing/ledger?limit=101"), *bad("limit")),
    },
    "every path that needs a key": {
        "no key for models": (lambda scenario: Request(None, "/v1/models", "GET"), *BAD_KEY),
        "no key for a model": (lambda scenario: Request(None, "/v1/models/a/b", "GET"), *BAD_KEY),
        "no key for usage": (lambda scenario: Request(None, "/v1/usage", "GET"), *BAD_KEY),
        "no key for balance": (lambda scenario: Request(None, "/api/billing/balance", "GET"), *BAD_KEY),
        "no key for ledger": (lambda scenario: Request(None, "/api/billing/ledger", "GET"), *BAD_KEY),
    },
    "the model": {
        "unknown": (lambda scenario: scenario.request(fields={"model": "demo/nobody"}), *NO_MODEL),
        "disabled": (lambda scenario: scenario.set_all(LanguageModel, is_enabled=False), *NO_MODEL),
        "unpriced": (unpriced, *NO_MODEL),
        "priced from tomorrow": (priced_from_tomorrow, *NO_MODEL),
        "no route": (unrouted, *NO_MODEL),
        "route disabled": (lambda scenario: scenario.set_all(Route, is_enabled=False), *NO_MODEL),
        "provider disabled": (lambda scenario: scenario.set_all(Provider, is_enabled=False), *NO_MODEL),
        "no credentials": (no_credentials, *NO_MODEL),
        "credentials lost": (lost_encryption_key, *NO_MODEL),
        "not for this key": (lambda scenario: scenario.set_key(allowed_models=["a/b"]), *NO_MODEL),
        "model page unknown": (lambda scenario: scenario.request(method="GET", path="/v1/models/demo/nobody"), *NO_MODEL),
    },
    "the rate": {
        "requests a minute": (lambda scenario: scenario.exceed_rate_limit(requests_per_minute=1), *TOO_MUCH, rates("requests")),
        "tokens a minute": (lambda scenario: scenario.exceed_rate_limit(tokens_per_minute=104), *TOO_MUCH, rates("tokens")),
        "more than a minute's tokens": (
            lambda scenario: scenario.set_key(tokens_per_minute=50),
            *TOO_MUCH,
            rates("tokens", **NEVER, **{"retry-after-ms": None}),
        ),
        "requests of the key at a time": (all_in_flight_of_the_key, *TOO_MUCH, SOON),
        "requests of the account at a time": (all_in_flight_of_the_account, *TOO_MUCH, SOON),
        "work left unpaid": (too_much_unpaid, *TOO_MUCH, {**SOON, "retry-after": r"[56]\d\d", "retry-after-ms": r"\d+"}),
    },
    "the money": {
        "account tied up": (tied_up_account, *TOO_MUCH, SOON),
        "window tied up": (tied_up_window, *TOO_MUCH, SOON),
        "FIXED limit": (lambda scenario: scenario.spend_limit("FIXED"), *TOO_LITTLE),
        "FIXED limit has too little left": (lambda scenario: scenario.spend_limit("FIXED", left_nanos=1), *TOO_LITTLE),
        "DAILY limit has too little left": (
            lambda scenario: scenario.spend_limit("RECURRING", "DAILY", left_nanos=100_000),
            *TOO_LITTLE,
        ),
        "DAILY limit": (lambda scenario: scenario.spend_limit("RECURRING", "DAILY"), *TOO_LITTLE),
        "WEEKLY limit": (lambda scenario: scenario.spend_limit("RECURRING", "WEEKLY"), *TOO_LITTLE),
        "MONTHLY limit": (lambda scenario: scenario.spend_limit("RECURRING", "MONTHLY"), *TOO_LITTLE),
        "too few credits": (broke, *TOO_LITTLE),
        "in debt": (in_debt, *TOO_LITTLE),
    },
    "the gateway": {
        "unforeseen": (malformed_encryption_key, 500, "server_error", "internal_error", None, {}),
    },
}
TABLE = {condition: row for group in GROUPS.values() for condition, row in group.items()}

ALL_HEADERS = {"www-authenticate", "retry-after", "retry-after-ms", "x-should-retry", "allow"} | {
    f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")
}


ERRORS = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.ApiError)]


@contextmanager
def arranged(alice: Account) -> Iterator[Scenario]:
    """A scenario whose rows, settings and environment variables end with the block."""
    with undone(), override_settings(), pytest.MonkeyPatch.context() as monkeypatch:
        yield Scenario(alice, monkeypatch)


@pytest.fixture
def scenario(alice: Account, echo_model: LanguageModel) -> Iterator[Scenario]:
    with arranged(alice) as scenario:
        yield scenario


def assert_headers(reply: Any, expected: dict[str, str | None]) -> None:
    for name in ALL_HEADERS - {"allow"} | set(expected):
        pattern = expected.get(name)
        found = reply.headers.get(name)
        assert (found is None) if pattern is None else re.fullmatch(pattern, found or ""), (name, found)


@pytest.mark.parametrize("group", GROUPS)
def test_a_refusal_matches_the_table_and_writes_nothing(alice, echo_model, subtests, group):
    for condition, (arrange, status, type, code, param, headers) in GROUPS[group].items():
        for form, fields in (("whole", {}), ("streamed", {"stream": True})):
            with subtests.test(f"{condition}, {form}"), arranged(alice) as scenario:
                request = arrange(scenario)
                before = chat.everything_written()
                reply = request.send(**fields)
                error = chat.assert_error(reply, status, code, param)
                assert error["type"] == type
                assert error["message"].startswith("Incorrect API key provided: ") == (status == 401)
                assert_headers(reply, headers)
                assert chat.everything_written() == before


def test_every_error_of_the_table_has_a_class():
    declared = {(error.status, error.type, error.code) for error in ERRORS}
    assert {(status, type, code) for _, status, type, code, _, _ in TABLE.values()} <= declared


# --- Outside the table: upstreams that fail after money was held, an unavailable database --------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("upstream_status", "status", "type", "code"),
    [
        (500, 502, "server_error", "upstream_error"),
        (502, 502, "server_error", "upstream_error"),
        # They concern the gateway's own account at the provider, so the client can do nothing about them.
        (401, 502, "server_error", "upstream_error"),
        (402, 502, "server_error", "upstream_error"),
        (403, 502, "server_error", "upstream_error"),
        (404, 502, "server_error", "upstream_error"),
        (429, 503, "server_error", "upstream_error"),
        (503, 503, "server_error", "upstream_error"),
        (529, 503, "server_error", "upstream_error"),
        (408, 504, "server_error", "upstream_error"),
        (504, 504, "server_error", "upstream_error"),
        (400, 400, INVALID, INVALID),
        (422, 400, INVALID, INVALID),
    ],
)
def test_an_upstream_that_fails_costs_nothing(scenario, upstream_status, status, type, code, stream):
    entries, accounts = (chat.everything_written()[table] for table in ("LedgerEntry", "Account"))
    lost_before_nanos = lost_nanos()
    reply = scenario.request(fields={"echo": {"status": upstream_status}}).send(stream=stream)
    assert chat.assert_error(reply, status, code)["type"] == type
    assert_headers(reply, {})
    after = chat.everything_written()
    assert (after["LedgerEntry"], after["Account"]) == (entries, accounts)
    assert lost_nanos() == lost_before_nanos
    assert [hold.state for hold in Hold.objects.all()] == [Hold.State.RELEASED]
    assert [(row.settlement, row.cost_nanos) for row in Completion.objects.all()] == [(Completion.Settlement.RELEASED, 0)]
    assert [(day.spent_nanos, day.held_nanos, day.completions) for day in SpendingDay.objects.all()] == [(0, 0, 0)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("is_key_cached", [False, True], ids=["new key", "cached key"])
def test_without_the_database_completions_reply_503(scenario, is_key_cached, stream):
    if is_key_cached:
        assert scenario.request().send().status_code == 200
    before = chat.everything_written()
    reply = outage.with_the_database_unavailable(lambda: scenario.request().send(stream=stream))
    assert chat.assert_error(reply, 503, "service_unavailable")["type"] == "server_error"
    assert_headers(reply, {"retry-after": "2"})
    assert chat.everything_written() == before


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/demo/echo", "/v1/usage", "/api/billing/balance", "/api/billing/ledger"]
)
def test_without_the_database_every_path_replies_503(scenario, path):
    reply = outage.with_the_database_unavailable(scenario.request(path=path, method="GET").send)
    chat.assert_error(reply, 503, "service_unavailable")
    assert reply["retry-after"] == "2"


def test_an_unexpected_exception_shows_only_the_request_id_and_is_logged(scenario, caplog):
    reply = malformed_encryption_key(scenario).send()
    message = reply.json()["error"]["message"]
    assert message == f"Something went wrong on our side. If you contact support, quote request {reply['x-request-id']}."
    [record] = [record for record in caplog.records if record.name == "gateway.request"]
    assert record.levelname == "ERROR"
    assert "ValueError: Fernet key must be" in caplog.text
    assert "in find" in caplog.text  # the traceback


# --- The order: of two errors in one request, the first is reported -------------------------------------------------


def _no_key(scenario: Scenario, request: Request) -> None:
    request.secret = None


def _bad_field(scenario: Scenario, request: Request) -> None:
    request.fields["temperature"] = 3


def _no_model(scenario: Scenario, request: Request) -> None:
    LanguageModel.objects.update(is_enabled=False)


def _bad_for_the_provider(scenario: Scenario, request: Request) -> None:
    request.fields["echo"] = "loud"


def _above_the_model(scenario: Scenario, request: Request) -> None:
    request.fields["max_tokens"] = 4097


def _revoked(scenario: Scenario, request: Request) -> None:
    lifecycle.revoke_key(scenario.key)


def _not_allowed(scenario: Scenario, request: Request) -> None:
    scenario.set_key(allowed_models=["a/b"])


def _requests_used_up(scenario: Scenario, request: Request) -> None:
    scenario.set_key(requests_per_minute=1, requests_full_at=Now() + timedelta(minutes=1))


def _tokens_used_up(scenario: Scenario, request: Request) -> None:
    scenario.set_key(tokens_per_minute=5_000, tokens_full_at=Now() + timedelta(minutes=1))


def _all_in_flight(scenario: Scenario, request: Request) -> None:
    usage.reserve(scenario.key, day=pool.database_time().date(), amount_nanos=0)
    scenario.set_key(requests_in_flight_max=1)


def _too_much_unpaid(scenario: Scenario, request: Request) -> None:
    too_much_unpaid(scenario)


def _limit_reached(scenario: Scenario, request: Request) -> None:
    scenario.spend_limit("FIXED")


def _no_credits(scenario: Scenario, request: Request) -> None:
    broke(scenario)


ORDER: list[tuple[Callable[[Scenario, Request], None], int, str]] = [
    (_no_key, 401, "you sent none"),
    (_bad_field, 400, "temperature must be"),
    (_no_model, 404, "does not exist"),
    (_above_the_model, 400, "generates at most"),
    (_bad_for_the_provider, 400, "echo must be"),
    # From here on completions/charging/admission.py decides.
    (_revoked, 401, "revoked"),
    (_not_allowed, 404, "do not have access"),
    (_requests_used_up, 429, "requests per minute"),
    (_tokens_used_up, 429, "tokens per minute"),
    (_all_in_flight, 429, "in flight"),
    (_too_much_unpaid, 429, "cost the gateway more than they were charged"),
    (_limit_reached, 402, "spending limit"),
    (_no_credits, 402, "too few credits"),
]


@pytest.mark.parametrize("first", ORDER[:-1], ids=lambda step: step[0].__name__.strip("_"))
def test_of_two_errors_the_first_in_order_is_reported(alice, echo_model, subtests, first):
    break_first, status, message = first
    for break_second, _, _ in ORDER[ORDER.index(first) + 1 :]:
        with subtests.test(break_second.__name__.strip("_")), arranged(alice) as scenario:
            request = scenario.request()
            for break_it in (break_second, break_first):
                break_it(scenario, request)
            before = chat.everything_written()
            reply = request.send()
            assert reply.status_code == status
            assert message in reply.json()["error"]["message"]
            assert chat.everything_written() == before
