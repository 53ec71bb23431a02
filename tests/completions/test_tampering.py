"""Whoever writes to the database past its triggers leaves a contradiction that the audit names. A row for each way.

The rows were made by the product. Each way changes them by SQL, as a superuser does who disables triggers, and is rolled back.
docs/invariants.md says what is left for a proof outside the database.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client, override_settings

from billing import locks
from billing.ledger import audit, signed_days, writer
from billing.models import Account, AuditedDay, Payment
from billing.staff import support_credit
from completions import tasks
from completions.models import Completion
from gateway_project.db import pool
from tests import chat, factories, sessions, usage
from tests.billing.payments import stripe_server
from tests.billing.payments.conftest import begin, outcome
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent

DOLLAR = 1_000_000_000

# What a forger writes to keep the chain: ``%(n)s`` more on each balance from this entry on, and on the account's.
RECHAIN = """
UPDATE billing_ledgerentry SET balance_after_nanos = balance_after_nanos + {n} WHERE account_id = {alice} AND seq >= {seq};
UPDATE billing_account SET balance_nanos = balance_nanos + {n} WHERE id = {alice}
"""
APPEND = """
INSERT INTO billing_ledgerentry (id, account_id, seq, type, amount_nanos, balance_after_nanos, reference, metadata, spender)
SELECT gen_random_uuid(), id, last_seq + 1, '{type}', {n}, balance_nanos + {n}, '{reference}', '{metadata}', {spender}
FROM billing_account WHERE id = {alice};
UPDATE billing_account SET balance_nanos = balance_nanos + {n}, last_seq = last_seq + 1 WHERE id = {alice}
"""
FIRST_USAGE = "(SELECT id FROM billing_ledgerentry WHERE account_id = {alice} AND type = 'USAGE_DEBIT' ORDER BY seq LIMIT 1)"
SETTLED = "(SELECT min(id) FROM completions_completion WHERE account_id = {alice} AND settlement = 'reported')"
OF_THE_SETTLED = "WHERE id = " + SETTLED


def append(type: str, n: int, reference: str, metadata: str = "{{}}", spender: str = "NULL") -> str:
    values = {"type": type, "n": n, "reference": reference, "metadata": metadata, "spender": spender}
    return APPEND.replace("{alice}", "{{alice}}").format(**values)


def change_credit(kind: str, n: int = DOLLAR) -> str:
    """Change the account's first entry with this beginning of its reference, and the chain after it."""
    seq = f"(SELECT min(seq) FROM billing_ledgerentry WHERE account_id = {{alice}} AND reference LIKE '{kind}%')"
    amount = f"UPDATE billing_ledgerentry SET amount_nanos = amount_nanos + {n} WHERE account_id = {{alice}} AND seq = {seq}"
    return amount + ";" + RECHAIN.replace("{n}", str(n)).replace("{seq}", seq)


def say(changes: str) -> str:
    """Change the metadata of the first usage entry."""
    return f"UPDATE billing_ledgerentry SET metadata = metadata || '{changes}' WHERE id = {FIRST_USAGE}"


def settled(columns: str) -> str:
    return f"UPDATE completions_completion SET {columns} {OF_THE_SETTLED}"


# The invariants, in short.
SOURCE, RECORDED = "entries_have_a_source", "manual_entries_are_booked_as_recorded"
PAID, APPROVED, MEMBERS = "payments_are_booked_as_paid", "approved_credits_are_booked", "members_are_those_who_joined"
SAYS, BOOKED, COST = "usage_says_what_was_used", "completions_are_booked_as_used", "completions_cost_their_tokens"
ENDS, PRICED, OWN = (
    "completions_end_as_their_holds_do",
    "prices_are_those_of_their_model_and_time",
    "completions_are_their_accounts",
)
DAYS, SUMS = "days_are_the_sum_of_their_completions", "usage_sums_to_the_ledger"
LAST, CHAIN, SUM = "accounts_say_what_their_last_entry_says", "balances_chain", "entries_sum_to_the_balance"
HELD, FORGED_HOLD = "settled_holds_are_debited", "holds_are_of_completions"
FORGED_SAYS = (
    '{{"model": "demo/echo", "tokens": 2, "promptTokens": 1, "completionTokens": 1, "completionId": "forged",'
    ' "costInDollars": "0.000000007", "settlement": "reported"}}'
)
FORGED_USAGE = (
    append("USAGE_DEBIT", -7, "forged", FORGED_SAYS)
    + """;
INSERT INTO billing_hold (reference, account_id, amount_nanos, state, settled_nanos, created_at, expires_at, resolved_at)
VALUES ('forged', {alice}, 7, 'SETTLED', 7, now(), now(), now())"""
)

