"""The database refuses violations. Every constraint and every trigger has a test, which is named after it."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from django.apps import apps
from django.db import DataError, IntegrityError, connection, transaction
from django.db.models import F, ProtectedError

from billing import audit, money
from billing.models import (
    Account,
    AccountClosing,
    AccountExport,
    AddressChange,
    AuditedLedger,
    CreditRequest,
    ExportPart,
    Hold,
    Invitation,
    LedgerEntry,
    ManualEntry,
    Membership,
    MembershipChange,
    OwnerRequest,
    SecondFactorRequest,
    User,
)
from gateway_project import identifiers
from tests import factories, usage
from tests.billing.refused_rows import refused
from tests.faults import fault

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def add_entry(account: Account, **fields) -> LedgerEntry:
    """Insert an entry without ``ledger``. It follows the last one, except for ``fields``."""
    amount = fields.pop("amount_nanos", 5)
    fields = {
        "type": "SUPPORT_CREDIT",
        "seq": account.last_seq + 1,
        "balance_after_nanos": account.balance_nanos + amount,
        "reference": "by hand",
        **fields,
    }
    return LedgerEntry.objects.create(account=account, amount_nanos=amount, **fields)


def add_hold(account: Account, **fields) -> Hold:
    return Hold.objects.create(account=account, **{"reference": "by hand", "amount_nanos": 5, "expires_at": NOW, **fields})


# --- People and accounts -------------------------------------------------------------------------------------------


def test_an_email_is_stored_in_lower_case(db):
    with refused("an_email_is_stored_in_lower_case"):
        User.objects.create(email="Ann@example.org")


def test_an_email_is_taken_once(db):
    User.objects.create_user("ann@example.org")
    with refused("email"):
        User.objects.create_user("ANN@example.org")


def test_a_person_joins_an_account_once(alice):
    with refused("a_person_joins_an_account_once"):
        Membership.objects.create(account=alice, user=alice.members.get())


def test_a_member_has_a_role(alice):
    with refused("a_member_has_a_role"):
        alice.memberships.update(role="KING")


def invite(account, **fields):
    defaults = {"email": "new@example.org", "role": "VIEWER", "digest": "0" * 64, "expires_at": NOW}
    return Invitation.objects.create(account=account, invited_by=account.members.get(), **{**defaults, **fields})


def test_an_invitation_is_to_a_role(alice):
    with refused("an_invitation_is_to_a_role"):
        invite(alice, role="KING")


def test_an_invited_email_is_in_lower_case(alice):
    with refused("an_invited_email_is_in_lower_case"):
        invite(alice, email="New@example.org")


def test_an_invitation_ends_once(alice):
    with refused("an_invitation_ends_once"):
        invite(alice, accepted_at=NOW, revoked_at=NOW)


def test_an_address_is_invited_once(alice):
    invite(alice)
    with refused("an_address_is_invited_once"):
        invite(alice, digest="1" * 64)
    Invitation.objects.update(revoked_at=NOW)
    invite(alice, digest="1" * 64)


def test_held_money_is_never_negative(alice):
    with refused("held_money_is_never_negative"):
        Account.objects.filter(pk=alice.pk).update(held_nanos=-1)


def test_a_book_begins_at_zero(bob):
    with refused("a_book_begins_at_zero"):
        Account.objects.filter(pk=bob.pk).update(last_seq=-1)


def test_an_account_with_entries_cannot_be_deleted(alice):
    with pytest.raises(ProtectedError):
        alice.delete()
    with refused("foreign key"):
        execute("DELETE FROM billing_membership")
        execute("DELETE FROM billing_account")


# --- Entries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "amount_nanos"),
    [
        ("CREDIT_PURCHASE", 0),
        ("CREDIT_PURCHASE", -1),
        ("SUPPORT_CREDIT", 0),
        ("SUPPORT_CREDIT", -1),
        ("REFUND_DEBIT", 0),
        ("REFUND_DEBIT", 1),
        ("USAGE_DEBIT", 1),
        ("GIFT", 1),
        ("GIFT", -1),
    ],
)
def test_credits_add_and_debits_take(alice, type, amount_nanos):
    with refused("credits_add_and_debits_take"):
        add_entry(alice, type=type, amount_nanos=amount_nanos)


def test_only_usage_has_a_spender(alice):
    with refused("only_usage_has_a_spender"):
        add_entry(alice, spender="somebody")


def test_a_reference_is_booked_once(alice):
    with refused("reference"):
        add_entry(alice, reference=alice.entries.get().reference)


@pytest.mark.parametrize(("seq", "name"), [(1, "a_place_in_the_book_is_taken_once"), (0, "seq_counts_from_one")])
def test_a_seq_is_unique_even_without_the_trigger_of_the_chain(alice, seq, name):
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    execute("ALTER TABLE billing_ledgerentry DISABLE TRIGGER entries_follow_each_other")
    with refused(name):
        add_entry(alice, seq=seq)


@pytest.mark.parametrize("seq", [1, 3])
def test_entries_follow_each_other_without_gaps(alice, seq):
    with refused(f"seq {seq} does not follow 1"):
        add_entry(alice, seq=seq)


def test_the_first_entry_has_seq_one(bob):
    with refused("seq 2 does not follow 0"):
        add_entry(bob, seq=2)


def test_entries_follow_each_other_in_their_balance(alice):
    with refused("balance 7 is not 10000000000 plus 5"):
        add_entry(alice, balance_after_nanos=7)


@fault(
    "Clock",
    "The clock is behind the last ledger entry",
    "The next entry has the last one's time: times never run back",
)
def test_entries_follow_each_other_in_their_times_whatever_the_clock_says(alice):
    first = alice.entries.get()
    assert first.created_at > NOW
    entry = add_entry(alice, created_at=NOW)
    Account.objects.filter(pk=alice.pk).update(balance_nanos=entry.balance_after_nanos, last_seq=2)
    usage.check_deferred()
    entry.refresh_from_db()
    assert entry.created_at == first.created_at


def test_entries_of_one_statement_follow_each_other(bob):
    def entry(seq: int) -> LedgerEntry:
        return LedgerEntry(
            account=bob, seq=seq, type="SUPPORT_CREDIT", amount_nanos=5, balance_after_nanos=5 * seq, reference=f"r{seq}"
        )

    with refused("seq 2 does not follow 0"):
        LedgerEntry.objects.bulk_create([entry(2), entry(1)])
    LedgerEntry.objects.bulk_create([entry(1), entry(2)])
    Account.objects.filter(pk=bob.pk).update(balance_nanos=10, last_seq=2)
    usage.check_deferred()


def test_entries_are_never_changed(alice):
    for change in ({"amount_nanos": 1}, {"metadata": {}}, {"reference": "other"}, {"created_at": NOW}):
        with refused("UPDATE on billing_ledgerentry is refused"):
            LedgerEntry.objects.update(**change)


def test_entries_are_never_changed_by_deleting_them(alice):
    entry = alice.entries.get()
    with refused("DELETE on billing_ledgerentry is refused"):
        execute("DELETE FROM billing_ledgerentry")
    assert alice.entries.get() == entry


@pytest.mark.django_db(transaction=True)
def test_entries_are_never_truncated():
    account = factories.make_account("Alice", cents=1000)
    for statement in ("TRUNCATE billing_ledgerentry CASCADE", "TRUNCATE billing_account CASCADE"):
        with refused("TRUNCATE on billing_ledgerentry is refused"):
            execute(statement)
    assert account.entries.count() == 1


# --- Entries and accounts, at commit ---------------------------------------------------------------------------------


def test_accounts_agree_with_their_book(alice):
    for change in ({"balance_nanos": F("balance_nanos") + 1}, {"last_seq": 2}):
        with refused(f"account {alice.pk} says"):
            Account.objects.filter(pk=alice.pk).update(**change)
    with refused("says balance 7 and seq 0, its book 0 and 0"):
        Account.objects.create(name="Rich from birth", balance_nanos=7)


@pytest.mark.parametrize("fault", ["a nanodollar more", "of another account", "of a debit", "of nothing"])
def test_refunds_fit_their_credit(alice, charlie, fault):
    credit = alice.entries.get(seq=1)
    entry_id = {"of another account": charlie.entries.get(seq=1).pk, "of nothing": UUID(int=1)}.get(fault, credit.pk)
    if fault == "of a debit":
        entry_id = usage.spend(alice, 5).pk
    first = usage.refund(alice, 100, "without saying of what").entry
    assert first.amount_nanos == -money.nanos(100)
    amount = -credit.amount_nanos - 1 if fault == "a nanodollar more" else -1
    alice.refresh_from_db()
    with refused("does not fit entry"):
        add_entry(alice, type="REFUND_DEBIT", amount_nanos=amount, metadata={"reason": "test", "entryId": str(entry_id)})


def test_entries_agree_with_their_account(alice):
    with refused("its book 10000000005 and 2"):
        add_entry(alice)


def test_an_account_cannot_take_the_id_of_another_one(alice, bob):
    """Bob, with more entries, takes Alice's id while her new entry is checked."""
    for _ in range(3):
        factories.credit(bob, 1)
    usage.check_deferred()
    unused_id = identifiers.uuid7()

    def move(old: UUID, new: UUID) -> None:
        execute(f"UPDATE billing_account SET id = '{new}' WHERE id = '{old}'")

    with refused(f"account {alice.pk} says balance 10000000000 and seq 1, its book 10000000005 and 2"):
        move(alice.pk, unused_id)
        move(bob.pk, alice.pk)
        add_entry(alice)
        execute("SET CONSTRAINTS entries_agree_with_their_account IMMEDIATE")
        move(alice.pk, bob.pk)
        move(unused_id, alice.pk)


