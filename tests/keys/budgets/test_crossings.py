"""Members are told when runs and monthly budgets have spent 80 %, and all: each once, in the transaction of the charge."""

import json
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from django.core import mail
from django.db import connection, connections, transaction

from billing import tasks as billing_tasks
from billing.alerts import deliveries, endpoints, payload
from billing.models import AccountAlert, AlertDelivery
from gateway_project.db import pool
from gateway_project.text import dollars
from keys.budgets import counts, monthly
from keys.models import ApiKey, BudgetMonth, Run
from tests import chat, factories
from tests.billing.alerts.deliveries import request_of_owner  # noqa: F401  a fixture
from tests.completions.charging.worst_cases import CENT, INPUT, OUTPUT
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in

pytestmark = pytest.mark.django_db
COST = 6 * INPUT + 3 * OUTPUT  # of one reply
RAW = chat.body(max_tokens=10)
OF_RUNS, OF_MONTHS = ("RUN_NEAR_BUDGET", "RUN_AT_BUDGET"), ("MONTH_NEAR_BUDGET", "MONTH_AT_BUDGET")


@pytest.fixture(autouse=True)
def _hosts(settings):
    settings.GATEWAY_API_HOST = settings.GATEWAY_BASE_HOST = "testserver"
    settings.SENDS_MAIL = True


@pytest.fixture
def key(alice, api, echo_model):
    return ApiKey.objects.get()


def send(client, **headers):
    reply = chat.send(client, RAW, headers=headers)
    assert reply.status_code == 200
    return reply


def told():
    return list(AccountAlert.objects.order_by("created_at", "kind").values_list("kind", flat=True))


def run_of(key, spent_nanos, budget_nanos):
    return Run.objects.create(key=key, name="nightly", budget_nanos=budget_nanos, spent_nanos=spent_nanos)


def month_of(account, spent_nanos, cents=1, action="WARN", **place):
    with transaction.atomic():
        budget = monthly.set_budget(account, amount_cents=cents, action=action, **place)
    month = pool.database_time().date().replace(day=1)
    return BudgetMonth.objects.create(budget=budget, month=month, amount_cents=cents, spent_nanos=spent_nanos)


