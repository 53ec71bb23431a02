"""Whoever writes to the database past its triggers leaves a contradiction that the audit names. A row for each way.

The rows were made by the product. Each way changes them by SQL, as a superuser does who disables triggers, and is rolled back.
docs/invariants.md says what is left for a proof outside the database.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client, override_settings

from billing import locks
from billing.ledger import audit, signed_days, writer
from billing.ledger.archived_days import PROVIDER_DAYS
from billing.models import Account, AuditedDay, Payment, RetentionMark
from billing.staff import support_credit
from completions import tasks
from completions.catalog import price_requests
from completions.models import Completion
from gateway_project.db import cell, pool
from tests import chat, factories, ledger_audit, sessions, usage
from tests.billing import guards
from tests.billing.payments import stripe_server
from tests.billing.payments.conftest import begin, outcome
from tests.completions.offers import sheet_of
from tests.completions.tamperings import EVENTS, LONG, PROVIDED, TAMPERINGS
from tests.conftest import client_for


def make_rows() -> dict[str, Any]:
    """Give Alice's account an entry of each kind, by the functions that the product has for them. Return ids, as SQL."""
    alices_user, bobs_user, staff, lead = (
        factories.make_user(f"{name}@example.org") for name in ("alice", "bob", "staff", "lead")
    )
    alice, bob = factories.make_account("Alice", owner=alices_user), factories.make_account("Bob", owner=bobs_user)
    call_command("grant_credit", "alice@example.org", "500", "--reason", "sorry", "--reference", "by command", "--json")
    use(alice)
    with transaction.atomic():
        locks.lock_users([staff.pk])
        locked = locks.lock_account(alice.pk)
        support_credit.issue(locked, staff, amount_cents=100, reference="by staff", reason="sorry")
        asked = support_credit.issue(locked, staff, amount_cents=20_000, reference="approved", reason="sorry", ticket="")
    support_credit.approve(asked.pk, by=lead)
    intent_id = pay_and_refund(alices_user)
    factories.make_provider("other")
    with transaction.atomic():
        locked = locks.lock_account(alice.pk)
        bought = writer.credit_purchase(locked, amount_cents=100, processor="bank", payment_id="T1", issued_by=staff)
        writer.correct_credit(locked, bought.entry, amount_nanos=10, reason="typo", issued_by=staff)
    tasks.sum_up_usage()
    price = Completion.objects.earliest("id").price
    others = factories.make_model("demo/other", input="1", output="7").prices
    images = others.create(rates=factories.rates_of(input_nanos=1, output_nanos=1, image_nanos=1))
    old = price.model.prices.create(
        effective_from="2026-01-01T00:00:00Z", rates=factories.rates_of(input_nanos=1, output_nanos=1)
    )
    price.model.prices.create(effective_from="2026-01-02T00:00:00Z", rates=factories.rates_of(input_nanos=1, output_nanos=1))
    request = price_requests.ask(others.first().model, staff, sheet_of(input=1, output=3), reason="dearer")
    approved = price_requests.approve(request.pk, by=lead)
    ids: dict[str, Any] = {
        "alice": alice.pk,
        "bob": bob.pk,
        "first": alice.entries.get(seq=1).pk,
        "approved_request": request.pk,
    }
    ids["other_key"] = factories.make_key(bob)[0].pk
    numbers = {"bobs_user": bobs_user.pk, "alices_user": alices_user.pk, "price": price.pk, "old_price": old.pk}
    numbers |= {"other_price": others.first().pk, "image_price": images.pk, "approved_price": approved.pk}
    return {**{name: f"'{value}'" for name, value in ids.items()}, **numbers, "intent": intent_id}


def use(alice: Account) -> None:
    """Send two completions that are charged, one that fails, and one of a long prompt that is charged, too."""
    prices = factories.make_model("demo/echo", cached_input="0.25").prices
    long = {"input_above_20_nanos": 10**9, "output_above_20_nanos": 3 * 10**9}
    factories.change_prices(prices, flex_input_nanos=25 * 10**7, flex_output_nanos=75 * 10**7, **long)
    client = client_for(factories.make_key(alice)[1])
    assert chat.send(client, chat.body(), HTTP_IDEMPOTENCY_KEY="a").status_code == 200
    assert chat.ask(client).status_code == 200
    assert chat.ask(client, echo={"status": 500}).status_code == 502
    assert chat.ask(client, messages=[{"role": "user", "content": "word " * 40}]).status_code == 200


def pay_and_refund(user: Any) -> str:
    """Buy credit twice, have a part of the first refunded, and begin a third time. Return the id of the first payment."""
    owner = Client()
    sessions.sign_in(owner, user)
    with stripe_server.serving() as stripe, override_settings(**stripe_server.SETTINGS, STRIPE_API_BASE=stripe.origin):
        payment = begin(owner, 2_000)
        assert outcome(stripe.pay(payment.session_id)) == "APPLIED"
        assert outcome(stripe.refund(payment.session_id, 500)) == "APPLIED"
        assert outcome(stripe.pay(begin(owner, 1_000).session_id)) == "APPLIED"
        begin(owner, 3_000)
    return str(Payment.objects.get(pk=payment.pk).intent_id)


