"""Each error of the API: how it comes about, and what is replied."""

import re
from collections.abc import Iterator
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
from billing.models import Account
from completions.models import LanguageModel, Price, Provider, Route
from gateway_project import errors
from gateway_project.db import pool
from keys import lifecycle, rotation, secret
from keys.models import ApiKey
from keys.spending_limit import SpendingLimit
from tests import chat, factories, usage
from tests.cases import undone
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
    usage.refund(scenario.account, 1000, "all of it")
    return scenario.request()


def in_debt(scenario: Scenario) -> Request:
    usage.refund(scenario.account, 2000, "twice it")
    return scenario.request()


def lost_encryption_key(scenario: Scenario) -> Request:
    """A provider's API key that no encryption key can decrypt."""
    return scenario.set_all(Provider, sealed_api_key="sealed with a key that is lost")


def malformed_encryption_key(scenario: Scenario) -> Request:
    """A fault of the gateway, which a system check reports before it serves."""
    settings.ENCRYPTION_KEYS = ["no Fernet key"]
    return lost_encryption_key(scenario)


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