def test_an_entry_needs_an_existing_account(alice):
    with refused(f"account {alice.pk} is not there"):
        execute(f"UPDATE billing_account SET id = '{identifiers.uuid7()}' WHERE id = '{alice.pk}'")
        add_entry(alice)
        execute("SET CONSTRAINTS entries_agree_with_their_account IMMEDIATE")


@pytest.mark.django_db(transaction=True)
def test_a_transaction_whose_entries_and_account_disagree_is_not_committed():
    account = factories.make_account("Alice", cents=1000)
    with pytest.raises(IntegrityError, match="its book"), transaction.atomic():
        add_entry(account)
    with pytest.raises(IntegrityError, match="its book"), transaction.atomic():
        Account.objects.filter(pk=account.pk).update(balance_nanos=0)
    assert usage.numbers(account)["balance"] == money.nanos(1000)
    assert account.entries.count() == 1


def test_a_balance_beyond_the_largest_number_is_refused(alice):
    with pytest.raises(DataError), transaction.atomic():
        factories.credit(alice, money.CENTS_MAX)
    assert usage.numbers(alice)["seq"] == 1


# --- Holds ---------------------------------------------------------------------------------------------------------


def test_a_hold_is_never_negative(alice):
    with refused("a_hold_is_never_negative"):
        add_hold(alice, amount_nanos=-1)