def violated() -> set[str]:
    return {each.name for each in ledger_audit.violated() if each.kind != audit.ViolationKind.UNGUARDED}


def tamper(statements: str, facts: dict[str, Any], ask: Callable[[], set[str]] = violated) -> set[str]:
    """Run the statements past all triggers and foreign keys. Return what the audit then finds, and undo them."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('session_replication_role')")
            [role] = cursor.fetchone()
            cursor.execute("SET LOCAL session_replication_role = replica")
            for statement in statements.format(**facts).split(";"):
                cursor.execute(statement)
                assert cursor.rowcount, statement
            guards.forge_hashes()
            cursor.execute(f"SET LOCAL session_replication_role = {role}")
        names = ask()
        transaction.set_rollback(True)
    return names


OF_CELLS = {"accounts_are_where_the_directory_says", "references_lead_to_their_accounts"}


def unexpected(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return what was not found as expected. With several cells the directory says more, and days of providers nothing."""
    return {way: names for way, names in found.items() if names - OF_CELLS != TAMPERINGS[way][1] - unasked()}


def unasked() -> set[str]:
    return {PROVIDED, LONG} if cell.are_several() else set()


def test_every_tampering_past_the_triggers_is_found_and_named(db):
    facts = make_rows()
    usage.check_deferred()
    ledger_audit.assert_ledger_is_consistent()
    with connection.cursor() as cursor:  # also while the audit reads: PostgreSQL plans it anew after each change
        cursor.execute("SET LOCAL session_replication_role = replica")
    found = {way: tamper(statements, facts) for way, (statements, _) in TAMPERINGS.items()}
    assert unexpected(found) == {}


# --- The nightly audit ------------------------------------------------------------------------------------------------------


def nightly(now: datetime) -> set[str]:
    return {each.invariant.name for each in signed_days.verify(now) if each.invariant.kind != audit.ViolationKind.UNGUARDED}


def cover() -> dict[str, tuple[str, set[str]]]:
    """Return some of the ways, so that each invariant names at least one of them: those that break the most come first."""
    covered: set[str] = set()
    chosen = {}
    for way, (statements, names) in sorted(TAMPERINGS.items(), key=lambda item: -len(item[1][1])):
        if names - covered:
            chosen[way] = (statements, names)
            covered |= names
    return chosen


# All ways take a minute: the audit of the whole finds all of them in the test above.
SOME_AND_ALL = pytest.mark.parametrize(
    "tamperings", [pytest.param(cover(), id="some"), pytest.param(TAMPERINGS, id="all", marks=pytest.mark.long)]
)


@SOME_AND_ALL
def test_the_nightly_audit_finds_tampering_since_the_last_signed_day(tamperings, db, settings):
    settings.AUDIT_REPEAT_DAYS = 0
    facts, now = make_rows(), pool.database_time()
    usage.check_deferred()
    AuditedDay.objects.create(day=now.date() - timedelta(days=1), digest="", rows_changed=2**62)
    found = {way: tamper(statements, facts, lambda: nightly(now)) for way, (statements, _) in tamperings.items()}
    assert unexpected(found) == {}


@SOME_AND_ALL
def test_the_nightly_audit_finds_tampering_of_a_day_that_it_reads_again(tamperings, db, settings):
    settings.AUDIT_REPEAT_DAYS = 1
    facts, later = make_rows(), pool.database_time() + timedelta(days=2)
    usage.check_deferred()
    assert nightly(later) == set()
    AuditedDay.objects.update(rows_changed=2**62)
    found = {way: tamper(statements, facts, lambda: nightly(later)) for way, (statements, _) in tamperings.items()}
    assert {way for way, names in found.items() if not names and TAMPERINGS[way][1] - unasked()} == set()


# --- Rows of before -----------------------------------------------------------------------------------------------------------


def test_events_of_before_get_the_digest_that_the_trigger_writes(db):
    make_rows()
    digests = dict(Payment.objects.values_list("pk", "events_digest"))
    assert sorted(digest is None for digest in digests.values()) == [False, False, True]
    Payment.objects.update(events_digest=None)
    assert violated() == {EVENTS}
    import_module("billing.migrations.0025_payments_have_the_digest_of_their_events").fill(apps, None)
    assert dict(Payment.objects.values_list("pk", "events_digest")) == digests


@pytest.mark.parametrize(("change", "days"), [("DELETE FROM {}", 2), ("UPDATE {} SET charged_nanos = 1", 1)])
def test_days_of_providers_that_were_added_up_in_part_are_not_asked_for(change, days, db):
    make_rows()
    with connection.cursor() as cursor:
        cursor.execute(change.format("completions_providerday"))
    assert violated() - {LONG} == ({PROVIDED} if not cell.are_several() else set())
    with connection.cursor() as cursor:
        cursor.execute(import_module("completions.migrations.0020_completions_say_what_was_held").MARK)
    today = pool.database_time().date()
    assert RetentionMark.objects.get(what=PROVIDER_DAYS).since == today + timedelta(days=days)
    assert violated() == set()


def test_a_completion_of_before_its_hold_was_noted_contradicts_nothing(db):
    make_rows()
    Completion.objects.update(held_nanos=None)
    assert violated() == set()
