"""Every refusal, in one table with a row for each condition, and the order in which refusals are decided.

A refusal writes nothing. A streamed request is refused like any other, before the stream begins.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import combinations
from typing import Any, cast

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from billing import ledger, locks
from billing.models import Account, Hold
from completions.models import Completion, LanguageModel, Price, Provider, Route
from gateway_project import errors
from gateway_project.db import pool
from keys import lifecycle, secret
from keys.models import ApiKey, SpendingDay
from tests import chat, factories, outage, usage
from tests.conftest import client_for


@dataclass
class Ask:
    """A valid request. Tests change it, or the database and settings through ``Stage``, so that the gateway must refuse it."""

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


class Stage:
    """alice, her key and demo/echo in a state in which every request succeeds, until a row of the table changes it."""

    def __init__(self, alice: Account, settings: Any, monkeypatch: Any) -> None:
        self.account, self.settings, self.monkeypatch = alice, settings, monkeypatch
        self.model = factories.make_model("demo/echo")
        self.key, self.secret = factories.make_key(alice)

    def ask(self, **changes: Any) -> Ask:
        return Ask(self.secret, **changes)

    def set_key(self, **columns: Any) -> Ask:
        ApiKey.objects.filter(pk=self.key.pk).update(**columns)
        return self.ask()

    def set_all(self, rows: Any, **columns: Any) -> Ask:
        assert rows.objects.update(**columns)
        return self.ask()

    def spend_limit(self, type: str, period: str | None = None) -> Ask:
        """Set a limit of one cent, all of it spent today."""
        lifecycle.set_spending_limit(self.key, limit_cents=1, type=type, period=period)
        today = pool.database_time().date()
        usage.reserve(self.key, day=today, amount_nanos=10_000_000)
        usage.commit(self.key, day=today, held_nanos=10_000_000, spent_nanos=10_000_000, prompt_tokens=1, completion_tokens=1)
        return self.ask()

    def ask_first(self, **columns: Any) -> Ask:
        """Limit the rate of the key, and use the limit up with a successful request."""
        ask = self.set_key(**columns)
        assert ask.send().status_code == 200
        return ask


# --- Conditions: each changes the stage and returns a request -----------------------------------------------------


def another_secret(stage: Stage) -> Ask:
    """A well-formed secret with the id of an existing key, which was never issued."""
    return Ask(secret.mint(stage.key.pk))


def mistyped_secret(stage: Stage) -> Ask:
    last = "A" if stage.secret[-1] != "A" else "B"
    return Ask(stage.secret[:-1] + last)


def secret_of_no_key(stage: Stage) -> Ask:
    other, minted = factories.make_key(stage.account)
    other.delete()
    return Ask(minted)


def deleted_key(stage: Stage) -> Ask:
    """A key deleted after a request, so that its identity is cached."""
    assert stage.ask(path="/v1/usage", method="GET").send().status_code == 200
    stage.key.delete()
    return stage.ask()


def revoked(stage: Stage) -> Ask:
    assert stage.ask(path="/v1/usage", method="GET").send().status_code == 200
    lifecycle.revoke_key(stage.key)
    return stage.ask()


def other_scheme(stage: Stage) -> Ask:
    return Ask(None, headers={"HTTP_AUTHORIZATION": f"Basic {stage.secret}"})


def chunked(stage: Stage) -> Ask:
    return stage.ask(raw=b"", headers={"HTTP_TRANSFER_ENCODING": "chunked"})


def body_too_large(stage: Stage) -> Ask:
    stage.settings.REQUEST_BYTES_MAX = 1_000
    return stage.ask(raw=b'{"model": "' + b"x" * 1_000)


def no_credentials(stage: Stage) -> Ask:
    stage.monkeypatch.delenv("EXAMPLE_API_KEY", raising=False)
    return stage.set_all(Provider, api_key_env="EXAMPLE_API_KEY")


def unpriced(stage: Stage) -> Ask:
    Price.objects.all().delete()
    return stage.ask()


def unrouted(stage: Stage) -> Ask:
    Route.objects.all().delete()
    return stage.ask()


def tied_up_account(stage: Stage) -> Ask:
    account = locks.lock_account(stage.account.pk)
    later = timezone.now() + timedelta(hours=1)
    usage.place(account, account.balance_nanos, reference="running", expires_at=later)
    return stage.ask()


def tied_up_window(stage: Stage) -> Ask:
    lifecycle.set_spending_limit(stage.key, limit_cents=100, type="FIXED", period=None)
    usage.reserve(stage.key, day=pool.database_time().date(), amount_nanos=1_000_000_000)
    return stage.ask()


def broke(stage: Stage) -> Ask:
    ledger.refund(locks.lock_account(stage.account.pk), amount_cents=1000, reference="all of it", reason="test")
    return stage.ask()


def in_debt(stage: Stage) -> Ask:
    ledger.refund(locks.lock_account(stage.account.pk), amount_cents=2000, reference="twice it", reason="test")
    return stage.ask()


def lost_encryption_key(stage: Stage) -> Ask:
    """A fault of the gateway: a provider's API key that no encryption key can decrypt."""
    return stage.set_all(Provider, sealed_api_key="sealed with a key that is lost")


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
TO_RESET = {**FINAL, "retry-after": r"\d{1,7}", "retry-after-ms": r"\d{1,10}"}