@pytest.mark.parametrize("settled_nanos", [6, -1])
def test_no_more_is_settled_than_was_held(alice, settled_nanos):
    with refused("no_more_is_settled_than_was_held"):
        add_hold(alice, state="SETTLED", settled_nanos=settled_nanos, resolved_at=NOW)


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "SETTLED", "resolved_at": NOW},
        {"state": "RELEASED", "settled_nanos": 0, "resolved_at": NOW},
        {"state": "HELD", "settled_nanos": 0},
    ],
)
def test_only_a_settled_hold_says_what_it_cost(alice, fields):
    with refused("only_a_settled_hold_says_what_it_cost"):
        add_hold(alice, **fields)


@pytest.mark.parametrize("fields", [{"state": "RELEASED"}, {"state": "HELD", "resolved_at": NOW}])
def test_a_hold_is_open_until_it_is_resolved(alice, fields):
    with refused("a_hold_is_open_until_it_is_resolved"):
        add_hold(alice, **fields)


def test_a_reference_is_held_once(alice):
    usage.place(alice, 5, reference="one")
    with refused("billing_hold_pkey"):
        usage.place(alice, 5, reference="one")
    assert usage.numbers(alice)["held"] == 5


@pytest.mark.parametrize("resolve", [usage.release, usage.expire])
def test_holds_resolve_once(alice, resolve):
    hold = usage.place(alice, 5)
    resolve(alice, hold)
    for change in ({"state": "HELD", "resolved_at": None}, {"state": "EXPIRED"}, {"expires_at": NOW}):
        with refused("and stays so"):
            Hold.objects.filter(pk=hold.pk).update(**change)


