"""Members are told when a key spends far more in an hour than it uses to: once, and only if it has a usual hour."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.core import mail
from django.db import connections

from billing import tasks as billing_tasks
from billing.alerts import endpoints, payload
from billing.models import Account, AccountAlert, AlertDelivery
from completions import tasks
from completions.models import UsageHour
from completions.usage import unusual
from gateway_project.db import pool
from gateway_project.text import dollars
from tests import chat, factories
from tests.billing.alerts.deliveries import request_of_owner  # noqa: F401  a fixture
from tests.pages.conftest import make_staff, owner_of, signed_in

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
NOW = datetime(2026, 11, 20, 14, 37, tzinfo=UTC)
THIS_HOUR = NOW.replace(minute=0)
CENT = 10_000_000


@pytest.fixture(autouse=True)
def _hosts(settings):
    settings.GATEWAY_API_HOST = settings.GATEWAY_BASE_HOST = "testserver"
    settings.SENDS_MAIL = True


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Return a function that sets the time, which begins at NOW."""
    at = [NOW]
    monkeypatch.setattr(pool, "database_time", lambda: at[0])

    def set_time(moment):
        at[0] = moment

    return set_time


@pytest.fixture
def key(alice):
    return factories.make_key(alice, "Nightly")[0]


def spend(key, cents, at=THIS_HOUR, model="acme/large"):
    zero = dict.fromkeys(("errors", "prompt_tokens", "completion_tokens", "first_tokens", "first_token_ms"), 0)
    UsageHour.objects.create(
        account=key.account, key_id=key.pk, model_id=model, hour=at, requests=1, cost_nanos=cents * CENT, **zero
    )


def use_to_spend(key, *cents, until=THIS_HOUR):
    for number, each in enumerate(cents, 1):
        spend(key, each, until - number * HOUR)


def told():
    """Run the task. Return the alerts that it wrote, as facts."""
    before = set(AccountAlert.objects.values_list("pk", flat=True))
    written = tasks.tell_unusual_hours()
    alerts = AccountAlert.objects.exclude(pk__in=before)
    assert {each.kind for each in alerts} <= {"KEY_HOUR_UNUSUAL"}
    assert alerts.count() == written
    return sorted(
        (each.data["key_name"], each.data["spent_nanos"] // CENT, each.data["usual_nanos"] // CENT) for each in alerts
    )


@pytest.mark.parametrize(
    ("usual", "spent_cents", "expected"),
    [
        ([100] * 24, 500, [("Nightly", 500, 100)]),
        ([100] * 24, 499, []),  # not 5 times as much
        ([100] * 23, 5_000, []),  # too few hours
        ([10] * 24, 499, []),  # below the floor
        ([10] * 24, 500, [("Nightly", 500, 10)]),
        ([0] * 100 + [10] * 23, 5_000, []),  # an hour without spending is none
        ([100] * 23 + [2_000], 600, [("Nightly", 600, 100)]),  # one dear hour does not make it usual
        ([100] * 22 + [2_000] * 2, 600, []),  # two of 24 do
        ([100] * 95 + [2_000] * 5, 600, [("Nightly", 600, 100)]),  # 19 of 20 stayed within
        ([100] * 94 + [2_000] * 6, 600, []),
        ([], 5_000, []),
    ],
)
def test_an_hour_is_unusual_from_a_floor_and_a_factor_of_what_is_usual(key, usual, spent_cents, expected):
    use_to_spend(key, *usual)
    spend(key, spent_cents)
    assert told() == expected


def test_spending_is_added_up_over_models_and_told_once_for_24_hours(key, clock):
    use_to_spend(key, *[100] * 24)
    spend(key, 250)
    assert told() == []
    spend(key, 250, model="demo/echo")
    assert told() == [("Nightly", 500, 100)]
    assert told() == []
    spend(key, 900, THIS_HOUR + HOUR)
    clock(NOW + HOUR)
    assert told() == []
    spend(key, 3_000, THIS_HOUR + 25 * HOUR)
    AccountAlert.objects.update(created_at=NOW)
    clock(NOW + 25 * HOUR)
    assert told() == [("Nightly", 3_000, 500)]


def test_the_hour_before_is_told_if_its_sums_came_late_and_an_older_one_is_not(key, alice):
    second, _ = factories.make_key(alice, "second")
    for each, hours in ((key, 1), (second, 2)):
        use_to_spend(each, *[100] * 24, until=THIS_HOUR - hours * HOUR)
        spend(each, 700, THIS_HOUR - hours * HOUR)
    assert told() == [("Nightly", 700, 100)]


def test_hours_older_than_28_days_and_other_keys_are_not_compared_with(key, alice):
    second, _ = factories.make_key(alice, "second")
    use_to_spend(second, *[10] * 24)
    use_to_spend(key, *[10] * 24, until=THIS_HOUR - 28 * 24 * HOUR)
    spend(key, 700)
    assert told() == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"unusual_hour_factor": None}, []),
        ({"unusual_hour_factor": 8}, []),
        ({"unusual_hour_factor": 7}, [("Nightly", 700, 100)]),
        ({"is_active": False}, []),
    ],
)
def test_the_account_sets_the_factor_or_no_alert(key, fields, expected):
    Account.objects.update(**fields)
    use_to_spend(key, *[100] * 24)
    spend(key, 700)
    assert told() == expected


