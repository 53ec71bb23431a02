"""What accounts are told of models that they used: prices that rise and fall, ends and successors. Each once, to those only."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connections

from billing import tasks as billing_tasks
from billing.alerts import endpoints, payload
from billing.models import AccountAlert, AlertDelivery
from completions import tasks
from completions.catalog import change_alerts
from completions.models import LanguageModel, UsageHour
from completions.public import facts
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from tests import chat, factories
from tests.billing.alerts.deliveries import request_of_owner  # noqa: F401  a fixture
from tests.completions.catalog.admin_forms import model_fields, url
from tests.conftest import client_for
from tests.pages.conftest import make_staff, owner_of, signed_in, superuser  # noqa: F401  a fixture
from tests.pages.desk_pages import panel

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
MODEL = "demo/echo"


@pytest.fixture(autouse=True)
def _hosts(settings):
    settings.GATEWAY_API_HOST = settings.GATEWAY_BASE_HOST = "testserver"
    settings.SENDS_MAIL = True


@pytest.fixture
def model(echo_model):
    """A model with prices of input, 0.50, and of output, 1.50."""
    return LanguageModel.objects.get(pk=MODEL)


@pytest.fixture
def used(alice, api, model):
    """Let an account use the model, and return it. Bob and Charlie have accounts, and did not."""
    chat.ask(api)
    tasks.sum_up_usage()
    return alice


@pytest.fixture
def later(monkeypatch):
    """Return a function that lets days pass."""
    passed, clock = [timedelta()], pool.database_time
    monkeypatch.setattr(pool, "database_time", lambda: clock() + passed[0])

    def pass_time(days):
        passed[0] += days * DAY

    return pass_time


def plan(model, ahead_days, **values):
    """Return a new price: input 0.50 and output 1.50 as before, but for some values."""
    since = pool.database_time() + ahead_days * DAY if ahead_days else None
    return factories.make_price(model, since=since, **{"input": "0.50", "output": "1.50", **values})


def told():
    """Run the task. Return the alerts that it wrote, in words."""
    before = set(AccountAlert.objects.values_list("pk", flat=True))
    written = tasks.tell_changes()
    alerts = AccountAlert.objects.filter(kind__in=AccountAlert.SUMMED).exclude(pk__in=before)
    assert alerts.count() == written
    return sorted((each.account.name, each.kind, payload.describe(each).title) for each in alerts)


def mailed():
    billing_tasks.mail_warnings()
    sent, mail.outbox[:] = list(mail.outbox), []
    return sent


def rise(account="Alice"):
    return account, "PRICE_CHANGED", f"{MODEL} gets dearer"


def fall(account="Alice"):
    return account, "PRICE_CHANGED", f"{MODEL} gets cheaper"


# --- Prices -------------------------------------------------------------------------------------------------------

BAND = {"input_above_200000": "2.00", "output_above_200000": "3.00"}
CASES = [
    ("a rise known 10 days ahead", 10, {"input": "0.60"}, {0: [], 1.9: [], 2.1: [rise()], 11: []}),
    ("a rise known 3 days ahead", 3, {"output": "1.60"}, {0: [rise()], 2: [], 4: []}),
    ("a rise at once", 0, {"input": "0.60"}, {0: [rise()], 1: []}),
    ("a fall", 5, {"input": "0.40"}, {0: [], 4.9: [], 5.1: [fall()], 6: []}),
    ("one rate rises, another falls", 3, {"input": "0.60", "output": "1.00"}, {0: [rise()], 4: []}),
    ("cached input loses its rate", 3, {}, {0: [rise()], 4: []}),
    ("a tier is offered", 2, {"priority_input": "0.90", "priority_output": "3.00"}, {0: [], 2.1: []}),
    ("a search is offered", 2, {"web_search": "0.01"}, {0: [], 2.1: []}),
    ("an offered flex tier gets dearer", 2, {"flex_input": "0.30", "flex_output": "0.60"}, {0: [rise()], 2.1: []}),
    ("an offered flex tier gets cheaper", 2, {"flex_input": "0.10", "flex_output": "0.60"}, {0: [], 2.1: [fall()]}),
    ("a dearer band is added", 7, BAND, {0: [rise()], 8: []}),
    ("a rate that was the same is stated", 2, {"cache_write": "0.50"}, {0: [], 2.1: []}),
]


@pytest.mark.parametrize(("ahead_days", "values", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_change_of_a_price_is_told_once_and_in_time_to_those_who_used_the_model(
    used, bob, charlie, model, later, ahead_days, values, expected, request
):
    is_cached = "cached" in request.node.callspec.id
    if is_cached:
        plan(model, 0, cached_input="0.10")
        told()
    if "flex" in request.node.callspec.id:
        plan(model, 0, flex_input="0.20", flex_output="0.60")
        assert told() == []
    plan(model, ahead_days, **values)
    found, passed = {}, 0
    for day in expected:
        later(day - passed)
        passed = day
        found[day] = told()
    assert found == expected


def test_an_alert_has_both_prices_and_is_one_webhook(used, model, request_of_owner):  # noqa: F811
    endpoint, _ = endpoints.make(request_of_owner, used, "https://example.org/hook")
    price = plan(model, 3, input="0.60", flex_input="0.30", flex_output="0.90")
    assert told() == [rise()]
    [alert] = AccountAlert.objects.filter(kind="PRICE_CHANGED")
    sent = json.loads(payload.encode(alert))
    assert sent["type"] == "price.changed"
    assert sent["data"] == {
        "accountId": str(used.pk),
        "model": MODEL,
        "priceId": price.pk,
        "direction": "rise",
        "change": "input $0.50 -> $0.60 (+20 %), input of the flex tier none -> $0.30 (-40 %),"
        " output of the flex tier none -> $0.90 (-40 %)",
        "before": {"input": "0.50", "output": "1.50"},
        "after": {"input": "0.60", "output": "1.50", "flex_input": "0.30", "flex_output": "0.90"},
        "startsAt": f"{price.effective_from:%Y-%m-%dT%H:%M:%S}Z",
    }
    mailed()
    assert [(each.alert_id, each.email) for each in endpoint.deliveries.all()] == [(alert.pk, "")]


def test_whoever_did_not_use_it_lately_or_began_afterwards_is_not_told(used, model, later):
    UsageHour.objects.update(hour=pool.database_time() - 31 * DAY)
    plan(model, 3, input="0.60")
    assert told() == []
    UsageHour.objects.update(hour=pool.database_time() + 4 * DAY)
    later(5)
    assert told() == []
    UsageHour.objects.update(hour=pool.database_time() - 3 * DAY)
    assert told() == [rise()]


def test_a_closed_account_and_a_disabled_model_are_passed_over(used, model):
    plan(model, 3, input="0.60")
    LanguageModel.objects.update(is_enabled=False)
    assert told() == []
    LanguageModel.objects.update(is_enabled=True)
    used.is_active = False
    used.save(update_fields=["is_active"])
    assert told() == []


def test_a_price_that_is_withdrawn_is_told_to_those_who_were_told_of_it(used, model, later, charlie):
    price = plan(model, 5, input="0.60")
    assert told() == [rise()]
    client = client_for(factories.make_key(charlie)[1])
    chat.ask(client)
    tasks.sum_up_usage()
    UsageHour.objects.filter(account=used).delete()
    price.delete()
    later(6)
    assert told() == [("Alice", "PRICE_CHANGED", f"{MODEL}: the announced price is withdrawn")]
    assert told() == []


def test_a_price_that_is_replaced_is_withdrawn_and_the_new_one_told(used, model):
    price = plan(model, 5, input="0.60")
    told()
    price.delete()
    plan(model, 6, input="0.70")
    assert told() == [
        ("Alice", "PRICE_CHANGED", f"{MODEL} gets dearer"),
        ("Alice", "PRICE_CHANGED", f"{MODEL}: the announced price is withdrawn"),
    ]


def test_a_fall_that_was_withdrawn_before_it_was_told_is_nothing(used, model, later):
    price = plan(model, 5, input="0.40")
    told()
    price.delete()
    later(6)
    assert told() == []


# --- Workers ------------------------------------------------------------------------------------------------------


def test_a_task_that_dies_loses_nothing(used, model, monkeypatch):
    plan(model, 3, input="0.60")
    with monkeypatch.context() as patch:
        patch.setattr(change_alerts, "_sum_up", lambda now: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tasks.tell_changes()
    assert AccountAlert.objects.count() == 0
    assert told() == [rise()]
    assert [each.subject for each in mailed()] == [f"Alice: {MODEL} gets dearer"]


def test_two_workers_at_once_tell_each_thing_once(transactional_db, used, model):
    for days in range(1, 5):
        plan(model, days, input=f"{days}.00")

    def tell(_):
        try:
            return tasks.tell_changes()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as executor:
        assert sorted(executor.map(tell, range(4))) == [0, 0, 0, 4]
    assert AccountAlert.objects.filter(kind="PRICE_CHANGED").count() == 4
    assert [each.subject for each in mailed()] == ["Alice: 4 changes of models that you used"]


def test_an_alert_stays_as_long_as_it_may_be_due_again(used, model, settings):
    settings.RETENTION_WARNING_DAYS = 7
    plan(model, 8, input="0.60")
    assert told() == [rise()]
    AccountAlert.objects.update(created_at=pool.database_time() - 29 * DAY)
    billing_tasks.forget_old_warnings()
    assert told() == []
    AccountAlert.objects.update(created_at=pool.database_time() - 31 * DAY)
    billing_tasks.forget_old_warnings()
    assert AccountAlert.objects.count() == 0


# --- Mails --------------------------------------------------------------------------------------------------------


def test_one_mail_a_day_sums_up_everything(used, model, later):
    plan(model, 0, input="0.40")
    plan(model, 3, input="0.60")
    told()
    [sent] = mailed()
    assert sent.subject == "Alice: 2 changes of models that you used"
    assert f"{MODEL} gets cheaper. Input $0.50 -> $0.40 (-20 %), from " in sent.body
    assert f"\n\n{MODEL} gets dearer. Input $0.40 -> $0.60 (+50 %), from " in sent.body
    assert "http://testserver/dashboard/alerts/" in sent.body
    assert "gets dearer" in sent.alternatives[0][0]
    plan(model, 2, input="0.50")
    assert told() == [rise()]
    assert mailed() == []
    later(1)
    assert told() == []
    assert [each.subject for each in mailed()] == [f"Alice: {MODEL} gets dearer"]
    later(1)
    assert (told(), mailed()) == ([], [])


def test_the_page_of_alerts_says_who_got_the_mail(used, model):
    plan(model, 3, input="0.60")
    told()
    mailed()
    page = signed_in(owner_of(used)).get("/dashboard/alerts/").content.decode()
    assert page.count(f"{MODEL} gets dearer") == 1
    assert "(+20 %), from " in page
    assert "email to\n        alice@example.org" in page


def test_an_owner_switches_the_mails_off(used, model):
    page = signed_in(owner_of(used))
    page.post("/dashboard/settings/emails/", {"receipts": "on", "credits": "on", "refunds": "on"})
    plan(model, 3, input="0.60")
    assert told() == [rise()]
    assert mailed() == []
    assert AlertDelivery.objects.count() == 0


# --- Ends ---------------------------------------------------------------------------------------------------------


def in_days(days):
    return (pool.database_time() + days * DAY).date()


def end_of(day):
    return "Alice", "MODEL_ENDS", f"{MODEL} ends on {day}"


def test_an_end_is_told_when_it_is_set_or_changed_and_again_before_it(used, bob, model, later):
    first, second = in_days(30), in_days(40)
    LanguageModel.objects.update(ends_on=first)
    assert (told(), told()) == ([end_of(first)], [])
    LanguageModel.objects.update(ends_on=second)
    assert (told(), told()) == ([end_of(second)], [])
    LanguageModel.objects.update(name="Echo 2")
    assert told() == []
    UsageHour.objects.update(hour=pool.database_time() + 30 * DAY)
    later(31)
    assert told() == []
    later(2)
    assert (told(), told()) == ([end_of(second)], [])
    later(6)
    assert told() == []


def test_an_end_within_a_week_is_told_once(used, model, later):
    day = in_days(6)
    LanguageModel.objects.update(ends_on=day)
    assert told() == [end_of(day)]
    later(4)
    assert told() == []


def test_an_end_that_is_taken_back_is_told_to_those_who_were_told(used, charlie, model):
    LanguageModel.objects.update(ends_on=in_days(30))
    told()
    chat.ask(client_for(factories.make_key(charlie)[1]))
    tasks.sum_up_usage()
    LanguageModel.objects.update(ends_on=None)
    assert (told(), told()) == ([("Alice", "MODEL_ENDS", f"{MODEL} stays")], [])
    LanguageModel.objects.update(ends_on=in_days(30))
    assert ("Alice", "MODEL_ENDS", f"{MODEL} ends on {in_days(30)}") in told()


def test_a_successor_is_told_and_stands_in_api_and_on_the_page(used, api, model, client):
    factories.make_model("acme/next", provider=factories.make_provider())
    day = in_days(30)
    LanguageModel.objects.filter(pk=MODEL).update(successor="acme/next")
    assert told() == [("Alice", "MODEL_ENDS", f"{MODEL} has a successor")]
    LanguageModel.objects.filter(pk=MODEL).update(ends_on=day)
    told()
    alert = AccountAlert.objects.filter(kind="MODEL_ENDS").latest("created_at")
    sent = json.loads(payload.encode(alert))
    expected = {"model": MODEL, "endsOn": str(day), "successor": "acme/next"}
    assert (sent["type"], sent["data"]) == ("model.ends", {"accountId": str(used.pk), **expected})
    reply = api.get(f"/v1/models/{MODEL}").json()
    assert (reply["expiration_date"], reply["successor"]) == (str(day), "acme/next")
    facts.forget()
    page = client.get(f"/models/{MODEL}").content.decode()
    assert f"It ends on {day}" in page
    assert '<a href="/models/acme/next">' in page
    assert chat.ask(api).status_code == 200


def test_a_request_after_the_end_is_sent(used, api, model):
    LanguageModel.objects.update(ends_on=in_days(-1))
    assert chat.ask(api).status_code == 200


# --- Files and staff ----------------------------------------------------------------------------------------------

FILE = """
[models."demo/echo"]
name = "Echo"
provider = "Demo"
context_window = 128000
max_output_tokens = 4096
routes = [ { provider = "echo", upstream_model = "echo" } ]
"""


def load(tmp_path, more):
    path = tmp_path / "catalog.toml"
    path.write_text(f"{FILE.rstrip().rpartition('routes')[0]}{more}\nroutes{FILE.rpartition('routes')[2]}")
    call_command("load_catalog", path)


def test_a_file_sets_end_and_successor_and_without_them_leaves_them(model, tmp_path):
    factories.make_model("acme/next")
    load(tmp_path, 'ends_on = 2027-03-01\nsuccessor = "acme/next"')
    load(tmp_path, "")
    stored = LanguageModel.objects.get(pk=MODEL)
    assert (str(stored.ends_on), stored.successor_id) == ("2027-03-01", "acme/next")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ('successor = "acme/none"', """[models."demo/echo"] successor: 'acme/none' is no other model"""),
        ('successor = "demo/echo"', """[models."demo/echo"] successor: 'demo/echo' is no other model"""),
        ('ends_on = "2027-03-01"', "ends_on: must be a date, not text"),
        ("ends_on = 2027-03-01T00:00:00Z", "ends_on: must be a date, not a date with a time"),
    ],
)
def test_a_file_with_another_end_or_successor_is_refused(model, tmp_path, more, problem):
    with pytest.raises(CommandError) as refused:
        load(tmp_path, more)
    assert problem in str(refused.value)
    stored = LanguageModel.objects.get(pk=MODEL)
    assert (stored.ends_on, stored.successor_id, stored.name) == (None, None, model.name)


def test_staff_see_what_will_change_and_whether_accounts_were_told(used, model):
    staff = signed_in(make_staff("prices@example.org", ["completions.view_price"]))
    assert panel(staff, "changes") == "What will change 0 prices and models that change later"
    price, day = plan(model, 5, input="0.60"), in_days(30)
    LanguageModel.objects.update(ends_on=day)
    begin = f"{price.effective_from:%Y-%m-%d %H:%M} UTC"
    untold = f"demo/echo input $0.50 -&gt; $0.60 (+20 %), from {begin}; no account was told yet"
    assert untold in panel(staff, "changes")
    told()
    shown = panel(staff, "changes")
    assert f"(+20 %), from {begin}; 1 account was told" in shown
    assert f"ends on {day}; 1 account was told" in shown


def test_staff_set_an_end_and_no_model_follows_itself(superuser, model):  # noqa: F811
    factories.make_model("acme/next")
    page = url("languagemodel", "change", "demo_2Fecho")
    fields = {**model_fields(model, ends_on="2027-03-01"), "_confirmed": "on"}
    refused = superuser.post(page, {**fields, "successor": MODEL})
    assert "A model cannot be its own successor." in refused.content.decode()
    assert LanguageModel.objects.get(pk=MODEL).ends_on is None
    assert superuser.post(page, {**fields, "successor": "acme/next"}).status_code == 302
    stored = LanguageModel.objects.get(pk=MODEL)
    assert (str(stored.ends_on), stored.successor_id) == ("2027-03-01", "acme/next")
    act = Activity.objects.get()
    assert (act.after["ends_on"], act.after["successor"]) == ("2027-03-01", "acme/next")


def test_a_model_has_the_time_of_the_last_change_of_its_end_only(model):
    assert LanguageModel.objects.get(pk=MODEL).end_set_at is None
    LanguageModel.objects.update(ends_on=in_days(9))
    set_at = LanguageModel.objects.get(pk=MODEL).end_set_at
    assert isinstance(set_at, datetime)
    LanguageModel.objects.update(ends_on=in_days(9), name="Echo 2")
    assert LanguageModel.objects.get(pk=MODEL).end_set_at == set_at