def test_holds_resolve_once_and_are_never_forgotten(alice):
    usage.place(alice, 5)
    with refused("is HELD and stays so"):
        Hold.objects.all().delete()


def test_holds_resolve_once_on_the_terms_they_were_placed_on(alice, bob):
    usage.place(alice, 5)
    for change in ({"amount_nanos": 4}, {"account": bob}, {"reference": "other"}):
        with refused("the terms of hold"):
            Hold.objects.update(**change)


# --- Credits that wait for a second person ---------------------------------------------------------------------------


@pytest.fixture
def asked(alice):
    requester = factories.make_user("support@example.org")
    return CreditRequest.objects.create(
        reference="form", account=alice, amount_cents=20_000, reason="sorry", requested_by=requester
    )


def decided(asked, decision, **columns):
    return {"decision": decision, "decided_by": factories.make_user("lead@example.org"), "decided_at": NOW, **columns}


def test_nobody_approves_what_they_asked_for(asked):
    with refused("nobody_approves_what_they_asked_for"):
        own = decided(asked, "APPROVED", decided_by=asked.requested_by, entry=asked.account.entries.get())
        CreditRequest.objects.update(**own)


@pytest.mark.parametrize("cents", [0, -1])
def test_a_credit_is_asked_for_in_whole_cents(asked, cents):
    with refused("a_credit_is_asked_for_in_whole_cents"):
        CreditRequest.objects.create(
            reference="other", account=asked.account, amount_cents=cents, requested_by=asked.requested_by
        )


@pytest.mark.parametrize("missing", ["decision", "decided_by", "decided_at"])
def test_a_credit_waits_until_it_is_decided(asked, missing):
    columns = decided(asked, "DECLINED")
    columns[missing] = "" if missing == "decision" else None
    with refused("a_credit_waits_until_it_is_decided"):
        CreditRequest.objects.update(**columns)


def test_only_an_approved_credit_is_booked(asked):
    for columns in ({"decision": "APPROVED"}, {"decision": "DECLINED", "entry": asked.account.entries.get()}):
        with refused("only_an_approved_credit_is_booked"):
            CreditRequest.objects.update(**{**decided(asked, ""), **columns})
        User.objects.filter(email="lead@example.org").delete()


def test_credit_requests_are_decided_once(asked, bob):
    others = {"reference": "other", "account": bob, "amount_cents": 1, "reason": "x", "ticket": "x", "payment_id": "x"}
    for name, value in others.items():
        with refused("the terms of credit request"):
            CreditRequest.objects.update(**{name: value})
    with refused("stays as it is: DELETE"):
        CreditRequest.objects.all().delete()
    CreditRequest.objects.update(**decided(asked, "DECLINED"))
    with refused("stays as it is: UPDATE"):
        CreditRequest.objects.update(decision="", decided_by=None, decided_at=None)


@pytest.mark.parametrize(("kind", "payment_id"), [("SUPPORT_CREDIT", "BANK-1"), ("CREDIT_PURCHASE", "")])
def test_a_payment_that_waits_has_the_banks_id(asked, kind, payment_id):
    with refused("a_payment_that_waits_has_the_banks_id"):
        CreditRequest.objects.create(
            reference="other",
            account=asked.account,
            amount_cents=1,
            requested_by=asked.requested_by,
            kind=kind,
            payment_id=payment_id,
        )


@pytest.fixture
def owner_asked(alice, bob):
    requester = factories.make_user("support@example.org")
    return OwnerRequest.objects.create(account=alice, user=bob.members.get(), requested_by=requester)


def test_nobody_approves_an_owner_they_asked_for(owner_asked):
    with refused("nobody_approves_an_owner_they_asked_for"):
        OwnerRequest.objects.update(**decided(owner_asked, "APPROVED", decided_by=owner_asked.requested_by))


def test_an_owner_waits_until_it_is_decided(owner_asked):
    with refused("an_owner_waits_until_it_is_decided"):
        OwnerRequest.objects.update(**decided(owner_asked, "DECLINED", decided_by=None))


