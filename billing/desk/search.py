"""Finds accounts by address, name or ID, entries by ID, payment, receipt or invoice, and what else belongs to them."""

import json
import re
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.postgres.search import SearchQuery, SearchVector
from django.db.models import BooleanField, Q, QuerySet, TextField, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast
from django.urls import reverse

from billing.email_addresses import canonical
from billing.ledger import credits
from billing.models import END_OF_ACCOUNT, Account, Hold, LedgerEntry, Payment, SignInLimit, User
from billing.staff import unblocking
from gateway_project.desk import search, short_ids
from gateway_project.desk.search import Finder
from gateway_project.text import dollars, timestamps

_ACCOUNTS_MAX = 1_000
_WORDS_MAX = 10  # each reads the index for all names that it begins a word of
_ADDRESS_CHARACTERS_MIN = 3  # fewer begin the addresses of too many

_ENTRIES = LedgerEntry.objects.select_related("account")
_HOLDS = Hold.objects.select_related("account")
_PAYMENTS = Payment.objects.select_related("account")


def _people(term: str) -> QuerySet[User]:
    if len(term) < _ADDRESS_CHARACTERS_MIN or " " in term:
        return User.objects.none()
    return User.objects.filter(email__startswith=canonical(term) or term.lower()).order_by("email")


def _accounts_of_people(term: str) -> QuerySet[Account]:
    users = list(_people(term).values_list("pk", flat=True)[: search.FOUND_MAX + 1])
    return Account.objects.filter(memberships__user__in=users).distinct()


def _accounts_by_name(term: str) -> QuerySet[Account]:
    """Find the accounts whose names have words that begin so. The sort keeps the planner from a sequential scan."""
    words = list(dict.fromkeys(re.findall(r"\w+", term)))[:_WORDS_MAX]
    if not words:
        return Account.objects.none()
    query = SearchQuery(" & ".join(f"'{word}':*" for word in words), search_type="raw", config="simple")
    return Account.objects.annotate(words=SearchVector("name", config="simple")).filter(words=query).order_by("name", "pk")


def account_ids(term: str) -> list[UUID]:
    """Return the ids of the accounts that a term finds, at most _ACCOUNTS_MAX in each way, to search lists by account."""
    found = (find(term.strip()) for find in (_accounts_of_people, _accounts_by_name, _accounts_by_id))
    return [each for rows in found for each in rows.values_list("pk", flat=True)[:_ACCOUNTS_MAX]]


def _by_id(rows: QuerySet[Any], term: str) -> QuerySet[Any]:
    part = short_ids.parse(term)
    ends = short_ids.uuid_range(part.beginning)
    if ends is None:
        return rows.none()
    found = rows.filter(pk__range=ends)
    return found.annotate(text=Cast("pk", TextField())).filter(text__endswith=part.end) if part.end else found


def _accounts_by_id(term: str) -> QuerySet[Account]:
    return _by_id(Account.objects.all(), term)


def _entries_by_payment(term: str) -> QuerySet[LedgerEntry]:
    has_value = RawSQL("billing_ledgerentry.metadata @@ %s::jsonpath", [f"$.* == {json.dumps(term)}"], BooleanField())  # noqa: S611  a parameter
    return _ENTRIES.exclude(type=LedgerEntry.Type.USAGE_DEBIT).filter(has_value)


def _payments_by_receipt(term: str) -> QuerySet[Payment]:
    """Find the payment with such a receipt number: the end of its account's id, and the number within the account."""
    match = re.fullmatch(r"(?:(?:receipt|invoice)[ -])?([0-9a-f]{8})-(\d{4,9})(?:\.pdf)?", term, re.IGNORECASE | re.ASCII)
    if match is None:
        return Payment.objects.none()
    found = _PAYMENTS.annotate(end_of_account=END_OF_ACCOUNT)
    return found.filter(end_of_account=match[1].lower(), receipt_number=int(match[2]))


def _entries_by_credit_note(term: str) -> QuerySet[LedgerEntry]:
    match = re.fullmatch(r"(?:credit[ -]note[ -])?(([0-9a-f]{8})-C\d{4,9})(?:\.pdf)?", term, re.IGNORECASE | re.ASCII)
    if match is None:
        return LedgerEntry.objects.none()
    paid = Payment.objects.annotate(end_of_account=END_OF_ACCOUNT).filter(end_of_account=match[2].lower())
    notes = [credits.find_note(account, match[1]) for account in Account.objects.filter(pk__in=paid.values("account"))]
    return _ENTRIES.filter(pk__in=[note.entry.pk for note in notes if note])


def _blocked_sign_ins(term: str) -> QuerySet[SignInLimit]:
    address = unblocking.read_address(term)
    blocked = [each.row.pk for each in unblocking.find(address) if each.blocked_until] if address else []
    return SignInLimit.objects.filter(pk__in=blocked).annotate(address=Value(address))


def _describe_payment(payment: Payment) -> str:
    return f"{dollars.format_cents(payment.amount_cents)} of {payment.account}: {payment.get_status_display()}"


def _describe_account(account: Account) -> str:
    state = "" if account.is_active else ", closed"
    return f"balance {dollars.format_usd(account.balance_nanos)}{state}"


def _describe_entry(entry: LedgerEntry) -> str:
    return f"{dollars.format_usd(entry.amount_nanos)} of {entry.account}, {timestamps.in_words(entry.created_at)}"


def _describe_hold(hold: Hold) -> str:
    return f"{dollars.format_usd(hold.amount_nanos)} of {hold.account}"


FINDERS = [
    Finder(Account, _accounts_of_people, _describe_account, "a member's email address, or its beginning"),
    Finder(Account, _accounts_by_name, _describe_account, "an account's name: words of it, or their beginnings"),
    Finder(Account, _accounts_by_id, _describe_account, "an account's ID, or its beginning"),
    Finder(LedgerEntry, lambda term: _by_id(_ENTRIES, term), _describe_entry, "a ledger entry's ID, or its beginning"),
    Finder(LedgerEntry, _entries_by_payment, _describe_entry, "a payment's ID at the processor"),
    Finder(Payment, lambda term: _by_id(_PAYMENTS, term), _describe_payment, "a payment's ID here, or its beginning"),
    Finder(Payment, lambda term: _PAYMENTS.filter(Q(intent_id=term) | Q(session_id=term)), _describe_payment),
    Finder(Payment, _payments_by_receipt, _describe_payment, "the number of a receipt or an invoice"),
    Finder(LedgerEntry, _entries_by_credit_note, _describe_entry, "the number of a credit note"),
    # The reference of usage leads to the completion.
    Finder(LedgerEntry, lambda term: _ENTRIES.filter(reference=term), _describe_entry, is_last_resort=True),
    Finder(Hold, lambda term: _HOLDS.filter(reference=term), _describe_hold, is_last_resort=True),
    Finder(
        SignInLimit,
        _blocked_sign_ins,
        lambda limit: f"{limit.address} cannot sign in now, or gets no emails",
        "an email or network address that cannot sign in",
        address=lambda limit: f"{reverse('admin:billing_signinlimit_unblock')}?{urlencode({'address': limit.address})}",
    ),
    Finder(User, _people, User.get_full_name, "the email address of someone without an account", is_last_resort=True),
]
