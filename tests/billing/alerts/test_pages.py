"""The page of alerts: what was told and how, the threshold of the balance, webhooks; and how long a balance lasts."""

import re

import pytest
from django.http import Http404
from django.test import RequestFactory
from django.utils import timezone

from billing.alerts import deliveries, endpoints, summaries
from billing.models import AccountAlert, AlertDelivery, WebhookEndpoint
from gateway_project.activity.models import Activity
from tests import usage
from tests.pages.conftest import make_staff, owner, session_texts, signed_in  # noqa: F401  fixtures

pytestmark = pytest.mark.django_db

CENT = 10_000_000
PAGE = "/dashboard/alerts/"


def text(reply):
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split())


@pytest.fixture
def endpoint(owner):  # noqa: F811
    page = owner.post(f"{PAGE}webhooks/new/", {"url": "https://example.org/hooks/7f3a"}).content.decode()
    return WebhookEndpoint.objects.get(), re.search(r"whsec_[\w+/=]+", page)[0]


@pytest.fixture
def crossed(alice, settings):
    settings.SENDS_MAIL = True
    usage.spend(alice, 501 * CENT)


def test_a_warning_is_listed_with_its_deliveries(owner, alice, endpoint, crossed):  # noqa: F811
    deliveries.prepare()
    webhook, mail = AlertDelivery.objects.order_by("email")
    refused = deliveries.Attempt(12, "it answered 500", 500)
    deliveries.record(webhook, refused)
    deliveries.record(mail, deliveries.Attempt(3))
    page = text(owner.get(PAGE))
    assert "The balance fell below $5.00 It was $4.99 then." in page
    assert f"Delivered email to {alice.members.get().email}" in page
    assert "Waiting webhook to example.org" in page
    assert "7f3a" not in page  # what is in a path may be a secret
    page = text(owner.get(f"{PAGE}webhooks/{webhook.endpoint_id}/"))
    assert "it answered 500 (12 ms)" in page
    assert "https://example.org/hooks/7f3a" in page


def test_without_alerts_the_page_says_so(owner):  # noqa: F811
    assert "No alerts yet." in text(owner.get(PAGE))


def test_a_secret_is_shown_once_and_is_in_no_other_place(owner, endpoint):  # noqa: F811
    made, secret = endpoint
    assert secret not in owner.get(PAGE).content.decode() + owner.get(f"{PAGE}webhooks/{made.pk}/").content.decode()
    assert secret not in session_texts() + str(list(Activity.objects.values())) + made.sealed_secret
    page = owner.post(f"{PAGE}webhooks/{made.pk}/rotate/").content.decode()
    assert re.search(r"whsec_[\w+/=]+", page)[0] != secret
    assert "Former secret also signs until" in text(owner.get(f"{PAGE}webhooks/{made.pk}/"))


def test_an_address_that_nothing_is_sent_to_is_refused_with_the_reason(owner, settings):  # noqa: F811
    settings.GATEWAY_DEVELOPMENT, settings.PRIVATE_WEBHOOKS = False, []
    page = text(owner.post(f"{PAGE}webhooks/new/", {"url": "http://example.org/"}))
    assert "must begin with https:// and a host" in page
    assert not WebhookEndpoint.objects.exists()


def test_the_page_of_a_webhook_looks_again_until_its_test_was_sent(owner, endpoint):  # noqa: F811
    page, refreshing = f"{PAGE}webhooks/{endpoint[0].pk}/", '<meta http-equiv="refresh" content="5">'
    assert refreshing not in owner.get(page).content.decode()
    reply = owner.post(f"{page}test/", follow=True)
    assert refreshing in reply.content.decode()
    assert "This page refreshes every 5 seconds." in text(reply)
    deliveries.record(AlertDelivery.objects.get(), deliveries.Attempt(12, "it answered 500", 500))
    assert refreshing not in owner.get(page).content.decode()


