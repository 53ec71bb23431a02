"""/api/keys, as a program sees it: each reply, the rows, and the lines of the activity log."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing.models import Account
from gateway_project.activity.models import Activity
from keys import lifecycle, rotation, secret
from keys.models import ApiKey, FormerSecret
from keys.spending_limit import SpendingLimit
from tests import factories
from tests.cases import undone
from tests.conftest import client_for
from tests.pages.conftest import rows  # noqa: F401  fixture
from tests.pages.dashboard_pages import use

KEYS = "/api/keys"
CHAT = {"model": "demo/echo", "messages": [{"role": "user", "content": "Hello"}]}
LIMIT = {"spendingLimit": 500, "spendingType": "RECURRING", "spendingPeriod": "MONTHLY"}
NEW = {
    "id": str,
    "name": "build",
    "state": "active",
    "lastFour": str,
    "createdAt": str,
    "expiresAt": None,
    "lifetimeDaysMax": None,
    "pausedAt": None,
    "revokedAt": None,
    "formerSecretsEndAt": None,
    "spendingLimit": None,
    "spendingType": None,
    "spendingPeriod": None,
    "window": None,
    "spentInDollars": "0.00",
    "lastUsedOn": None,
    "requestsPerMinute": None,
    "tokensPerMinute": None,
    "allowedModels": None,
    "tags": [],
    "dataPolicy": None,
    "dataRegions": None,
}


@pytest.fixture
def key(alice):
    return factories.make_key(alice, "laptop")[0]


def acts():
    return list(Activity.objects.order_by("id").values_list("act", "summary", "program", "actor"))


def assert_wrong(reply, param, words):
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (400, "invalid_request_error", param), error
    assert words in error["message"]
    assert error["message"].startswith(param)


# --- Make -----------------------------------------------------------------------------------------------------------


def test_a_key_is_made_with_defaults_and_its_secret_completes(api, manager, alice, echo_model):
    reply = api.post(KEYS, {"name": "build"})
    assert reply.status_code == 201
    made = reply.json()
    minted = made.pop("secret")
    assert made == {name: made[name] if value is str else value for name, value in NEW.items()}
    assert (secret.key_id(minted), minted[-4:]) == (made["id"], made["lastFour"])
    assert client_for(minted).post("/v1/chat/completions", CHAT).status_code == 200
    row = ApiKey.objects.get()
    assert (row.account, row.created_by) == (alice, None)
    program = f"management key terraform (...{manager[0].last_four})"
    assert acts() == [("KEY_MADE", "Created the key with no limit.", program, None)]


def test_a_key_is_made_with_everything(api, echo_model):
    ends = (timezone.now() + timedelta(days=3)).replace(microsecond=0)
    asked = {
        "name": "build",
        "expiresAt": ends.isoformat(),
        **LIMIT,
        "requestsPerMinute": 60,
        "tokensPerMinute": 9_000,
        "allowedModels": ["demo/echo", "demo/echo"],
        "tags": ["web", "two words", "web"],
    }
    made = api.post(KEYS, asked).json()
    assert datetime.fromisoformat(made["expiresAt"]) == ends
    assert {name: made[name] for name in (*LIMIT, "requestsPerMinute", "tokensPerMinute", "allowedModels", "tags")} == {
        **LIMIT,
        "requestsPerMinute": 60,
        "tokensPerMinute": 9_000,
        "allowedModels": ["demo/echo"],
        "tags": ["web", "two words"],
    }
    window = made["window"]
    assert (window["spentInDollars"], window["heldInDollars"], window["remainingInCents"]) == ("0.00", "0.00", 500)
    assert window["resetsAt"].endswith("-01T00:00:00.000Z")


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("name", {"name": None}),
    ("name", {"name": ""}),
    ("name", {"name": 5}),
    ("name", {"name": "x" * 101}),
    ("expiresAt", {"expiresAt": "2020-01-01T00:00:00Z"}),
    ("expiresAt", {"expiresAt": "2099-01-01T00:00:00"}),
    ("expiresAt", {"expiresAt": 5}),
    ("expiresAt", {"expiresAt": "9999-12-31T23:59:59-12:00"}),  # in the year 10000 of UTC
    ("expiresAt", {"expiresAt": "9999-12-31T23:59:59-23:59"}),
    *(("spendingLimit", {**LIMIT, "spendingLimit": value}) for value in (-1, "5", 5.0, True, 922_337_203_686, None)),
    *(("spendingType", {**LIMIT, "spendingType": value}) for value in ("fixed", "", None, 1)),
    *(("spendingPeriod", {**LIMIT, "spendingPeriod": value}) for value in ("YEARLY", None, 1)),
    ("spendingPeriod", {**LIMIT, "spendingType": "FIXED"}),
    ("spendingType", {"spendingLimit": 5}),
    ("spendingLimit", {"spendingType": "FIXED"}),
    *((name, {name: value}) for name in ("requestsPerMinute", "tokensPerMinute") for value in (0, -1, "5", 2**31, 61)),
    ("allowedModels", {"allowedModels": "demo/echo"}),
    ("allowedModels", {"allowedModels": ["no/such"]}),
    ("allowedModels", {"allowedModels": ["x"] * 101}),
    ("allowedModels.0", {"allowedModels": [5]}),
    ("tags", {"tags": ["t"] * 11}),
    ("tags.0", {"tags": ["x" * 41]}),
    ("tags.0", {"tags": ["a,b"]}),
    *(("dataPolicy", {"dataPolicy": value}) for value in ("", "allow", "ZDR", True)),
    ("dataRegions", {"dataRegions": "eu"}),
    ("dataRegions", {"dataRegions": ["eu"] * 11}),
    *(("dataRegions.0", {"dataRegions": [value]}) for value in ("EU", "eur", "e1", 5)),
    ("limit", {"limit": 5}),
]


def test_what_is_wrong_is_refused_by_its_field_and_changes_nothing(api, key, rows, subtests):  # noqa: F811
    Account.objects.update(requests_per_minute=60, tokens_per_minute=60)
    api.get(KEYS)  # notes the use
    before = rows()
    for param, fields in WRONG:
        with subtests.test(str(fields)[:60]), undone():
            assert_wrong(api.post(KEYS, {"name": "x", **fields}), param, "")
            assert_wrong(api.patch(f"{KEYS}/{key.pk}", fields), param, "")
            assert rows() == before


def test_a_body_must_be_an_object(api):
    assert api.post(KEYS).status_code == 400
    assert api.post(KEYS, [1]).status_code == 400
    assert api.post(KEYS, "name=x", content_type="application/x-www-form-urlencoded").status_code == 415
    assert not ApiKey.objects.exists()


# --- Read -----------------------------------------------------------------------------------------------------------


def test_keys_are_listed_in_pages_with_the_revoked_ones_last(api, alice, charlie):
    made = [factories.make_key(alice, f"key {number}")[0] for number in range(3)]
    factories.make_key(charlie)
    lifecycle.revoke_key(made[2])
    names = [["key 1", "key 0"], ["key 2"], []]
    for page, expected in enumerate(names):
        reply = api.get(KEYS, {"limit": 2, "offset": 2 * page}).json()
        assert [each["name"] for each in reply.pop("keys")] == expected
        assert reply == {"limit": 2, "offset": 2 * page, "count": len(expected)}
    assert api.get(KEYS).json()["limit"] == 10
    for wrong in ({"limit": 0}, {"limit": 101}, {"offset": -1}):
        assert api.get(KEYS, wrong).status_code == 400


def test_a_list_takes_as_many_queries_for_many_keys_as_for_one(api, alice, key):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            api.get(KEYS, {"limit": 100})
        return len(captured)

    queries()
    few = queries()
    for number in range(20):
        factories.make_key(alice, f"key {number}", limit_cents=5, type="FIXED")
    assert queries() == few


def test_a_key_shows_what_it_spent(api, alice):
    key, _ = factories.make_key(alice, limit_cents=500, type="FIXED")
    use(key, cost_nanos=1_250_000_001)
    shown = api.get(f"{KEYS}/{key.pk}").json()
    assert shown["window"] == {
        "spentInDollars": "1.250000001",
        "heldInDollars": "0.00",
        "remainingInCents": 374,
        "remainingInDollars": "3.749999999",
        "resetsAt": None,
    }
    assert (shown["spentInDollars"], shown["lastUsedOn"]) == ("1.250000001", timezone.now().date().isoformat())


# --- Change ---------------------------------------------------------------------------------------------------------


def test_only_what_is_given_is_changed(api, manager, key, echo_model):
    lifecycle.set_spending_limit(key, SpendingLimit(700, "FIXED"))
    reply = api.patch(f"{KEYS}/{key.pk}", {"name": "server", "tags": ["web"], "allowedModels": ["demo/echo"]})
    assert reply.status_code == 200
    shown = reply.json()
    names = ("name", "tags", "allowedModels", "spendingLimit")
    assert [shown[name] for name in names] == ["server", ["web"], ["demo/echo"], 700]
    cleared = api.patch(f"{KEYS}/{key.pk}", {"tags": None, "allowedModels": [], "spendingLimit": None}).json()
    assert [cleared[name] for name in names] == ["server", [], None, None]
    program = f"management key terraform (...{manager[0].last_four})"
    assert [(act, summary) for act, summary, *_ in acts()] == [
        ("KEY_CHANGED", "Changed the name, models, tags."),
        ("KEY_CHANGED", "Changed the models, tags."),
        ("KEY_LIMITED", "Set the spending limit to no limit; it was $7.00 in total."),
    ]
    assert {by for *_, by, _ in acts()} == {program}


def test_a_spending_limit_is_set_as_a_whole(api, key):
    assert api.patch(f"{KEYS}/{key.pk}", LIMIT).json()["spendingPeriod"] == "MONTHLY"
    fixed = api.patch(f"{KEYS}/{key.pk}", {"spendingLimit": 0, "spendingType": "FIXED"}).json()
    assert (fixed["spendingLimit"], fixed["spendingType"], fixed["spendingPeriod"]) == (0, "FIXED", None)
    assert_wrong(api.patch(f"{KEYS}/{key.pk}", {"spendingLimit": 900}), "spendingType", "FIXED or RECURRING")


def test_a_refused_change_changes_nothing_of_it(api, key, rows):  # noqa: F811
    api.get(KEYS)  # notes the use
    before = rows()
    assert_wrong(api.patch(f"{KEYS}/{key.pk}", {"name": "server", "spendingLimit": 5}), "spendingType", "")
    assert rows() == before


# --- Pause, rotate, revoke ------------------------------------------------------------------------------------------


def test_a_key_is_paused_and_resumed(api, key):
    paused = api.post(f"{KEYS}/{key.pk}/pause").json()
    assert (paused["state"], api.post(f"{KEYS}/{key.pk}/pause").json()) == ("paused", paused)
    resumed = api.post(f"{KEYS}/{key.pk}/resume").json()
    assert (resumed["state"], resumed["pausedAt"]) == ("active", None)
    assert [act for act, *_ in acts()] == ["KEY_PAUSED", "KEY_RESUMED"]


@pytest.mark.parametrize(("body", "hours"), [(None, 24), ({}, 24), ({"graceSeconds": 3600}, 1), ({"graceSeconds": 0}, 0)])
def test_a_key_is_rotated(api, key, body, hours):
    rotated = api.post(f"{KEYS}/{key.pk}/rotate", body).json()
    assert rotation.find_key(rotated["secret"]) == key
    assert rotated["lastFour"] == rotated["secret"][-4:]
    former = FormerSecret.objects.get()
    assert abs(former.ends_at - former.rotated_at - timedelta(hours=hours)) < timedelta(minutes=1)
    assert (rotated["formerSecretsEndAt"] is None) == (hours == 0)


@pytest.mark.parametrize("value", [-1, 604_801, "5", None, True, 1.5])
def test_a_wrong_grace_period_is_refused(api, key, value):
    assert_wrong(api.post(f"{KEYS}/{key.pk}/rotate", {"graceSeconds": value}), "graceSeconds", "")
    assert not FormerSecret.objects.exists()


def test_a_chunked_body_is_refused_as_its_grace_period_would_not_be_read(api, key):
    headers = {"HTTP_TRANSFER_ENCODING": "chunked"}
    refused = api.generic("POST", f"{KEYS}/{key.pk}/rotate", content_type="application/json", **headers)
    assert (refused.status_code, refused.json()["error"]["type"]) == (411, "invalid_request_error")
    assert not FormerSecret.objects.exists()


def test_a_key_with_too_many_secrets_is_not_rotated(api, key):
    for _ in range(rotation.WORKING_MAX):
        assert api.post(f"{KEYS}/{key.pk}/rotate").status_code == 200
    assert_wrong(api.post(f"{KEYS}/{key.pk}/rotate"), "graceSeconds", "5 former secrets")
    assert api.post(f"{KEYS}/{key.pk}/rotate", {"graceSeconds": 0}).status_code == 200


def test_a_revoked_key_stays_revoked_and_is_not_changed(api, key):
    revoked = api.post(f"{KEYS}/{key.pk}/revoke").json()
    assert revoked["state"] == "revoked"
    assert api.post(f"{KEYS}/{key.pk}/revoke").json() == revoked
    for reply in (
        api.patch(f"{KEYS}/{key.pk}", {"name": "x"}),
        api.patch(f"{KEYS}/{key.pk}", LIMIT),
        *(api.post(f"{KEYS}/{key.pk}/{act}") for act in ("pause", "resume", "rotate")),
    ):
        assert reply.status_code == 400
        assert "The key is revoked" in reply.json()["error"]["message"]
    assert [act for act, *_ in acts()] == ["KEY_REVOKED"]


@pytest.mark.parametrize("act", ["", "/pause", "/resume", "/rotate", "/revoke"])
@pytest.mark.parametrize("whose", ["charlie", "nobody"])
def test_a_key_of_another_account_does_not_exist(api, charlie, rows, act, whose):  # noqa: F811
    key_id = factories.make_key(charlie)[0].pk if whose == "charlie" else "0" * 22
    api.get(KEYS)  # notes the use
    before = rows()
    replies = (
        [api.post(f"{KEYS}/{key_id}{act}")]
        if act
        else [api.get(f"{KEYS}/{key_id}"), api.patch(f"{KEYS}/{key_id}", {"name": "x"})]
    )
    for reply in replies:
        assert reply.status_code == 404
        assert reply.json()["error"]["message"] == "The account has no key with this ID."
    assert rows() == before
