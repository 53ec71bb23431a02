"""The audit finds disagreements between spending days, completions and holds."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F

from billing import locks
from billing.ledger import audit, movements, writer
from billing.models import Account, Hold, LedgerEntry
from completions import audit as completions_audit
from completions.charging import batch
from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.resolution import Resolution
from completions.models import Completion, Price
from gateway_project import identifiers
from gateway_project.db import pipelined_transaction
from keys import audit as keys_audit
from keys.models import ApiKey, Budget, BudgetMonth, Run, SpendingDay
from tests import chat, factories, usage
from tests.billing import guards
from tests.cases import undone
from tests.completions.tamperings import TAMPERINGS
from tests.conftest import client_for


@pytest.fixture
def story(alice: Account, echo_model: Any) -> ApiKey:
    """A key of Alice's with two charged completions, a released one and a running one."""
    key, minted = factories.make_key(alice, limit_cents=500, type="FIXED")
    api = client_for(minted)
    for _ in range(4):
        assert chat.ask(api).status_code == 200
    unsettle(alice, key)
    return key


def unsettle(account: Account, key: ApiKey) -> None:
    """Admit two more completions, and release one of them."""
    like = Completion.objects.order_by("id").first()
    today = datetime.now(UTC).date()
    for name in ("running", "released"):
        usage.reserve(key, day=today, amount_nanos=100)
        Hold.objects.create(reference=name, account=account, amount_nanos=100, expires_at="2100-01-01T00:00:00Z")
        Account.objects.filter(pk=account.pk).update(held_nanos=F("held_nanos") + 100, open_holds=F("open_holds") + 1)
        Completion.objects.create(
            id=name,
            account=account,
            key=key,
            model=like.model,
            price=like.price,
            provider=like.provider,
            is_stream=False,
            spending_day=today,
            counted_tokens=1,
        )
    left = Completion.objects.get(pk="released")
    batch.commit(Resolution(CompletionRecord.from_row(left), ServedBy.from_row(left), Completion.Settlement.RELEASED))


@pytest.fixture
def _unguarded(story: ApiKey) -> None:
    guards.remove("billing_account", "billing_ledgerentry", "billing_hold", "keys_apikey", "keys_spendingday")
    guards.remove("completions_completion", "completions_price")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE completions_price ENABLE TRIGGER a_price_keeps_rates")  # it fills columns that are required


def found(account_id: Any = None) -> set[str]:
    return {violation.invariant.name for violation in audit.verify(account_id) if violation.invariant.kind != "unguarded"}


def days(**fields: Any) -> None:
    SpendingDay.objects.update(**fields)


def completions(which: str, **fields: Any) -> None:
    by = {"settlement": "reported"} if which == "charged" else {"id": which}
    Completion.objects.filter(pk=Completion.objects.filter(**by).order_by("pk").first().pk).update(**fields)


def forget_the_type_of_a_limit(key: ApiKey) -> None:
    ApiKey.objects.update(spending_type=None)


def have_a_period_without_a_limit(key: ApiKey) -> None:
    ApiKey.objects.update(spending_limit_cents=None, spending_type=None, spending_period="DAILY")


def spend_on_a_day_without_completions(key: ApiKey) -> None:
    days(completions=0)


def hold_less_than_nothing(key: ApiKey) -> None:
    days(held_nanos=-1)


def hold_more_than_the_account(key: ApiKey) -> None:
    days(held_nanos=101)


def hold_less_than_the_completions(key: ApiKey) -> None:
    days(held_nanos=99)


def count_a_hold_that_was_released(key: ApiKey) -> None:
    days(open_holds=2)


def miscount_tokens(key: ApiKey) -> None:
    days(prompt_tokens=1)


def lose_a_day(key: ApiKey) -> None:
    SpendingDay.objects.all().delete()


def count_on_another_day(key: ApiKey) -> None:
    completions("charged", spending_day="2026-01-01")


def run_without_a_hold(key: ApiKey) -> None:
    Hold.objects.filter(pk="released").delete()