def test_acts_on_a_webhook_are_in_the_activity_log(owner, alice, endpoint):  # noqa: F811
    address = f"{PAGE}webhooks/{endpoint[0].pk}/"
    for act, form in (("test", {}), ("pause", {"pause": ""}), ("pause", {"resume": ""}), ("rotate", {}), ("delete", {})):
        assert owner.post(f"{address}{act}/", form).status_code in (200, 302)
    acts = Activity.objects.filter(account_id=alice.pk, actor=alice.members.get()).order_by("pk").values_list("act", flat=True)
    changed = "ENDPOINT_CHANGED"
    assert list(acts) == ["ENDPOINT_MADE", "ENDPOINT_TESTED", changed, changed, changed, "ENDPOINT_DELETED"]
    log = str(list(Activity.objects.values()))
    assert "Created the webhook example.org." in log
    assert "7f3a" not in log  # what is in a path may be a secret, and the log is kept


def test_a_webhook_that_was_deleted_meanwhile_is_not_found(owner, endpoint):  # noqa: F811
    opened = WebhookEndpoint.objects.get()
    owner.post(f"{PAGE}webhooks/{opened.pk}/delete/")
    for act in (endpoints.rotate, endpoints.send_test, endpoints.delete):
        with pytest.raises(Http404):
            act(RequestFactory().post(PAGE), opened)


def test_alerts_are_changed_recorded_and_switched_off(owner, alice):  # noqa: F811
    for given, cents, factor in ((("7.50", "3"), 750, 3), (("", "3"), None, 3), (("", ""), None, None)):
        assert owner.post(f"{PAGE}threshold/", dict(zip(("threshold", "factor"), given, strict=True))).status_code == 302
        alice.refresh_from_db()
        assert (alice.warning_threshold_cents, alice.unusual_hour_factor) == (cents, factor)
    first, second, third = Activity.objects.filter(act="THRESHOLD_SET").order_by("pk")
    before, after = (
        {"warning_threshold_cents": cents, "unusual_hour_factor": factor} for cents, factor in ((500, 5), (750, 3))
    )
    assert (first.before, first.after) == (before, after)
    assert (
        first.summary == "Members get an alert when the balance falls below $7.50 and when a key spends 3 times its usual hour."
    )
    assert second.summary == "Members get an alert when a key spends 3 times its usual hour."
    assert third.summary == "Members get an alert neither of a low balance nor of an unusual hour."
    assert text(owner.get(PAGE)).count("Never") == 2


@pytest.mark.parametrize("given", ["1", "101", "0", "-5", "x", "2.5"])
def test_a_factor_of_the_usual_hour_is_bounded_and_stays_typed(owner, alice, given):  # noqa: F811
    page = owner.post(f"{PAGE}threshold/", {"threshold": "7.50", "factor": given})
    assert (page.status_code, f'value="{given}"' in page.content.decode()) == (200, True)
    alice.refresh_from_db()
    assert (alice.warning_threshold_cents, alice.unusual_hour_factor) == (500, 5)


@pytest.mark.parametrize("given", ["0", "-1", "x", "1.234"])
def test_a_threshold_that_is_no_positive_amount_is_refused(owner, alice, given):  # noqa: F811
    assert owner.post(f"{PAGE}threshold/", {"threshold": given}).status_code == 200
    alice.refresh_from_db()
    assert alice.warning_threshold_cents == 500


def test_every_page_says_that_the_balance_is_low(owner, alice):  # noqa: F811
    assert "The balance is below" not in text(owner.get("/dashboard/"))
    usage.spend(alice, 501 * CENT)
    for path in ("/dashboard/", "/dashboard/keys/", PAGE):
        assert "The balance is below $5.00 . Add credit or change the alert" in text(owner.get(path))


