"""GET /api/billing/balance and GET /api/billing/ledger."""

import re
from datetime import UTC, datetime

import pytest

from billing import money
from billing.models import Account
from tests import factories, usage
from tests.conftest import client_for

BALANCE, LEDGER = "/api/billing/balance", "/api/billing/ledger"
MILLIS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_the_balance_in_cents_and_dollars(api):
    reply = api.get(BALANCE)
    assert reply.status_code == 200
    assert reply["Content-Type"] == "application/json"
    assert reply.json() == {"balanceInCents": 1000, "balanceInDollars": 10.0}


def test_the_balance_is_rounded_down(alice, api):
    usage.spend(alice, 1)
    assert api.get(BALANCE).json() == {"balanceInCents": 999, "balanceInDollars": 9.99}


def test_holds_do_not_lower_the_balance(alice, api):
    usage.place(alice, money.nanos(600))
    assert api.get(BALANCE).json()["balanceInCents"] == 1000


def test_a_balance_can_be_negative(bob):
    usage.refund(bob, 5, "re_1")
    usage.buy(bob, 2, "pi_1")
    reply = client_for(factories.make_key(bob)[1]).get(BALANCE)
    assert reply.json() == {"balanceInCents": -3, "balanceInDollars": -0.03}


def test_an_exhausted_account_still_sees_its_balance_and_ledger(bob):
    api = client_for(factories.make_key(bob)[1])
    assert api.get(BALANCE).json() == {"balanceInCents": 0, "balanceInDollars": 0.0}
    assert api.get(LEDGER).json() == {"entries": [], "limit": 10, "offset": 0, "count": 0}


def test_an_entry_has_exactly_the_specified_fields(alice, api):
    entry = alice.entries.get()
    (shown,) = api.get(LEDGER).json()["entries"]
    assert shown == {
        "id": str(entry.pk),
        "type": "SUPPORT_CREDIT",
        "amountInCents": 1000,
        "balanceAfterInCents": 1000,
        "metadata": {"reason": "test"},
        "createdAt": shown["createdAt"],
    }
    assert MILLIS.fullmatch(shown["createdAt"])
    shown_at = datetime.strptime(shown["createdAt"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert shown_at == entry.created_at.replace(microsecond=entry.created_at.microsecond // 1000 * 1000)


def test_every_type_of_entry_is_shown_with_its_sign_the_most_recent_first(bob):
    api = client_for(factories.make_key(bob)[1])
    usage.buy(bob, 2_000, "pi_1")
    usage.spend(bob, money.nanos(30))
    factories.credit(bob, 500)
    usage.refund(bob, 100, "re_1")
    entries = api.get(LEDGER).json()["entries"]
    assert [(each["type"], each["amountInCents"], each["balanceAfterInCents"]) for each in entries] == [
        ("REFUND_DEBIT", -100, 2_370),
        ("SUPPORT_CREDIT", 500, 2_470),
        ("USAGE_DEBIT", -30, 1_970),
        ("CREDIT_PURCHASE", 2_000, 2_000),
    ]
    assert len({each["id"] for each in entries}) == 4


def test_metadata_describes_usage_and_payments(bob):
    usage.buy(bob, 2_000, "pi_1")
    usage.spend(bob, 5)
    used, paid = client_for(factories.make_key(bob)[1]).get(LEDGER).json()["entries"]
    assert paid["metadata"] == {"stripePaymentId": "pi_1"}
    assert (used["metadata"]["model"], used["metadata"]["tokens"]) == ("demo/echo", 7)


def test_the_first_tiny_debit_shows_a_cent_and_the_next_none(alice, api):
    for _ in range(3):
        usage.spend(alice, 400_000)
    entries = api.get(LEDGER).json()["entries"]
    assert [(each["amountInCents"], each["balanceAfterInCents"]) for each in entries] == [
        (0, 999),
        (0, 999),
        (-1, 999),
        (1000, 1000),
    ]
    assert sum(each["amountInCents"] for each in entries) == api.get(BALANCE).json()["balanceInCents"]


@pytest.fixture
def busy(alice: Account) -> Account:
    """Give Alice 25 entries, whose references are numbered in order."""
    for _ in range(24):
        usage.spend(alice, 1)
    return alice


def ids(account: Account) -> list[str]:
    return [str(pk) for pk in account.entries.order_by("-seq").values_list("pk", flat=True)]


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ({}, 0, 10),
        ({"limit": 1}, 0, 1),
        ({"limit": 100}, 0, 25),
        ({"offset": 0}, 0, 10),
        ({"offset": 20}, 20, 25),
        ({"limit": 7, "offset": 7}, 7, 14),
        ({"offset": 24}, 24, 25),
        ({"offset": 25}, 25, 25),
        ({"offset": 10**30}, 25, 25),
    ],
)
def test_pages_of_the_ledger(busy, api, query, first, last):
    reply = api.get(LEDGER, query)
    assert reply.status_code == 200
    body = reply.json()
    assert [entry["id"] for entry in body.pop("entries")] == ids(busy)[first:last]
    assert body == {"limit": query.get("limit", 10), "offset": query.get("offset", 0), "count": last - first}


def test_a_page_costs_the_same_however_deep(busy, api, django_assert_num_queries):
    api.get(LEDGER)
    for offset in (0, 20, 1_000_000):
        with django_assert_num_queries(2):  # one for the key with its account, one for the entries
            api.get(LEDGER, {"offset": offset})


def test_unknown_parameters_are_ignored(api):
    assert api.get(LEDGER, {"page": 3}).status_code == 200
    assert api.get(BALANCE, {"limit": "abc"}).status_code == 200


@pytest.mark.parametrize(
    ("param", "value"),
    [("limit", value) for value in ("0", "101", "-1", "abc", "", "1.5", "1e1", "null", "9" * 1_500, "\x00")]
    + [("offset", value) for value in ("-1", "abc", "", "0.5", "9" * 1_500)],
)
def test_a_parameter_out_of_bounds_is_named(api, param, value):
    reply = api.get(LEDGER, {param: value})
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "code", "param"}
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_request_error", param)
    assert error["message"].startswith(f"{param} must ")


def test_another_accounts_entries_never_appear(alice, charlie, api):
    usage.spend(charlie, 5)
    entries = api.get(LEDGER, {"limit": 100}).json()["entries"]
    assert [entry["id"] for entry in entries] == ids(alice)
    assert client_for(factories.make_key(charlie)[1]).get(BALANCE).json()["balanceInCents"] == 999


@pytest.mark.parametrize("path", [BALANCE, LEDGER])
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_the_ledger_is_read_only(alice, api, path, method):
    before = usage.numbers(alice)
    reply = getattr(api, method)(path, {})
    assert reply.status_code == 405
    assert reply.json()["error"]["code"] == "invalid_request_error"
    assert usage.numbers(alice) == before


@pytest.mark.parametrize("path", [BALANCE, LEDGER])
def test_the_ledger_needs_a_key(path, db):
    reply = client_for(None).get(path)
    assert reply.status_code == 401
    assert reply.json()["error"]["code"] == "invalid_api_key"
    assert reply["WWW-Authenticate"] == "Bearer"