TAMPERINGS: dict[str, tuple[str, set[str]]] = {
    # --- Balances and the chain
    "a balance is raised": ("UPDATE billing_account SET balance_nanos = balance_nanos + 1 WHERE id = {alice}", {LAST, SUM}),
    "a balance in the middle is changed": (
        "UPDATE billing_ledgerentry SET balance_after_nanos = balance_after_nanos + 1 WHERE account_id = {alice} AND seq = 2",
        {CHAIN},
    ),
    "an amount is changed alone": (
        "UPDATE billing_ledgerentry SET amount_nanos = amount_nanos + 1 WHERE account_id = {alice} AND seq = 1",
        {CHAIN, SUM, RECORDED},
    ),
    "the last seq is changed": ("UPDATE billing_account SET last_seq = last_seq + 1 WHERE id = {alice}", {LAST}),
    "an entry is deleted": (
        f"DELETE FROM billing_ledgerentry WHERE id = {FIRST_USAGE}",
        {"seq_has_no_gaps", CHAIN, SUM, HELD, SUMS, "keys_spend_within_their_account"},
    ),
    "an entry is backdated": (
        f"UPDATE billing_ledgerentry SET created_at = '2026-01-01' WHERE id = {FIRST_USAGE}",
        {"times_do_not_run_back", SUMS},
    ),
    "two entries change places": (
        "UPDATE billing_ledgerentry SET seq = seq + 1000 WHERE account_id = {alice} AND seq IN (1, 3);"
        "UPDATE billing_ledgerentry SET seq = 1004 - seq WHERE account_id = {alice} AND seq IN (1001, 1003)",
        {CHAIN, "times_do_not_run_back"},
    ),
    # --- Credits, with the chain recomputed
    "a grant is raised by a dollar": (change_credit("support:by command"), {RECORDED}),
    "a grant of staff is raised by a dollar": (change_credit("support:by staff"), {RECORDED}),
    "an approved credit is raised by a dollar": (change_credit("support:approved"), {RECORDED, APPROVED}),
    "a payment's credit is raised by a dollar": (change_credit("pay:stripe"), {PAID}),
    "a bank transfer is raised by a dollar": (change_credit("pay:bank"), {RECORDED}),
    "a correction is made smaller": (change_credit("correction", 1), {RECORDED}),
    "a refund of a payment is made smaller": (change_credit("refund:stripe", 1), {PAID}),
    "a support credit is invented": (append("SUPPORT_CREDIT", DOLLAR, "support:forged", '{{"reason": "x"}}'), {SOURCE}),
    "a purchase is invented": (append("CREDIT_PURCHASE", DOLLAR, "pay:stripe:pi_forged"), {SOURCE}),
    "a bank transfer is invented": (append("CREDIT_PURCHASE", DOLLAR, "pay:bank:forged"), {SOURCE}),
    "a returned refund is invented": (append("CREDIT_PURCHASE", DOLLAR, "unrefund:stripe:pi_forged:1"), {SOURCE}),
    "a refund is invented": (append("REFUND_DEBIT", -DOLLAR, "refund:forged"), {SOURCE}),
    "a refund of a payment is invented": (
        append("REFUND_DEBIT", -DOLLAR, "refund:stripe:")
        + ";UPDATE billing_ledgerentry SET reference = reference || '{intent}:2'"
        " WHERE reference = 'refund:stripe:'",
        {SOURCE},
    ),
    "a credit is given to another account": (
        "UPDATE billing_manualentry SET account_id = {bob} WHERE reference = 'support:by command'",
        {RECORDED},
    ),
    "a credit gets another reference": (
        "UPDATE billing_ledgerentry SET reference = 'support:x' WHERE reference = 'support:by command'",
        {RECORDED},
    ),
    "a credit gets another reason": (
        """UPDATE billing_ledgerentry SET metadata = '{{"reason": "x"}}' WHERE reference = 'support:by command'""",
        {RECORDED},
    ),
    "a credit gets another issuer": (
        "UPDATE billing_ledgerentry SET issued_by_id = NULL WHERE reference = 'support:by staff'",
        {RECORDED},
    ),
    "a credit becomes a purchase": (
        "UPDATE billing_ledgerentry SET type = 'CREDIT_PURCHASE' WHERE reference = 'support:by command'",
        {RECORDED},
    ),
    "a record of a grant is deleted": ("DELETE FROM billing_manualentry WHERE reference = 'support:by command'", {SOURCE}),
    "a record of a grant is changed": (
        "UPDATE billing_manualentry SET amount_nanos = 1 WHERE reference = 'support:by command'",
        {RECORDED},
    ),
    "a purchase names another payment": (
        """UPDATE billing_ledgerentry SET metadata = '{{"stripePaymentId": "x"}}' WHERE reference LIKE 'pay:stripe:%'""",
        {SOURCE},
    ),
    "a refund names another credit": (
        "UPDATE billing_ledgerentry SET metadata = metadata || jsonb_build_object('entryId', {first})"
        " WHERE reference LIKE 'refund:stripe:%'",
        {SOURCE},
    ),
    "an approval is of another amount": ("UPDATE billing_creditrequest SET amount_cents = amount_cents + 1", {APPROVED}),
    "an approval is by who asked": (
        "ALTER TABLE billing_creditrequest DROP CONSTRAINT nobody_approves_what_they_asked_for;"
        "UPDATE billing_creditrequest SET decided_by_id = requested_by_id",
        {APPROVED},
    ),
    "a payment's amount is changed": ("UPDATE billing_payment SET amount_cents = amount_cents + 1", {PAID}),
    "a payment forgets its refund": ("UPDATE billing_payment SET debits = 0, debited_cents = 0", {SOURCE}),
    # --- Usage
    "costInDollars is changed": (say('{{"costInDollars": "0.00"}}'), {SAYS}),
    "costInDollars is removed": (
        f"UPDATE billing_ledgerentry SET metadata = metadata - 'costInDollars' WHERE id = {FIRST_USAGE}",
        {SAYS},
    ),
    "settlement is changed": (say('{{"settlement": "estimated"}}'), {BOOKED}),
    "the model is changed": (say('{{"model": "demo/other"}}'), {BOOKED, SUMS}),
    "tokens are changed": (say('{{"tokens": 1}}'), {SAYS}),
    "tokens are changed and add up": (say('{{"tokens": 2, "promptTokens": 1, "completionTokens": 1}}'), {BOOKED, SUMS}),
    "tokens become a word": (say('{{"promptTokens": "many"}}'), {SAYS, BOOKED, SUMS}),
    "the completion's id is changed": (say('{{"completionId": "x"}}'), {SAYS}),
    "a charge before is invented": (say('{{"chargedBeforeInDollars": "1.00"}}'), {BOOKED}),
    "a debit is of another key": (f"UPDATE billing_ledgerentry SET spender = 'x' WHERE id = {FIRST_USAGE}", {BOOKED, SUMS}),
    "usage is made cheaper, with the chain": (
        change_credit("chatcmpl", 1),
        {SAYS, HELD, SUMS, "keys_spend_within_their_account"},
    ),
    "usage is invented": (append("USAGE_DEBIT", -7, "forged"), {SAYS, "debits_were_held"}),
    "usage is invented with its hold": (FORGED_USAGE, {FORGED_HOLD}),
    "a hold says another cost": (
        f"UPDATE billing_hold SET settled_nanos = settled_nanos - 1 WHERE reference = {SETTLED}",
        {HELD, ENDS, DAYS},
    ),
    "a hold is deleted": (f"DELETE FROM billing_hold WHERE reference = {SETTLED}", {"debits_were_held", OWN, DAYS}),
    "a released hold is open": (
        "UPDATE billing_hold SET state = 'HELD', resolved_at = NULL WHERE state = 'RELEASED'",
        {"open_holds_sum_to_what_is_held", "accounts_count_their_open_holds", ENDS, DAYS, "usage_counts_what_failed"},
    ),
    "a hold is smaller than its cost": (
        f"UPDATE billing_hold SET amount_nanos = 1, settled_nanos = 1 WHERE reference = {SETTLED}",
        {HELD, ENDS, COST, DAYS},
    ),
    # --- Completions and prices
    "a completion has another price": (settled("price_id = {other_price}"), {PRICED, COST}),
    "a completion has an older price of its model": (settled("price_id = {old_price}"), {PRICED, COST}),
    "a completion has another model": (settled("model_id = 'demo/other'"), {PRICED, BOOKED}),
    "a completion has other tokens": (settled("completion_tokens = completion_tokens + 1"), {COST, BOOKED, DAYS}),
    "a completion has cached tokens": (settled("cached_tokens = prompt_tokens"), {COST}),
    "a completion has images": (settled("price_id = {image_price}, images = 3"), {PRICED, COST}),
    "a completion has another cost": (settled("cost_nanos = cost_nanos + 1"), {COST, ENDS}),
    "a completion has another settlement": (settled("settlement = 'partial'"), {BOOKED}),
    "a completion is of another key": (settled("key_id = {other_key}"), {BOOKED, DAYS, OWN}),
    "a completion is of another account": (settled("account_id = {bob}"), {OWN}),
    "a completion was paid before": (settled("charged_before_nanos = 1"), {COST, "reruns_pay_the_difference"}),
    "a completion counts on another day": (settled("spending_day = spending_day - 1"), {DAYS}),
    "a completion is deleted": (f"DELETE FROM completions_completion {OF_THE_SETTLED}", {FORGED_HOLD, DAYS}),
    "a price is lowered": ("UPDATE completions_price SET output_nanos = output_nanos - 1000000 WHERE id = {price}", {COST}),
    "a price begins later": (
        "UPDATE completions_price SET effective_from = now() + interval '1 day' WHERE id = {price}",
        {PRICED},
    ),
    "a price is another model's": ("UPDATE completions_price SET model_id = 'demo/other' WHERE id = {price}", {PRICED}),
    # --- Keys, days and members
    "a key's day is lowered": ("UPDATE keys_spendingday SET spent_nanos = spent_nanos - 1", {DAYS}),
    "an hour of usage is lowered": ("UPDATE completions_usagehour SET cost_nanos = cost_nanos - 1", {SUMS}),
    "members of two accounts are swapped": (
        "UPDATE billing_membership SET user_id = CASE account_id WHEN {alice} THEN {bobs_user} ELSE {alices_user} END"
        " WHERE account_id IN ({alice}, {bob})",
        {MEMBERS},
    ),
    "a member is added": (
        "INSERT INTO billing_membership (account_id, user_id, role, created_at) VALUES ({alice}, {bobs_user}, 'OWNER', now())",
        {MEMBERS},
    ),
    "a member is removed": ("DELETE FROM billing_membership WHERE account_id = {alice}", {MEMBERS}),
    "a member gets another role": ("UPDATE billing_membership SET role = 'VIEWER' WHERE account_id = {alice}", {MEMBERS}),
    "a record of a member is deleted": ("DELETE FROM billing_membershipchange WHERE account_id = {alice}", {MEMBERS}),
}