@pytest.mark.django_db(transaction=True)
def test_two_runs_at_once_write_it_once(key):
    use_to_spend(key, *[100] * 24)
    spend(key, 700)

    def run(_):
        try:
            return unusual.tell()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as both:
        assert sorted(both.map(run, range(2))) == [0, 1]
    assert AccountAlert.objects.count() == 1


def test_completions_that_cost_far_more_than_usual_are_mailed_and_posted(request_of_owner, alice, api, echo_model, monkeypatch):  # noqa: F811
    monkeypatch.undo()  # the clock is the real one
    factories.credit(alice, 100_000)
    factories.make_price(echo_model, input="9000", output="9000")
    endpoint, _ = endpoints.make(request_of_owner, alice, "https://example.org/hook")
    [key] = alice.keys.all()
    hour = pool.database_time().replace(minute=0, second=0, microsecond=0)
    use_to_spend(key, *[20] * 24, until=hour)
    messages = [{"role": "user", "content": "Think of every step. " * 200}]
    used = chat.ask(api, messages=messages).json()["usage"]["total_tokens"]
    cost_nanos = used * 9_000_000
    tasks.sum_up_usage()
    assert tasks.tell_unusual_hours() == 1
    alert = AccountAlert.objects.get(kind="KEY_HOUR_UNUSUAL")
    sent = json.loads(payload.encode(alert))
    assert sent["type"] == "key.hour_unusual"
    assert sent["data"] == {
        "accountId": str(alice.pk),
        "keyId": key.pk,
        "keyName": key.name,
        "startsAt": f"{hour:%Y-%m-%dT%H:00:00Z}",
        "factor": 5,
        "spentInDollars": dollars.format_plain(cost_nanos),
        "usualInDollars": "0.20",
        "keyUrl": f"http://testserver/dashboard/keys/{key.pk}/",
        "requestsUrl": f"http://testserver/dashboard/requests/?key={key.pk}&since={hour:%Y-%m-%d}&until={hour:%Y-%m-%d}",
    }
    billing_tasks.mail_warnings()
    [email] = [each for each in mail.outbox if " times as much as usual" in each.subject]
    assert sent["data"]["keyUrl"] in email.body
    assert sent["data"]["requestsUrl"] in email.body
    assert AlertDelivery.objects.filter(alert=alert, endpoint=endpoint).count() == 1
    owner = signed_in(owner_of(alice))
    page = owner.get("/dashboard/alerts/").content.decode()
    assert f"{key.name} spent $" in page
    assert f'href="/dashboard/keys/{key.pk}/"' in page
    assert owner.get(sent["data"]["requestsUrl"].removeprefix("http://testserver")).status_code == 200
    support = signed_in(make_staff("a@example.org", ["billing.view_account", "billing.view_accountwarning"]))
    assert (
        "when a key spends 5 times its usual hour" in support.get(f"/admin/billing/account/{alice.pk}/change/").content.decode()
    )
