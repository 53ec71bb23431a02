"""Every refusal, in one table with a row for each condition, and the order in which refusals are decided.

A refusal writes nothing. A streamed request is refused like any other, before the stream begins.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from billing.models import Hold
from completions.models import Completion, LanguageModel
from gateway_project.db import pool
from keys import lifecycle
from keys.models import SpendingDay
from tests import chat, outage, usage
from tests.completions.rows import lost_nanos
from tests.error_table import (
    ERRORS,
    GROUPS,
    INVALID,
    TABLE,
    Request,
    Scenario,
    arranged,
    assert_headers,
    broke,
    malformed_encryption_key,
    scenario,
    too_much_unpaid,
)

__all__ = ["scenario"]


# --- Conditions: each changes the scenario and returns a request -----------------------------------------------------


# --- The table ----------------------------------------------------------------------------------------------------


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