def make_rows() -> dict[str, Any]:
    """Give Alice's account an entry of each kind, by the functions that the product has for them. Return ids, as SQL."""
    alices_user, bobs_user, staff, lead = (
        factories.make_user(f"{name}@example.org") for name in ("alice", "bob", "staff", "lead")
    )
    alice, bob = factories.make_account("Alice", owner=alices_user), factories.make_account("Bob", owner=bobs_user)
    call_command("grant_credit", "alice@example.org", "500", "--reason", "sorry", "--reference", "by command", "--json")
    use(alice)
    given: dict[str, Any] = {"amount_cents": 100, "reason": "sorry", "issued_by": staff}
    support_credit.issue(alice.pk, **given, reference="by staff")
    asked = support_credit.issue(alice.pk, **{**given, "amount_cents": 20_000}, reference="approved")
    assert isinstance(asked, support_credit.RequestedCredit)
    support_credit.approve(asked.request.pk, by=lead)
    intent_id = pay_and_refund(alices_user)
    with transaction.atomic():
        locked = locks.lock_account(alice.pk)
        bought = writer.credit_purchase(locked, amount_cents=100, processor="bank", payment_id="T1", issued_by=staff)
        writer.correct_credit(locked, bought.entry, amount_nanos=10, reason="typo", issued_by=staff)
    tasks.sum_up_usage()
    price = Completion.objects.earliest("id").price
    others = factories.make_model("demo/other", input="1", output="7").prices
    images = others.create(input_nanos=1, output_nanos=1, image_nanos=1)
    old = price.model.prices.create(input_nanos=1, output_nanos=1, effective_from="2026-01-01T00:00:00Z")
    price.model.prices.create(input_nanos=1, output_nanos=1, effective_from="2026-01-02T00:00:00Z")
    ids = {"alice": alice.pk, "bob": bob.pk, "first": alice.entries.get(seq=1).pk, "other_key": factories.make_key(bob)[0].pk}
    numbers = {"bobs_user": bobs_user.pk, "alices_user": alices_user.pk, "price": price.pk, "old_price": old.pk}
    numbers |= {"other_price": others.first().pk, "image_price": images.pk}
    return {**{name: f"'{value}'" for name, value in ids.items()}, **numbers, "intent": intent_id}