def test_an_owner_is_asked_for_once_at_a_time(owner_asked):
    terms = {"account": owner_asked.account, "user": owner_asked.user, "requested_by": owner_asked.requested_by}
    with refused("an_owner_is_asked_for_once_at_a_time"):
        OwnerRequest.objects.create(**terms)
    OwnerRequest.objects.update(**decided(owner_asked, "DECLINED"))
    OwnerRequest.objects.create(**terms)


def test_owner_requests_are_decided_once(owner_asked, bob, charlie):
    for name, value in {"account": bob, "user": charlie.members.get(), "reason": "x", "ticket": "x"}.items():
        with refused("the terms of owner request"):
            OwnerRequest.objects.update(**{name: value})
    with refused("stays as it is: DELETE"):
        OwnerRequest.objects.all().delete()
    OwnerRequest.objects.update(**decided(owner_asked, "DECLINED"))
    with refused("stays as it is: UPDATE"):
        OwnerRequest.objects.update(decision="", decided_by=None, decided_at=None)


@pytest.fixture
def removal_asked(alice):
    requester = factories.make_user("support@example.org")
    return SecondFactorRequest.objects.create(account=alice, user=alice.members.get(), requested_by=requester)


def test_nobody_approves_a_removal_they_asked_for(removal_asked):
    with refused("nobody_approves_a_removal_they_asked_for"):
        SecondFactorRequest.objects.update(**decided(removal_asked, "APPROVED", decided_by=removal_asked.requested_by))


def test_a_removal_waits_until_it_is_decided(removal_asked):
    with refused("a_removal_waits_until_it_is_decided"):
        SecondFactorRequest.objects.update(**decided(removal_asked, "DECLINED", decided_by=None))


def test_a_removal_is_asked_for_once_at_a_time(removal_asked):
    terms = {"account": removal_asked.account, "user": removal_asked.user, "requested_by": removal_asked.requested_by}
    with refused("a_removal_is_asked_for_once_at_a_time"):
        SecondFactorRequest.objects.create(**terms)
    SecondFactorRequest.objects.update(**decided(removal_asked, "DECLINED"))
    SecondFactorRequest.objects.create(**terms)


def test_removals_are_decided_once(removal_asked, bob, charlie):
    for name, value in {"account": bob, "user": charlie.members.get(), "reason": "x", "ticket": "x"}.items():
        with refused("the terms of second factor request"):
            SecondFactorRequest.objects.update(**{name: value})
    with refused("stays as it is: DELETE"):
        SecondFactorRequest.objects.all().delete()
    SecondFactorRequest.objects.update(**decided(removal_asked, "DECLINED"))
    with refused("stays as it is: UPDATE"):
        SecondFactorRequest.objects.update(decision="", decided_by=None, decided_at=None)


def test_a_user_asks_for_one_change_of_address(alice):
    terms = {"user": alice.members.get(), "former": "alice@example.org", "address": "new@example.org"}
    AddressChange.objects.create(**terms)
    with refused("a_user_asks_for_one_change_of_address"):
        AddressChange.objects.create(**terms)


def test_a_manual_entry_names_who_booked_it(alice, bob):
    facts = {"entry": alice.entries.get(), "account": alice, "type": "SUPPORT_CREDIT", "amount_nanos": 1}
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    execute("ALTER TABLE billing_manualentry DISABLE TRIGGER USER")
    ManualEntry.objects.all().delete()
    for named in ({}, {"issued_by": bob.members.get(), "operator": "root@db"}):
        with refused("a_manual_entry_names_who_booked_it"):
            ManualEntry.objects.create(**facts, **named)
    ManualEntry.objects.create(**facts, operator="root@db")


def test_manual_entries_are_never_changed(alice):
    for change in (lambda: ManualEntry.objects.update(amount_nanos=1), lambda: ManualEntry.objects.all().delete()):
        with refused("on billing_manualentry is refused"):
            change()


# --- Members -------------------------------------------------------------------------------------------------------