BAD_KEY = (401, INVALID, "invalid_api_key", None, {"www-authenticate": "Bearer"})
NO_MODEL = (404, INVALID, "model_not_found", "model", {})
NO_PATH = (404, INVALID, INVALID, None, {})
TOO_MUCH = (429, "rate_limit_error", "rate_limit_exceeded", None)
TOO_LITTLE = (402, "insufficient_quota", "insufficient_quota", None, NEVER)


def bad(param: str | None) -> tuple[Any, ...]:
    return 400, INVALID, INVALID, param, {}


def rates(what: str, **changes: str | None) -> dict[str, str | None]:
    return {name.format(what): value for name, value in RATES.items()} | changes


# condition, status, type, code, param, headers: a pattern, or None where one must not be
TABLE: dict[str, tuple[Any, ...]] = {
    # the key
    "no key": (lambda stage: Ask(None), *BAD_KEY),
    "another scheme": (other_scheme, *BAD_KEY),
    "not like a key": (lambda stage: Ask("sk-1234"), *BAD_KEY),
    "mistyped": (mistyped_secret, *BAD_KEY),
    "never given out": (another_secret, *BAD_KEY),
    "of no key": (secret_of_no_key, *BAD_KEY),
    "deleted": (deleted_key, *BAD_KEY),
    "revoked": (revoked, *BAD_KEY),
    "expired": (lambda stage: stage.set_key(expires_at=Now()), *BAD_KEY),
    "account closed": (lambda stage: stage.set_all(Account, is_active=False), *BAD_KEY),
    # the request
    "no JSON": (lambda stage: stage.ask(raw=b"model=demo/echo"), *bad(None)),
    "no object": (lambda stage: stage.ask(raw=b"[]"), *bad(None)),
    "empty body": (lambda stage: stage.ask(raw=b""), *bad(None)),
    "twice the same name": (lambda stage: stage.ask(raw=b'{"model":"a","model":"b"}'), *bad("model")),
    "bad field": (lambda stage: stage.ask(fields={"temperature": 3}), *bad("temperature")),
    "bad message": (lambda stage: stage.ask(fields={"messages": [{}]}), *bad("messages[0].role")),
    "above the model": (lambda stage: stage.ask(fields={"max_tokens": 4097}), *bad("max_tokens")),
    "bad echo": (lambda stage: stage.ask(fields={"echo": {"status": 200}}), *bad("echo.status")),
    "chunked": (chunked, 411, INVALID, INVALID, None, {}),
    "too large": (body_too_large, 413, INVALID, INVALID, None, {}),
    "not called JSON": (lambda stage: stage.ask(content_type="text/plain"), 415, INVALID, INVALID, None, {}),
    "a form": (lambda stage: stage.ask(content_type="multipart/form-data"), 415, INVALID, INVALID, None, {}),
    "not called anything": (lambda stage: stage.ask(content_type=""), 415, INVALID, INVALID, None, {}),
    # the path and the method
    "no such path": (lambda stage: stage.ask(path="/v1/embeddings"), *NO_PATH),
    "no such /api path": (lambda stage: stage.ask(path="/api/billing"), *NO_PATH),
    "a slash more": (lambda stage: stage.ask(path=f"{chat.PATH}/"), *NO_PATH),
    "wrong method": (lambda stage: stage.ask(method="GET"), 405, INVALID, INVALID, None, {"allow": "POST, OPTIONS"}),
    "wrong method on a list": (
        lambda stage: stage.ask(method="DELETE", path="/v1/models"),
        405,
        INVALID,
        INVALID,
        None,
        {"allow": "GET, HEAD, OPTIONS"},
    ),
    "bad parameter": (lambda stage: stage.ask(method="GET", path="/api/billing/ledger?limit=101"), *bad("limit")),
    # no key, wherever one is needed
    "no key for models": (lambda stage: Ask(None, "/v1/models", "GET"), *BAD_KEY),
    "no key for a model": (lambda stage: Ask(None, "/v1/models/a/b", "GET"), *BAD_KEY),
    "no key for usage": (lambda stage: Ask(None, "/v1/usage", "GET"), *BAD_KEY),
    "no key for balance": (lambda stage: Ask(None, "/api/billing/balance", "GET"), *BAD_KEY),
    "no key for ledger": (lambda stage: Ask(None, "/api/billing/ledger", "GET"), *BAD_KEY),
    # the model
    "unknown": (lambda stage: stage.ask(fields={"model": "demo/nobody"}), *NO_MODEL),
    "disabled": (lambda stage: stage.set_all(LanguageModel, is_enabled=False), *NO_MODEL),
    "unpriced": (unpriced, *NO_MODEL),
    "priced from tomorrow": (lambda stage: stage.set_all(Price, effective_from=Now() + timedelta(days=1)), *NO_MODEL),
    "no route": (unrouted, *NO_MODEL),
    "route disabled": (lambda stage: stage.set_all(Route, is_enabled=False), *NO_MODEL),
    "provider disabled": (lambda stage: stage.set_all(Provider, is_enabled=False), *NO_MODEL),
    "no credentials": (no_credentials, *NO_MODEL),
    "not for this key": (lambda stage: stage.set_key(allowed_models=["a/b"]), *NO_MODEL),
    "model page unknown": (lambda stage: stage.ask(method="GET", path="/v1/models/demo/nobody"), *NO_MODEL),
    # the rate
    "requests a minute": (lambda stage: stage.ask_first(requests_per_minute=1), *TOO_MUCH, rates("requests")),
    "tokens a minute": (lambda stage: stage.ask_first(tokens_per_minute=104), *TOO_MUCH, rates("tokens")),
    "more than a minute's tokens": (
        lambda stage: stage.set_key(tokens_per_minute=50),
        *TOO_MUCH,
        rates("tokens", **NEVER, **{"retry-after-ms": None}),
    ),
    # the money
    "account tied up": (tied_up_account, *TOO_MUCH, SOON),
    "window tied up": (tied_up_window, *TOO_MUCH, SOON),
    "FIXED limit": (lambda stage: stage.spend_limit("FIXED"), *TOO_MUCH, NEVER),
    "DAILY limit": (lambda stage: stage.spend_limit("RECURRING", "DAILY"), *TOO_MUCH, TO_RESET),
    "WEEKLY limit": (lambda stage: stage.spend_limit("RECURRING", "WEEKLY"), *TOO_MUCH, TO_RESET),
    "MONTHLY limit": (lambda stage: stage.spend_limit("RECURRING", "MONTHLY"), *TOO_MUCH, TO_RESET),
    "too few credits": (broke, *TOO_LITTLE),
    "in debt": (in_debt, *TOO_LITTLE),
    # the gateway
    "unforeseen": (lost_encryption_key, 500, "api_error", "internal_error", None, {}),
}