def use(alice: Account) -> None:
    """Send two completions that are charged, and one that fails."""
    factories.make_model("demo/echo", cached_input="0.25")
    client = client_for(factories.make_key(alice)[1])
    for _ in range(2):
        assert chat.ask(client).status_code == 200
    assert chat.ask(client, echo={"status": 500}).status_code == 502


def pay_and_refund(user: Any) -> str:
    """Buy credit, and have a part of it refunded. Return the processor's id of the payment."""
    owner = Client()
    sessions.sign_in(owner, user)
    with stripe_server.serving() as stripe, override_settings(**stripe_server.SETTINGS, STRIPE_API_BASE=stripe.origin):
        payment = begin(owner, 2_000)
        assert outcome(stripe.pay(payment.session_id)) == "APPLIED"
        assert outcome(stripe.refund(payment.session_id, 500)) == "APPLIED"
    return str(Payment.objects.get().intent_id)


def violated() -> set[str]:
    return {each.invariant.name for each in audit.verify() if each.invariant.kind != audit.ViolationKind.UNGUARDED}


def tamper(statements: str, facts: dict[str, Any], ask: Callable[[], set[str]] = violated) -> set[str]:
    """Run the statements past all triggers and foreign keys. Return what the audit then finds, and undo them."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            for statement in statements.format(**facts).split(";"):
                cursor.execute(statement)
                assert cursor.rowcount, statement
            cursor.execute("SET LOCAL session_replication_role = origin")
        names = ask()
        transaction.set_rollback(True)
    return names


def test_every_tampering_past_the_triggers_is_found_and_named(db):
    facts = make_rows()
    usage.check_deferred()
    assert_ledger_is_consistent()
    found = {way: tamper(statements, facts) for way, (statements, _) in TAMPERINGS.items()}
    assert found == {way: names for way, (_, names) in TAMPERINGS.items()}


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
    assert found == {way: names for way, (_, names) in tamperings.items()}


@SOME_AND_ALL
def test_the_nightly_audit_finds_tampering_of_a_day_that_it_reads_again(tamperings, db, settings):
    settings.AUDIT_REPEAT_DAYS = 1
    facts, later = make_rows(), pool.database_time() + timedelta(days=2)
    usage.check_deferred()
    assert nightly(later) == set()
    AuditedDay.objects.update(rows_changed=2**62)
    found = {way: tamper(statements, facts, lambda: nightly(later)) for way, (statements, _) in tamperings.items()}
    assert {way for way, names in found.items() if not names} == set()
