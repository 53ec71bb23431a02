"""The audit finds disagreements between spending days, completions and holds."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db.models import F

from billing import audit
from billing.models import Account, Hold, LedgerEntry
from completions import audit as completions_audit
from completions.charging import settlement
from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.resolution import Resolution
from completions.models import Completion
from gateway_project import identifiers
from keys import audit as keys_audit
from keys.models import ApiKey, SpendingDay
from tests import chat, factories, usage
from tests.billing import guards
from tests.cases import undone
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
    settlement.resolve(Resolution(CompletionRecord.from_row(left), ServedBy.from_row(left), Completion.Settlement.RELEASED))


@pytest.fixture
def _unguarded(story: ApiKey) -> None:
    guards.remove("billing_account", "billing_ledgerentry", "billing_hold", "keys_apikey", "keys_spendingday")


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
    Completion.objects.filter(settlement="reported").update(repeats="released")


def pass_a_limit(key: ApiKey) -> None:
    completions("charged", limit_nanos=1)


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
    (cost_otherwise_than_settled, {"completions_end_as_their_holds_do"}),
    (be_booked_as_another_model, {"completions_are_booked_as_used"}),
    (be_booked_as_another_keys, {"completions_are_booked_as_used"}),
    (pass_a_limit, {"admissions_fit_their_limits"}),
    (be_credited_for_nothing, {"reruns_pay_the_difference"}),
    (repeat_a_run_that_is_not_over, {"reruns_pay_the_difference"}),
    (be_credited_with_too_much, {"reruns_pay_the_difference"}),
    (be_credited_twice, {"reruns_pay_the_difference"}),
    (count_replies_that_are_not_stored, {"accounts_count_their_stored_replies"}),
]


def test_consistent_rows_have_no_violations(story):
    assert (found(), found(story.account_id)) == (set(), set())
    day = SpendingDay.objects.get()
    assert (day.completions, day.held_nanos) == (4, 100)
    assert day.spent_nanos > 0


@pytest.mark.usefixtures("_unguarded")
def test_a_violation_is_found_by_its_invariant_alone_in_its_own_account_only(story, subtests):
    bystander = factories.make_account(identifiers.short_uuid7(), cents=5)
    for break_it, names in BREAKS:
        with subtests.test(break_it.__name__), undone():
            break_it(ApiKey.objects.get(pk=story.pk))
            assert found() == names
            assert found(bystander.pk) == set()
            assert found(story.account_id) == names


def test_every_invariant_of_keys_and_completions_has_a_planted_violation():
    questions = [*keys_audit.INVARIANTS, *completions_audit.INVARIANTS]
    of_usage = {"usage_sums_to_the_ledger", "usage_counts_what_failed", "labels_sum_to_the_ledger"}  # tests/completions/usage
    assert {name for _, names in BREAKS for name in names} | of_usage == {invariant.name for invariant in questions}