ALL_HEADERS = {"www-authenticate", "retry-after", "retry-after-ms", "x-should-retry", "allow"} | {
    f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")
}


ERRORS = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.ApiError)]


@pytest.fixture
def stage(alice: Account, settings: Any, monkeypatch: Any) -> Stage:
    return Stage(alice, settings, monkeypatch)


def assert_headers(reply: Any, expected: dict[str, str | None]) -> None:
    for name in ALL_HEADERS - {"allow"} | set(expected):
        pattern = expected.get(name)
        found = reply.headers.get(name)
        assert (found is None) if pattern is None else re.fullmatch(pattern, found or ""), (name, found)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("condition", TABLE)
def test_a_refusal_matches_the_table_and_writes_nothing(stage, condition, stream):
    arrange, status, type, code, param, headers = TABLE[condition]
    ask = arrange(stage)
    before = chat.everything_written()
    reply = ask.send(**({"stream": True} if stream else {}))
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
    ("told", "status", "type", "code"),
    [
        (500, 502, "api_error", "upstream_error"),
        (502, 502, "api_error", "upstream_error"),
        # They concern the gateway's own account at the provider, so the client can do nothing about them.
        (401, 502, "api_error", "upstream_error"),
        (402, 502, "api_error", "upstream_error"),
        (403, 502, "api_error", "upstream_error"),
        (404, 502, "api_error", "upstream_error"),
        (429, 503, "api_error", "upstream_error"),
        (503, 503, "api_error", "upstream_error"),
        (529, 503, "api_error", "upstream_error"),
        (408, 504, "api_error", "upstream_error"),
        (504, 504, "api_error", "upstream_error"),
        (400, 400, INVALID, INVALID),
        (422, 400, INVALID, INVALID),
    ],
)
def test_an_upstream_that_fails_costs_nothing(stage, told, status, type, code, stream):
    entries, accounts = (chat.everything_written()[table] for table in ("LedgerEntry", "Account"))
    reply = stage.ask(fields={"echo": {"status": told}}).send(stream=stream)
    assert chat.assert_error(reply, status, code)["type"] == type
    assert_headers(reply, {})
    after = chat.everything_written()
    assert (after["LedgerEntry"], after["Account"]) == (entries, accounts)
    assert [hold.state for hold in Hold.objects.all()] == [Hold.State.RELEASED]
    assert [(row.settlement, row.cost_nanos) for row in Completion.objects.all()] == [(Completion.Settlement.RELEASED, 0)]
    assert [(day.spent_nanos, day.held_nanos, day.completions) for day in SpendingDay.objects.all()] == [(0, 0, 0)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("known", [False, True], ids=["a new caller", "a known caller"])
def test_without_the_database_completions_reply_503(stage, known, stream):
    if known:
        assert stage.ask().send().status_code == 200
    before = chat.everything_written()
    reply = outage.where_the_database_is_away(lambda: stage.ask().send(stream=stream))
    assert chat.assert_error(reply, 503, "service_unavailable")["type"] == "api_error"
    assert_headers(reply, {"retry-after": "2"})
    assert chat.everything_written() == before


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/demo/echo", "/v1/usage", "/api/billing/balance", "/api/billing/ledger"]
)
def test_without_the_database_every_path_replies_503(stage, path):
    reply = outage.where_the_database_is_away(stage.ask(path=path, method="GET").send)
    chat.assert_error(reply, 503, "service_unavailable")
    assert reply["retry-after"] == "2"


