"""Owners learn that a limit or budget, most of which is spent, refused a request: once, with the history of refusals."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import connections, transaction

from billing import tasks
from billing.alerts import endpoints
from billing.models import AccountAlert
from gateway_project.db import pipelined_transaction, pool
from gateway_project.text import dollars
from keys.budgets import counts, monthly
from keys.budgets.counts import BudgetChange
from keys.models import ApiKey, BudgetMonth, Run, SpendingDay
from keys.refusal_history import collector, tables
from keys.refusal_history.collector import RefusalCollector, process_collector
from keys.refusal_history.tables import Refusal
from tests import chat, factories, usage
from tests.billing.alerts.deliveries import receiver, request_of_owner, sends_here
from tests.cases import undone
from tests.completions.charging.worst_cases import CENT, worst_case
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in

__all__ = ["receiver", "request_of_owner", "sends_here"]

pytestmark = pytest.mark.django_db
RAW = chat.body(max_tokens=10)
HOLD = worst_case(RAW, 10)
RUN = {"x-gateway-run": "nightly"}
SPENT = CENT - HOLD + 1  # of a cent: the next request needs a nanodollar more than is left
PERCENT = SPENT * 100 // CENT
MOST = CENT * 8 // 10
ROWS: dict[str, Any] = {"key": SpendingDay, "run": Run, "budget": BudgetMonth}


@pytest.fixture
def today(db):
    return pool.database_time().date()


@pytest.fixture
def key(alice, echo_model):
    """A key with an owner, and a limit of a cent in a day."""
    return factories.make_key(alice, "ci", limit_cents=1, type="RECURRING", period="DAILY", created_by=owner_of(alice))


def reach(source, key, today, spent_nanos=SPENT, held_nanos=0):
    """Let so much be spent of the key's limit, its run or its budget. The others are far from it."""
    spent = {"spent_nanos": spent_nanos, "held_nanos": held_nanos}
    if source == "key":
        SpendingDay.objects.create(key=key, day=today, **spent)
        return
    ApiKey.objects.update(spending_limit_cents=1_000)
    if source == "run":
        Run.objects.create(key=key, name="nightly", budget_nanos=CENT, **spent)
        return
    with transaction.atomic():
        budget = monthly.set_budget(key.account, amount_cents=1, action="STOP", scope="MEMBER", member=key.created_by)
    BudgetMonth.objects.create(budget=budget, month=today.replace(day=1), amount_cents=1, **spent)


def ask(secret, status, raw=RAW, source="run"):
    headers = RUN if source == "run" else {}
    assert chat.send(client_for(secret), raw, headers=headers).status_code == status


def told():
    return list(AccountAlert.objects.values_list("kind", "data__percent"))


def expected(source, key, today):
    """Return the type and the facts of an alert."""
    of_key = {"keyId": key.pk, "keyName": "ci"}
    tomorrow, month = today + timedelta(days=1), today.replace(day=1)
    next_month = (month + timedelta(days=31)).replace(day=1)
    return {
        "key": (
            "key.limit_reached",
            {**of_key, "period": "DAILY", "resetsAt": f"{tomorrow}T00:00:00Z", "limitInDollars": "0.01"},
        ),
        "run": ("run.budget_reached", {**of_key, "run": "nightly", "budgetInDollars": "0.01"}),
        "budget": (
            "budget.reached",
            {
                **{"scope": "MEMBER", "tag": None, "member": owner_of(key.account).email, "month": f"{month:%Y-%m}"},
                **{"stops": True, "resetsAt": f"{next_month}T00:00:00Z", "budgetInDollars": "0.01"},
            },
        ),
    }[source]