def use_another_accounts_key(key: ApiKey) -> None:
    other, _ = factories.make_key(factories.make_account("Other"))
    completions("released", key=other)


def end_otherwise_than_the_hold(key: ApiKey) -> None:
    completions("released", settlement="expired")


def end_while_the_hold_is_open(key: ApiKey) -> None:
    completions("running", settlement="reported", finished_at=datetime.now(UTC))


def cost_otherwise_than_settled(key: ApiKey) -> None:
    completions("charged", cost_nanos=1)


def count_replies_that_are_not_stored(key: ApiKey) -> None:
    Account.objects.filter(pk=key.account_id).update(stored_reply_bytes=1)


def count_responses_that_are_not_stored(key: ApiKey) -> None:
    Account.objects.filter(pk=key.account_id).update(stored_response_bytes=1)


def be_booked_as_another_model(key: ApiKey) -> None:
    entry = LedgerEntry.objects.filter(type="USAGE_DEBIT").first()
    LedgerEntry.objects.filter(pk=entry.pk).update(metadata={**entry.metadata, "model": "demo/other"})


def be_booked_as_another_keys(key: ApiKey) -> None:
    entry = LedgerEntry.objects.filter(type="USAGE_DEBIT").first()
    LedgerEntry.objects.filter(pk=entry.pk).update(spender="another")


def be_credited_for_nothing(key: ApiKey) -> None:
    completions("charged", charged_before_nanos=1)


def repeat_a_run_that_is_not_over(key: ApiKey) -> None:
    completions("charged", repeats="running")


def be_credited_with_too_much(key: ApiKey) -> None:
    completions("charged", repeats="released", charged_before_nanos=1)


def be_credited_twice(key: ApiKey) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX a_run_is_repeated_once")
    Completion.objects.filter(settlement="reported").update(repeats="released")


def give_back_what_was_not_charged(key: ApiKey) -> None:
    account = locks.lock_account(key.account_id)
    entries = [writer.return_overcharge(account, amount_nanos=1, reference="forged", model="demo/echo")]
    pipelined_transaction.execute(movements.write_statement(entries=entries))
    pipelined_transaction.execute(writer.insert_manual_entries_statement(entries))


def cost_other_tokens(key: ApiKey) -> None:
    Price.objects.update(rates=factories.rates_of(input_nanos=10**9, output_nanos=10**9))


def be_charged_at_another_models_price(key: ApiKey) -> None:
    price = factories.make_model("demo/other").prices.get()
    completions("released", price=price)


def be_charged_at_a_price_of_later(key: ApiKey) -> None:
    Price.objects.update(effective_from=datetime.now(UTC) + timedelta(hours=2))


def be_charged_at_a_price_of_the_past(key: ApiKey) -> None:
    like = Price.objects.get()
    yesterday, before = (datetime.now(UTC) - timedelta(days=days) for days in (1, 2))
    old = Price.objects.create(model=like.model, effective_from=before, rates=like.rates)
    Price.objects.create(model=like.model, effective_from=yesterday, rates=like.rates)
    completions("charged", price=old)


def be_booked_as_settled_otherwise(key: ApiKey) -> None:
    entry = LedgerEntry.objects.filter(type="USAGE_DEBIT").first()
    LedgerEntry.objects.filter(pk=entry.pk).update(metadata={**entry.metadata, "settlement": "partial"})


def hold_without_a_completion(key: ApiKey) -> None:
    Hold.objects.create(reference="forged", account_id=key.account_id, amount_nanos=0, expires_at="2100-01-01T00:00:00Z")
    Account.objects.filter(pk=key.account_id).update(open_holds=F("open_holds") + 1)


def pass_a_limit(key: ApiKey) -> None:
    completions("charged", limit_nanos=1)


def spend_of_a_run_without_completions(key: ApiKey) -> None:
    Run.objects.create(key=key, name="nightly", budget_nanos=2, spent_nanos=1)


def be_of_a_run_that_is_not_there(key: ApiKey) -> None:
    completions("charged", run="nightly", run_budget_nanos=1)