def test_an_unexpected_exception_shows_only_the_request_id_and_is_logged(stage, caplog):
    reply = lost_encryption_key(stage).send()
    message = reply.json()["error"]["message"]
    assert message == f"Something went wrong on our side. Quote request {reply['x-request-id']}."
    [record] = [record for record in caplog.records if record.name == "gateway.api"]
    assert record.levelname == "ERROR"
    assert "Unreadable" in caplog.text
    assert "in find" in caplog.text  # the traceback


# --- The order: of two errors in one request, the first is reported -------------------------------------------------


def _no_key(stage: Stage, ask: Ask) -> None:
    ask.secret = None


def _bad_field(stage: Stage, ask: Ask) -> None:
    ask.fields["temperature"] = 3


def _no_model(stage: Stage, ask: Ask) -> None:
    LanguageModel.objects.update(is_enabled=False)


def _bad_for_the_provider(stage: Stage, ask: Ask) -> None:
    ask.fields["echo"] = "loud"


def _above_the_model(stage: Stage, ask: Ask) -> None:
    ask.fields["max_tokens"] = 4097


def _revoked(stage: Stage, ask: Ask) -> None:
    lifecycle.revoke_key(stage.key)


def _not_allowed(stage: Stage, ask: Ask) -> None:
    stage.set_key(allowed_models=["a/b"])


def _requests_used_up(stage: Stage, ask: Ask) -> None:
    stage.set_key(requests_per_minute=1, requests_full_at=Now() + timedelta(minutes=1))


def _tokens_used_up(stage: Stage, ask: Ask) -> None:
    stage.set_key(tokens_per_minute=5_000, tokens_full_at=Now() + timedelta(minutes=1))


def _limit_reached(stage: Stage, ask: Ask) -> None:
    stage.spend_limit("FIXED")


def _no_credits(stage: Stage, ask: Ask) -> None:
    broke(stage)


ORDER: list[tuple[Callable[[Stage, Ask], None], int, str]] = [
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
    (_limit_reached, 429, "spending limit"),
    (_no_credits, 402, "too few credits"),
]


@pytest.mark.parametrize(
    ("first", "second"), [pytest.param(*pair, id="".join(step[0].__name__ for step in pair)) for pair in combinations(ORDER, 2)]
)
def test_of_two_errors_the_first_in_order_is_reported(stage, first, second):
    ask = stage.ask()
    for wrong, _, _ in (second, first):
        wrong(stage, ask)
    before = chat.everything_written()
    reply = ask.send()
    assert reply.status_code == first[1]
    assert first[2] in reply.json()["error"]["message"]
    assert chat.everything_written() == before