WORDS = {
    "key": "ci was refused a request",
    "run": "The run nightly was refused a request",
    "budget": "The monthly budget of the keys of {member} refused a request",
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("source", ["key", "run", "budget"])
def test_the_first_refusal_is_told_with_true_amounts(source, key, today, alice, sends_here, receiver, request_of_owner):
    endpoints.make(request_of_owner, alice, receiver.url)
    reach(source, key[0], today)
    before = chat.everything_written()
    ask(key[1], 402, source=source)
    assert (chat.everything_written(), told()) == (before, [])  # the request's transaction wrote nothing
    collector.write()
    ask(key[1], 402, source=source)
    collector.write()
    assert (told(), tasks.send_webhooks()) == ([(AccountAlert.objects.get().kind, PERCENT)], 1)
    [sent] = receiver.bodies
    type, facts = expected(source, key[0], today)
    if source == "budget":
        facts["budgetId"] = BudgetMonth.objects.get().budget_id
    amounts = {"spentInDollars": dollars.format_plain(SPENT), "neededInDollars": dollars.format_plain(HOLD)}
    assert (sent["type"], sent["data"]) == (
        type,
        {"accountId": str(alice.pk), "percent": PERCENT, **amounts, **facts},
    )
    tasks.mail_warnings()
    subjects = [each.subject for each in mail.outbox]
    assert f"Alice: {WORDS[source].format(member=owner_of(alice).email)}" in subjects
    needed = f"The request needed up to {dollars.show(HOLD).shown}."
    assert needed in mail.outbox[0].body
    assert needed in signed_in(owner_of(alice)).get("/dashboard/alerts/").content.decode()


@pytest.mark.parametrize("source", ["key", "run", "budget"])
def test_an_enormous_request_is_told_from_80_percent_on(source, key, today):
    enormous = chat.body(max_tokens=4_000)
    assert worst_case(enormous, 4_000) > CENT - MOST + 1 > HOLD
    reach(source, key[0], today, MOST - 1)
    ask(key[1], 402, enormous, source)
    collector.write()
    assert told() == []
    ROWS[source].objects.update(spent_nanos=MOST)
    ask(key[1], 402, enormous, source)
    collector.write()
    assert [percent for _, percent in told()] == [80]


@pytest.mark.parametrize("source", ["key", "run", "budget"])
def test_nothing_is_told_of_what_may_be_free_again_or_was_spent_before(source, key, today, subtests):
    cases = {  # spent, held, the status of a request
        "running requests hold the rest": (SPENT - 1, 1, 429),
        "all was spent before": (CENT, 0, 402),
        "it fits": (SPENT - 1, 0, 200),
    }
    for name, (spent_nanos, held_nanos, status) in cases.items():
        with subtests.test(name), undone():
            reach(source, key[0], today, spent_nanos, held_nanos)
            ask(key[1], status, source=source)
            collector.write()
            assert told() == []


def test_a_passed_deadline_and_an_empty_account_tell_nothing(key, today):
    reach("run", key[0], today)
    Run.objects.update(deadline=pool.database_time())
    ask(key[1], 402)
    usage.spend(key[0].account, key[0].account.balance_nanos)
    ask(key[1], 402, source="account")
    collector.write()
    assert [kind for kind, _ in told()] == ["BALANCE_LOW"]


def charge(key, today, nanos):
    """Count a charge on the run, as a settlement does."""
    for statement in counts.statements([BudgetChange(key.pk, "nightly", CENT, None, today, 0, nanos)]):
        pipelined_transaction.execute(statement)


def test_a_run_that_was_refused_is_not_told_again_when_it_is_spent_or_was_corrected(key, today):
    reach("run", key[0], today)
    ask(key[1], 402)
    collector.write()
    assert told() == [("RUN_AT_BUDGET", PERCENT)]
    charge(key[0], today, CENT - SPENT)
    Run.objects.update(spent_nanos=SPENT)  # as after a correction
    ask(key[1], 402)
    collector.write()
    assert told() == [("RUN_AT_BUDGET", PERCENT)]


def test_a_key_that_was_refused_is_not_told_again_when_it_is_spent_but_anew_of_another_limit(key, today):
    running = chat.send(client_for(key[1]), chat.body(max_tokens=10, stream=True))
    SpendingDay.objects.update(spent_nanos=SPENT)
    ask(key[1], 402, source="key")
    collector.write()
    SpendingDay.objects.update(spent_nanos=CENT - 1)
    assert running.getvalue()
    assert SpendingDay.objects.get().spent_nanos >= CENT
    assert told() == [("KEY_AT_LIMIT", PERCENT)]
    ApiKey.objects.update(spending_limit_cents=2)
    SpendingDay.objects.update(spent_nanos=2 * CENT - HOLD + 1)
    ask(key[1], 402, source="key")
    collector.write()
    assert told() == [("KEY_AT_LIMIT", PERCENT), ("KEY_AT_LIMIT", (2 * CENT - HOLD + 1) * 100 // (2 * CENT))]


@pytest.mark.django_db(transaction=True)
def test_of_two_hosts_that_refuse_and_one_that_charges_one_tells(key, today):
    reach("run", key[0], today)
    ask(key[1], 402)
    [reached] = process_collector.take().by_key[key[0].pk].reached
    [statement] = tables.tell_statements([{**reached, "key_id": key[0].pk}])
    works = [lambda: pipelined_transaction.execute(statement)] * 2 + [lambda: charge(key[0], today, CENT - SPENT)]

    def run(work):
        try:
            work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(works)) as hosts:
        list(hosts.map(run, works))
    assert [kind for kind, _ in told()] == ["RUN_AT_BUDGET"]


def test_what_is_told_of_a_key_is_bounded_and_survives_an_outage():
    collected = RefusalCollector()
    refusal = Refusal(pool.database_time(), "req_1", 402, "budget_exceeded", "BudgetExceeded", "", "a/b")
    for number in range(4 * tables.LATEST_MAX):
        collected.record("key", refusal, {"counted_id": number // 2})
    taken = collected.take()
    collected.record("key", refusal, {"counted_id": "meanwhile"})
    collected.put_back(taken)
    kept = [each["counted_id"] for each in collected.by_key["key"].reached]
    assert kept == [*range(tables.LATEST_MAX + 1, 2 * tables.LATEST_MAX), "meanwhile"]