# --- How long the balance lasts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("balance_cents", "spent_cents", "words"),
    [
        (2_600, [100] * 7, "26 days"),
        (2_699, [100] * 7, "26 days"),
        (700, [0, 0, 300, 0, 200, 200, 0], "7 days"),
        (100, [100] * 7, "1 day"),
        (99, [100] * 7, "less than a day"),
        (36_500, [100] * 7, "365 days"),
        (36_600, [100] * 7, "more than a year"),
        (2_600, [0, 0, 0, 0, 0, 350, 350], ""),  # two days are no pace
        (2_600, [], ""),
        (0, [100] * 7, ""),
        (-5, [100] * 7, ""),
    ],
)
def test_how_long_a_balance_lasts_at_its_pace(balance_cents, spent_cents, words):
    assert summaries.describe_pace(balance_cents, spent_cents) == words


# --- For support --------------------------------------------------------------------------------------------------


def test_support_sees_what_was_told_and_what_became_of_it(alice, endpoint, crossed):
    deliveries.prepare()
    for delivery in AlertDelivery.objects.all():
        deliveries.record(delivery, deliveries.Attempt(7, "it answered 500", 500))
    address = f"/admin/billing/account/{alice.pk}/change/"
    page = text(signed_in(make_staff("a@example.org", ["billing.view_account", "billing.view_accountwarning"])).get(address))
    assert "The balance fell below $5.00" in page
    assert "example.org: waiting (it answered 500, 7 ms)" in page
    assert "7f3a" not in page
    page = text(signed_in(make_staff("b@example.org", ["billing.view_account"])).get(address))
    assert "fell below" not in page


def test_every_kind_of_alert_has_its_words(owner, alice):  # noqa: F811
    of_run = {"key_id": "x", "key_name": "<b>", "budget_nanos": 1, "spent_nanos": 1}
    of_month = {"tag": "web", "member": "m@example.org", "budget_nanos": 1, "spent_nanos": 1, "stops": True}
    of_month["resets_at"] = "2027-01-01T00:00:00+00:00"
    facts = {
        "BALANCE_LOW": {"threshold_nanos": 1, "balance_nanos": -1},
        "TOP_UP_STOPPED": {"reason": "declined"},
        "PAYMENT_TAKEN_BACK": {"reason": "Payment refunded", "amount_nanos": 1},
        "PRICE_CHANGED": {
            "model": "acme/large",
            "direction": "rise",
            "change": "input $1 -> $2",
            "starts_at": "2027-01-01T00:00:00",
        },
        "MODEL_ENDS": {"model": "acme/large", "ends_on": "2027-03-01", "successor": None},
        "TEST": {},
        **dict.fromkeys(("RUN_NEAR_BUDGET", "RUN_AT_BUDGET"), of_run | {"run": "nightly", "percent": 100}),
        "MONTH_NEAR_BUDGET": of_month | {"percent": 80, "scope": "TAG"},
        "MONTH_AT_BUDGET": of_month | {"percent": 100, "scope": "MEMBER", "stops": False},
        "KEY_HOUR_UNUSUAL": {
            **{"key_id": "x", "key_name": "Nightly", "spent_nanos": 5 * 10**9, "usual_nanos": 10**9},
            "starts_at": "2027-01-01T14:00:00",
        },
    }
    key = {"key_id": "x", "key_name": "<b>", "percent": 80, "limit_nanos": 1, "spent_nanos": 1}
    for kind in set(AccountAlert.Kind) - set(AccountAlert.NOTICES):
        data = facts.get(kind.value, {**key, "period": None, "resets_at": None})
        AccountAlert.objects.create(account=alice, kind=kind, data=data, prepared_at=timezone.now())
    page = text(owner.get(PAGE))
    for words in (
        "The balance fell",
        "&lt;b&gt; has spent 80 %",
        "has spent its limit",
        "stopped",
        "taken back",
        "gets dearer",
        "ends on",
        "A test",
        "The run nightly has spent its budget",
        "80 % of the monthly budget of keys with the tag web is spent",
        "will be refused from 100 % until 2027-01-01 at 00:00 UTC",
        "The monthly budget of the keys of m@example.org is spent",
        "Nightly spent $5.00 in an hour, 5 times as much as usual Its usual hour is up to $1.00. This one began at 14:00 UTC.",
    ):
        assert words in page