def test_memberships_are_recorded(alice, bob):
    member = alice.memberships.get()
    changed = MembershipChange.objects.filter(account_id=alice.pk).order_by("pk").values_list("user_id", "role")
    assert list(changed) == [(member.user_id, "OWNER")]
    with refused("a membership stays that of its user and account"):
        Membership.objects.filter(pk=member.pk).update(user=bob.members.get())
    with refused("a membership stays that of its user and account"):
        Membership.objects.filter(pk=member.pk).update(account=bob)
    Membership.objects.filter(pk=member.pk).update(role="VIEWER")
    member.delete()
    assert list(changed.all()) == [(member.user_id, "OWNER"), (member.user_id, "VIEWER"), (member.user_id, "")]


def test_membership_changes_are_never_changed(alice):
    for change in (lambda: MembershipChange.objects.update(role=""), lambda: MembershipChange.objects.all().delete()):
        with refused("changes of members are append-only"):
            change()


def test_an_accounts_open_holds_are_never_negative(alice):
    with refused("an_accounts_open_holds_are_never_negative"):
        Account.objects.update(open_holds=-1)


def test_an_account_may_run_at_least_one_request(alice):
    with refused("an_account_may_run_at_least_one_request"):
        Account.objects.update(requests_in_flight_max=0)
    Account.objects.update(requests_in_flight_max=1)


@pytest.mark.parametrize("what", ["requests", "tokens"])
def test_an_accounts_rate_is_at_least_one_a_minute(alice, what):
    with refused("an_accounts_rate_is_at_least_one_a_minute"):
        Account.objects.update(**{f"{what}_per_minute": 0})
    Account.objects.update(**{f"{what}_per_minute": 1})


def test_a_ledgers_day_is_signed_once(alice):
    signed = {
        "account": alice,
        "day": NOW.date(),
        "last_seq": 1,
        "last_at": NOW,
        "balance_nanos": 1,
        "debited_nanos": 0,
        "digest": "",
    }
    AuditedLedger.objects.create(**signed)
    with refused("a_ledgers_day_is_signed_once"):
        AuditedLedger.objects.create(**signed)


@pytest.fixture
def closing(alice):
    return AccountClosing.objects.create(account=alice, closed_by=alice.members.get(), is_refunded=False, erase_at=NOW)


def test_an_account_is_closed_once_at_a_time(closing):
    again = {"account": closing.account, "closed_by": closing.closed_by, "is_refunded": False, "erase_at": NOW}
    with refused("an_account_is_closed_once_at_a_time"):
        AccountClosing.objects.create(**again)
    AccountClosing.objects.update(undone_at=NOW)
    AccountClosing.objects.create(**again)


def test_what_is_erased_is_not_undone(closing):
    with refused("what_is_erased_is_not_undone"):
        AccountClosing.objects.update(undone_at=NOW, erased_at=NOW)


def test_an_export_is_made_once_at_a_time(alice):
    asked = {"account": alice, "asked_by": alice.members.get()}
    AccountExport.objects.create(**asked)
    with refused("an_export_is_made_once_at_a_time"):
        AccountExport.objects.create(**asked)
    AccountExport.objects.update(state="READY")
    AccountExport.objects.create(**asked)


def test_a_part_of_a_file_has_a_place(alice):
    export = AccountExport.objects.create(account=alice, asked_by=alice.members.get())
    ExportPart.objects.create(export=export, number=1, content=b"")
    with refused("a_part_of_a_file_has_a_place"):
        ExportPart.objects.create(export=export, number=1, content=b"")


def test_every_constraint_and_every_trigger_has_its_test(db):
    names = {constraint.name for model in apps.get_app_config("billing").get_models() for constraint in model._meta.constraints}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid IN"
            " ('billing_account'::regclass, 'billing_ledgerentry'::regclass, 'billing_hold'::regclass,"
            " 'billing_creditrequest'::regclass, 'billing_payment'::regclass, 'billing_paymentevent'::regclass,"
            " 'billing_manualentry'::regclass, 'billing_membership'::regclass, 'billing_membershipchange'::regclass)"
        )
        triggers = {name for (name,) in cursor.fetchall()}
    [guard] = [each for each in audit.INVARIANTS if each.name == "triggers_stand_guard"]
    assert all(name in guard.sql for name in triggers)
    here = Path(__file__).parent
    text = "".join((here / folder / "test_constraints.py").read_text() for folder in (".", "payments", "alerts"))
    assert [name for name in sorted(names | triggers) if f"test_{name}" not in text and f'"{name}"' not in text] == []