def be_of_a_run_with_another_budget(key: ApiKey) -> None:
    completions("charged", run="nightly", run_budget_nanos=10**9)
    spent = Completion.objects.get(run="nightly").cost_nanos
    Run.objects.create(key=key, name="nightly", budget_nanos=10**10, spent_nanos=spent)


def month_of(key: ApiKey, **amounts: int) -> str:
    budget = Budget.objects.create(account_id=key.account_id, scope="ACCOUNT", amount_cents=1, action="STOP")
    month = datetime.now(UTC).date().replace(day=1)
    return str(BudgetMonth.objects.create(budget=budget, month=month, amount_cents=1, **amounts).budget_id)


def spend_of_a_budget_without_completions(key: ApiKey) -> None:
    month_of(key, spent_nanos=1)


def hold_of_a_budget_without_completions(key: ApiKey) -> None:
    month_of(key, held_nanos=1)


def pass_a_monthly_budget(key: ApiKey) -> None:
    spent = Completion.objects.filter(settlement="reported").order_by("pk").first().cost_nanos
    completions("charged", budgets={month_of(key, spent_nanos=spent): 1})


def count_on_a_budget_of_nobody(key: ApiKey) -> None:
    completions("charged", budgets={"none": None})


def say_a_price_of_no_own_key(key: ApiKey) -> None:
    completions("charged", provider_nanos=1)


def hold_less_of_a_providers_price_than_nothing(key: ApiKey) -> None:
    days(provider_held_nanos=-1)


BREAKS: list[tuple[Callable[[ApiKey], None], set[str]]] = [
    (forget_the_type_of_a_limit, {"limits_are_whole"}),
    (have_a_period_without_a_limit, {"limits_are_whole"}),
    (spend_on_a_day_without_completions, {"a_day_is_never_negative", "days_are_the_sum_of_their_completions"}),
    (hold_less_than_nothing, {"a_day_is_never_negative", "days_are_the_sum_of_their_completions"}),
    (hold_more_than_the_account, {"keys_spend_within_their_account", "days_are_the_sum_of_their_completions"}),
    (hold_less_than_the_completions, {"days_are_the_sum_of_their_completions"}),
    (count_a_hold_that_was_released, {"days_are_the_sum_of_their_completions"}),
    (miscount_tokens, {"days_are_the_sum_of_their_completions"}),
    (lose_a_day, {"days_are_the_sum_of_their_completions"}),
    (count_on_another_day, {"days_are_the_sum_of_their_completions"}),
    (run_without_a_hold, {"completions_are_their_accounts"}),
    (use_another_accounts_key, {"completions_are_their_accounts"}),
    (end_otherwise_than_the_hold, {"completions_end_as_their_holds_do"}),
    (end_while_the_hold_is_open, {"completions_end_as_their_holds_do"}),
    (cost_otherwise_than_settled, {"completions_end_as_their_holds_do", "completions_cost_their_tokens"}),
    (say_a_price_of_no_own_key, {"providers_prices_are_those_of_their_tokens"}),
    (hold_less_of_a_providers_price_than_nothing, {"a_day_is_never_negative", "days_are_the_sum_of_their_completions"}),
    (be_booked_as_another_model, {"completions_are_booked_as_used"}),
    (be_booked_as_another_keys, {"completions_are_booked_as_used"}),
    (cost_other_tokens, {"completions_cost_their_tokens"}),
    (be_charged_at_another_models_price, {"prices_are_those_of_their_model_and_time"}),
    (be_charged_at_a_price_of_later, {"prices_are_those_of_their_model_and_time"}),
    (be_charged_at_a_price_of_the_past, {"prices_are_those_of_their_model_and_time"}),
    (be_booked_as_settled_otherwise, {"completions_are_booked_as_used"}),
    (hold_without_a_completion, {"holds_are_of_completions"}),
    (pass_a_limit, {"admissions_fit_their_limits"}),
    (spend_of_a_run_without_completions, {"runs_are_the_sum_of_their_completions"}),
    (be_of_a_run_that_is_not_there, {"completions_count_on_what_there_is"}),
    (be_of_a_run_with_another_budget, {"completions_count_on_what_there_is"}),
    (spend_of_a_budget_without_completions, {"budgets_are_the_sum_of_their_completions"}),
    (hold_of_a_budget_without_completions, {"budgets_are_the_sum_of_their_completions"}),
    (pass_a_monthly_budget, {"admissions_fit_their_budgets"}),
    (count_on_a_budget_of_nobody, {"completions_count_on_what_there_is"}),
    (be_credited_for_nothing, {"reruns_pay_the_difference", "completions_cost_their_tokens"}),
    (repeat_a_run_that_is_not_over, {"reruns_pay_the_difference", "completions_are_booked_as_used"}),
    (
        be_credited_with_too_much,
        {"reruns_pay_the_difference", "completions_are_booked_as_used", "completions_cost_their_tokens"},
    ),
    (be_credited_twice, {"reruns_pay_the_difference", "completions_are_booked_as_used"}),
    (give_back_what_was_not_charged, {"overcharges_were_charged"}),
    (count_replies_that_are_not_stored, {"accounts_count_their_stored_replies"}),
    (count_responses_that_are_not_stored, {"accounts_count_their_stored_responses"}),
]


