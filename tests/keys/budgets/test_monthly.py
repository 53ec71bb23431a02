"""Monthly budgets of an account, of a tag of keys and of a member's keys: those that stop are never exceeded."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from billing.models import Account, AccountAlert
from completions.models import Completion
from gateway_project import errors
from gateway_project.db import pool
from gateway_project.text import dollars
from keys import lifecycle
from keys.budgets import monthly
from keys.models import ApiKey, Budget, BudgetMonth
from tests import chat, factories
from tests.completions.charging.worst_cases import CENT, INPUT, OUTPUT, worst_case
from tests.conftest import client_for
from tests.pages.conftest import owner_of

COST = 6 * INPUT + 3 * OUTPUT  # of one reply
RAW = chat.body(max_tokens=10)


def set_budget(account, cents, action="STOP", **place):
    with transaction.atomic():
        return monthly.set_budget(account, amount_cents=cents, action=action, **place)


def counted(budget, nanos, **fields):
    """Let a budget have spent so much in this month."""
    month = pool.database_time().date().replace(day=1)
    return BudgetMonth.objects.create(budget=budget, month=month, amount_cents=budget.amount_cents, spent_nanos=nanos, **fields)


def told():
    return list(AccountAlert.objects.order_by("created_at").values_list("kind", flat=True))


def places(alice):
    """Return each kind of budget, with a key that counts on it and one that does not, if there is one."""
    member = owner_of(alice)
    tagged, own, other = factories.make_key(alice), factories.make_key(alice, created_by=member), factories.make_key(alice)
    lifecycle.change_key(tagged[0], tags=["night", "team"])
    lifecycle.change_key(other[0], tags=["day"])
    return {
        "account": ({}, own, None),
        "tag": ({"scope": "TAG", "tag": "team"}, tagged, other),
        "member": ({"scope": "MEMBER", "member": member}, own, other),
    }


@pytest.mark.parametrize("kind", ["account", "tag", "member"])
def test_a_budget_that_stops_refuses_the_keys_that_count_on_it_until_it_resets(alice, echo_model, kind):
    place, (_, secret), other = places(alice)[kind]
    budget = set_budget(alice, 1, **place)
    month = counted(budget, CENT - 1)
    before = chat.everything_written()
    reply = chat.send(client_for(secret), RAW)
    error = chat.assert_error(reply, 402, "budget_exceeded")
    assert (error["limit_source"], error["budget_id"], error["budget"]) == ("budget", budget.pk, "0.01")
    assert error["left"] == "0.000000001"
    assert datetime.fromisoformat(error["resets_at"]) == datetime.combine(
        (month.month + timedelta(days=31)).replace(day=1), datetime.min.time(), UTC
    )
    assert "monthly budget of $0.01" in error["message"]
    assert "Sending it again does not help before." in error["message"]
    assert reply["x-should-retry"] == "false"
    assert chat.everything_written() == before
    if other:
        assert chat.send(client_for(other[1]), RAW).status_code == 200


def test_a_budget_that_warns_only_counts(alice, api, echo_model):
    month = counted(set_budget(alice, 1, "WARN"), 5 * CENT)
    assert chat.send(api, RAW).status_code == 200
    month.refresh_from_db()
    assert (month.spent_nanos, month.held_nanos) == (5 * CENT + COST, 0)
    assert Completion.objects.get().budgets == {month.budget_id: None}


def test_what_running_requests_hold_of_a_budget_is_waited_for(alice, api, echo_model):
    counted(set_budget(alice, 1), 0, held_nanos=CENT)
    reply = chat.send(api, RAW)
    error = chat.assert_error(reply, 429, "rate_limit_exceeded")
    assert (error["limit_source"], reply["retry-after"]) == ("budget", "1")


def test_a_request_counts_where_it_was_admitted_whatever_changes_while_it_runs(alice, echo_model):
    key, secret = factories.make_key(alice)
    lifecycle.change_key(key, tags=["team"])
    first, second = set_budget(alice, 100, scope="TAG", tag="team"), set_budget(alice, 100, scope="TAG", tag="other")
    raw = chat.body(max_tokens=10, stream=True)
    reply = chat.send(client_for(secret), raw)
    assert BudgetMonth.objects.get().held_nanos == worst_case(raw, 10)
    lifecycle.change_key(key, tags=["other"])
    with transaction.atomic():
        monthly.end_budget(first)
    assert reply.getvalue()
    month = BudgetMonth.objects.get()
    assert (month.budget_id, month.held_nanos, month.spent_nanos) == (first.pk, 0, COST)
    assert chat.send(client_for(secret), RAW).status_code == 200
    assert second.months.get().spent_nanos == COST
    month.refresh_from_db()
    assert month.spent_nanos == COST


def test_a_request_counts_in_the_month_of_its_admission(alice, api, echo_model):
    budget = set_budget(alice, 100)
    reply = chat.send(api, chat.body(max_tokens=10, stream=True))
    with connection.cursor() as cursor:  # it was admitted in the month before
        cursor.execute("UPDATE keys_budgetmonth SET month = month - interval '1 month'")
        cursor.execute("UPDATE keys_spendingday SET day = day - interval '1 month'")
        cursor.execute("UPDATE completions_completion SET spending_day = spending_day - interval '1 month'")
    completion = Completion.objects.get()
    from completions.charging.recovery import sweeper

    Completion.objects.update(relayed_bytes=40)
    completion.refresh_from_db()
    assert sweeper.resolve(completion)
    [month] = BudgetMonth.objects.all()
    assert (month.month, month.held_nanos) == (completion.spending_day.replace(day=1), 0)
    assert month.spent_nanos == Completion.objects.get().cost_nanos > 0
    assert budget.months.count() == 1
    reply.getvalue()


def test_a_month_that_is_nearly_reached_and_reached_is_told_once(alice, api, echo_model):
    budget = set_budget(alice, 1, "WARN")
    month = counted(budget, CENT * 8 // 10 - COST - 1)
    chat.send(api, RAW)
    assert told() == []
    chat.send(api, RAW)
    [nearly] = AccountAlert.objects.all()
    assert told() == ["MONTH_NEAR_BUDGET"]
    BudgetMonth.objects.update(spent_nanos=CENT - COST)
    chat.send(api, RAW)
    assert told() == ["MONTH_NEAR_BUDGET", "MONTH_AT_BUDGET"]
    assert AccountAlert.objects.get(kind="MONTH_NEAR_BUDGET").created_at == nearly.created_at
    assert AccountAlert.objects.get(kind="MONTH_AT_BUDGET").created_at > nearly.created_at
    set_budget(alice, 2, "WARN")
    month.refresh_from_db()
    assert (month.amount_cents, len(told())) == (2, 2)


def test_a_changed_budget_applies_to_what_was_spent(alice, api, echo_model):
    month = counted(set_budget(alice, 1), CENT)
    assert chat.send(api, RAW).status_code == 402
    budget = set_budget(alice, 2)
    assert (budget.pk, Budget.objects.count()) == (month.budget_id, 1)
    assert chat.send(api, RAW).status_code == 200
    set_budget(alice, 1)
    month.refresh_from_db()
    assert (month.amount_cents, month.spent_nanos > CENT) == (1, True)
    assert chat.send(api, RAW).status_code == 402


def test_the_account_says_whether_it_has_budgets(alice, bob):
    budget = set_budget(alice, 1)
    assert list(Account.objects.filter(has_budgets=True)) == [alice]
    with transaction.atomic():
        monthly.end_budget(budget)
    assert not Account.objects.filter(has_budgets=True).exists()


def test_an_account_has_a_hundred_budgets_at_most(alice, monkeypatch):
    for number in range(monthly.BUDGETS_MAX):
        set_budget(alice, 1, scope="TAG", tag=f"tag {number}")
    with pytest.raises(errors.MaximumReached):
        set_budget(alice, 1)
    set_budget(alice, 2, scope="TAG", tag="tag 1")


def test_the_tokens_that_the_gateway_chooses_fit_a_monthly_budget(alice, api, echo_model):
    raw = chat.body(echo={"reply": "word " * 6_000})
    counted(set_budget(alice, 100), 100 * CENT - worst_case(raw, 100))
    assert chat.send(api, raw).status_code == 200
    assert Completion.objects.get().completion_tokens == 100
    quote = api.generic("POST", "/v1/quote", RAW, content_type="application/json").json()
    assert quote["available"] == pytest.approx(float(dollars.format_plain(100 * CENT - BudgetMonth.objects.get().spent_nanos)))
    assert ApiKey.objects.exists()