@pytest.mark.parametrize(
    ("before_nanos", "kinds"),
    [
        (CENT * 8 // 10 - COST - 1, []),
        (CENT * 8 // 10 - COST, [0]),
        (CENT * 8 // 10 - 1, [0]),
        (CENT * 8 // 10, []),
        (CENT - COST - 1, []),
        (CENT - COST, [1]),
        (CENT - 1, [1]),
        (CENT, []),
        (2 * CENT, []),
    ],
)
def test_a_month_is_told_when_a_charge_reaches_a_mark(alice, api, key, before_nanos, kinds):
    month_of(alice, before_nanos)
    send(api)
    assert told() == [OF_MONTHS[kind] for kind in kinds]
    send(api)
    assert len(told()) == len(set(told()))


def charge(key, nanos):
    """Count a charge on the run, as a settlement does."""
    today = pool.database_time().date()
    change = counts.BudgetChange(key.pk, "nightly", 10 * COST, None, today, 0, nanos)
    with connection.cursor() as cursor:
        for statement in counts.statements([change]):
            sql = statement.sql.replace("%", "%%").replace("$1", "%s")
            cursor.execute(sql, [json.dumps([json.loads(msgspec.json.encode(change))])])


def test_a_run_is_told_when_a_charge_reaches_a_mark_and_never_again(api, key):
    run = run_of(key, 7 * COST, 10 * COST)
    Run.objects.update(budget_nanos=100 * COST, spent_nanos=79 * COST)
    send(api, **{"x-gateway-run": "nightly"})
    assert told() == [OF_RUNS[0]]
    charge(key, 20 * COST - 1)
    assert told() == [OF_RUNS[0]]
    charge(key, 1)
    assert sorted(told()) == sorted(OF_RUNS)
    Run.objects.update(spent_nanos=79 * COST)  # as after a correction
    charge(key, 21 * COST)
    assert sorted(told()) == sorted(OF_RUNS)
    assert Run.objects.get(pk=run.pk).spent_nanos == 100 * COST


def test_one_charge_may_reach_both_marks(alice, api, key):
    month_of(alice, CENT * 8 // 10 - 1, cents=1)
    BudgetMonth.objects.update(amount_cents=1, spent_nanos=0)
    raw = chat.body(messages=[{"role": "user", "content": "word " * 20_000}])
    assert chat.send(api, raw).status_code == 200
    assert BudgetMonth.objects.get().spent_nanos >= CENT
    assert sorted(told()) == sorted(OF_MONTHS)


def test_a_changed_amount_is_told_anew_and_an_ended_budget_is_not(alice, api, key):
    month = month_of(alice, CENT * 8 // 10 - 1)
    send(api)
    assert told() == [OF_MONTHS[0]]
    with transaction.atomic():
        monthly.set_budget(alice, amount_cents=2, action="WARN")
    BudgetMonth.objects.update(spent_nanos=2 * CENT * 8 // 10 - 1)
    send(api)
    assert told() == [OF_MONTHS[0]] * 2
    BudgetMonth.objects.update(spent_nanos=2 * CENT - 1)
    with transaction.atomic():
        monthly.end_budget(month.budget)
    send(api)
    assert told() == [OF_MONTHS[0]] * 2


def test_what_owners_and_programs_get(request_of_owner, alice, key):  # noqa: F811
    endpoints.make(request_of_owner, alice, "https://example.org/hook")
    user = owner_of(alice)
    own, secret = factories.make_key(alice, "own", created_by=user)
    month = month_of(alice, CENT * 8 // 10 - 1, scope="MEMBER", member=user, action="STOP")
    run_of(own, 8 * COST - 1, 10 * COST)
    Run.objects.update(budget_nanos=100 * COST, spent_nanos=80 * COST - 1)
    send(client_for(secret), **{"x-gateway-run": "nightly"})
    sent = {body["type"]: body["data"] for body in (json.loads(payload.encode(each)) for each in AccountAlert.objects.all())}
    resets_at = monthly.MonthState(1, 0, 0, "", True, "ACCOUNT", "", None, month.month).resets_at
    assert sent == {
        "run.budget_near": {
            **{"accountId": str(alice.pk), "run": "nightly", "keyId": own.pk, "keyName": "own", "percent": 80},
            "budgetInDollars": dollars.format_plain(100 * COST),
            "spentInDollars": dollars.format_plain(81 * COST - 1),
        },
        "budget.near": {
            **{"accountId": str(alice.pk), "budgetId": month.budget_id, "scope": "MEMBER", "tag": None, "member": user.email},
            **{"month": f"{month.month:%Y-%m}", "percent": 80, "budgetInDollars": "0.01", "stops": True},
            "spentInDollars": dollars.format_plain(CENT * 8 // 10 - 1 + COST),
            "resetsAt": f"{resets_at:%Y-%m-%dT%H:%M:%SZ}",
        },
    }
    billing_tasks.mail_warnings()
    mails = {each.subject: each.body for each in mail.outbox}
    assert f"http://testserver/dashboard/runs/{own.pk}/nightly/" in mails["Alice: The run nightly has spent 80 % of its budget"]
    [of_month] = [body for subject, body in mails.items() if "80 % of the monthly budget of the keys of" in subject]
    assert "http://testserver/dashboard/budgets/" in of_month
    assert AlertDelivery.objects.exclude(endpoint=None).count() == 2
    page = signed_in(user).get("/dashboard/alerts/").content.decode()
    assert "The run nightly has spent 80 % of its budget" in page
    assert f'href="/dashboard/runs/{own.pk}/nightly/">Open the run' in page


def test_runs_take_only_a_part_of_the_mails_of_a_day(alice, key, monkeypatch):
    monkeypatch.setattr(deliveries, "MAILS_OF_RUNS_MAX", 2)
    data = {"run": "x", "key_id": key.pk, "key_name": "k", "percent": 80, "budget_nanos": 1, "spent_nanos": 1}
    for kind, number in (("RUN_NEAR_BUDGET", 3), ("BALANCE_LOW", 1)):
        for _ in range(number):
            facts = data if kind != "BALANCE_LOW" else {"threshold_nanos": 1, "balance_nanos": 0}
            AccountAlert.objects.create(account=alice, kind=kind, data=facts)
    deliveries.prepare()
    mailed = AlertDelivery.objects.exclude(email="").values_list("alert__kind", flat=True)
    assert sorted(mailed) == ["BALANCE_LOW", "RUN_NEAR_BUDGET", "RUN_NEAR_BUDGET"]


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_charges_one_tells(alice, api, key):
    month_of(alice, CENT * 8 // 10 - 2 * COST)
    run_of(key, 78 * COST, 100 * COST)

    def ask(_):
        try:
            while (reply := chat.send(api, RAW, headers={"x-gateway-run": "nightly"})).status_code == 429:
                pass  # the others hold what is left
            return reply.status_code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as both:
        assert list(both.map(ask, range(6))) == [200] * 6
    assert sorted(told()) == sorted([OF_MONTHS[0], OF_RUNS[0]])