def test_consistent_rows_have_no_violations(story):
    assert (found(), found(story.account_id)) == (set(), set())
    day = SpendingDay.objects.get()
    assert (day.completions, day.held_nanos) == (4, 100)
    assert day.spent_nanos > 0


@pytest.mark.usefixtures("_unguarded")
@pytest.mark.one_cell
def test_a_violation_is_found_by_its_invariant_alone_in_its_own_account_only(story, subtests):
    bystander = factories.make_account(identifiers.short_uuid7(), cents=5)
    for break_it, names in BREAKS:
        with subtests.test(break_it.__name__), undone():
            break_it(ApiKey.objects.get(pk=story.pk))
            guards.forge_hashes()
            assert found() == names
            assert found(bystander.pk) == set()
            assert found(story.account_id) == names


def test_every_invariant_of_keys_and_completions_has_a_planted_violation():
    questions = [*keys_audit.INVARIANTS, *completions_audit.INVARIANTS]
    of_usage = {"usage_sums_to_the_ledger", "usage_counts_what_failed", "labels_sum_to_the_ledger"}  # tests/completions/usage
    of_usage |= {"triggers_keep_charges"}  # below
    planted = {name for _, names in [*BREAKS, *TAMPERINGS.values()] for name in names}
    assert {invariant.name for invariant in questions} <= planted | of_usage


@pytest.mark.parametrize(
    ("table", "trigger"),
    [
        ("completions_price", "prices_are_never_changed"),
        ("completions_completion", "completions_are_never_deleted"),
        ("completions_completion", "charges_are_never_changed"),
    ],
)
def test_a_missing_trigger_is_reported(db, table, trigger):
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")
    [violation] = audit.verify()
    assert (violation.invariant.name, violation.rows[0]["trigger_name"]) == ("triggers_keep_charges", trigger)


def test_a_price_and_what_was_charged_are_never_changed(story):
    charged = Completion.objects.filter(settlement="reported").first()
    others = {"price": factories.make_model("demo/other").prices.get(), "model_id": "demo/other", "settlement": "partial"}
    tokens = ("prompt_tokens", "cached_tokens", "cache_write_tokens", "cache_write_1h_tokens", "completion_tokens")
    others |= dict.fromkeys((*tokens, "cost_nanos", "images", "web_searches"), 77)
    for name, value in others.items():
        with pytest.raises(IntegrityError, match="UPDATE of completions_completion is refused"), transaction.atomic():
            Completion.objects.filter(pk=charged.pk).update(**{name: value})
    with pytest.raises(IntegrityError, match="DELETE of completions_completion is refused"), transaction.atomic():
        Completion.objects.filter(pk=charged.pk).delete()
    with pytest.raises(IntegrityError, match="UPDATE of completions_price is refused"), transaction.atomic():
        Price.objects.update(rates=[])
    Completion.objects.filter(pk=charged.pk).update(relayed_bytes=1)  # it moves no money
