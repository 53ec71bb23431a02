"""Acts of staff on an account, each recorded in the activity log. The caller holds the locks of the staff and of the account.

A function returns sentences for the member of staff: what was done.
"""

from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse

from billing import money, staff_permissions
from billing.accounts import lifecycle
from billing.desk import closing_notices
from billing.desk.forms import ClosingRefundForm
from billing.ledger import writer
from billing.ledger.credits import Credit
from billing.models import Account, LedgerEntry, User
from billing.sign_in import mails
from billing.staff import support_credit
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from gateway_project.text import dollars
from gateway_project.web import hosts

Cleaned = dict[str, Any]  # the cleaned data of a form


def close(request: HttpRequest, account: Account, cleaned: Cleaned) -> str:
    """Close the account: its keys are refused from now on, and its running requests end as usual."""
    lifecycle.set_active(account, is_active=False)
    _keep_closed(account)
    _record(request, Activity.Act.CLOSED, account, "Closed the account.", cleaned)
    return "The account is closed. Requests with its keys are now refused."


def reopen(request: HttpRequest, account: Account, cleaned: Cleaned) -> str:
    """Open the account again: its keys that are not revoked work from now on."""
    lifecycle.set_active(account, is_active=True)
    _end_closing_of_owner(account)
    closing_notices.tell_of_reopening(account)
    _record(request, Activity.Act.REOPENED, account, "Reopened the account.", cleaned)
    return "The account is open. Its keys work again, except those that are revoked or expired."


def hand_over(request: HttpRequest, account: Account, staff: User, cleaned: Cleaned) -> str:
    """Hand a ticket over: colleagues of the group who may view accounts get an email once this is committed."""
    group = cleaned["group"]
    colleagues = staff_permissions.staff_with("billing.view_account").filter(groups=group).exclude(pk=staff.pk)
    to = list(colleagues.values_list("email", flat=True))
    after = {"group": group.name}
    summary = f"Handed ticket {cleaned['ticket']} over to {group}."
    _record(request, Activity.Act.HANDED_OVER, account, summary, cleaned, after=after)
    if not settings.SENDS_MAIL or not to:
        return f"Handed over to {group}. No email was sent: tell them."
    link = f"{hosts.mailed_base_url(request)}{reverse('admin:billing_account_change', args=[account.pk])}"
    facts = {"account": str(account), "by": staff.email, "ticket": cleaned["ticket"], "reason": cleaned["reason"], "link": link}
    for email in sorted(to):
        transaction.on_commit(partial(mails.send, email, "handed_over", **facts))
    return f"Handed over to {group}: {', '.join(sorted(to))}."


def ask_for_purchase(request: HttpRequest, account: Account, staff: User, cleaned: Cleaned) -> str:
    """Ask that a payment by bank transfer be booked: a colleague approves it."""
    asked = support_credit.ask_for_purchase(
        account,
        staff,
        payment_id=cleaned["payment_id"],
        reference=cleaned["token"],
        amount_cents=cleaned["amount"],
        reason=cleaned["reason"],
        ticket=cleaned["ticket"],
    )
    after = {"request": str(asked.pk), "amountInCents": asked.amount_cents, "payment": asked.payment_id}
    _record(request, Activity.Act.CREDIT_REQUESTED, account, f"Asked for a {asked.what}.", cleaned, after=after)
    return f"A {asked.what} waits for approval. Nothing is booked until a colleague approves it."


def correct(request: HttpRequest, account: Account, staff: User, credit: Credit, cleaned: Cleaned) -> str:
    """Take back what was credited wrongly. Raises ReferenceReused."""
    entry = writer.correct_credit(
        account, credit.entry, amount_nanos=cleaned["amount"], reason=cleaned["reason"], issued_by=staff
    ).entry
    summary = f"Took {dollars.format_usd(cleaned['amount'])} back of entry {credit.entry.pk}, as a correction."
    _record_entry(request, Activity.Act.CORRECTED, account, entry, summary, cleaned)
    return f"{dollars.format_usd(cleaned['amount'])} is taken back. {_balance(account)}"


def refund(request: HttpRequest, account: Account, staff: User, credit: Credit, cleaned: Cleaned) -> str:
    """Book that money of a purchase was paid back. Raises ReferenceReused."""
    reference, amount_nanos = cleaned["refund_id"], cleaned["amount"]
    entry = writer.refund_credit(
        account, credit.entry, amount_nanos=amount_nanos, reference=reference, reason=cleaned["reason"], issued_by=staff
    ).entry
    summary = f"Booked a refund of {dollars.format_usd(amount_nanos)} of entry {credit.entry.pk}, {reference}."
    _record_entry(request, Activity.Act.REFUNDED, account, entry, summary, cleaned)
    return f"The refund of {dollars.format_usd(amount_nanos)} is booked. {_balance(account)}"


def close_and_refund(request: HttpRequest, account: Account, staff: User, form: ClosingRefundForm) -> str:
    """Close the account, and take back the unused cents of each of its purchases."""
    cleaned = form.cleaned_data
    entries = [
        writer.refund_credit(
            account,
            credit.entry,
            amount_nanos=money.nanos(credit.unused_cents),
            reference=f"closing:{cleaned['token']}:{credit.entry.seq}",
            reason=cleaned["reason"],
            issued_by=staff,
        ).entry
        for credit in form.payouts
    ]
    lifecycle.set_active(account, is_active=False)
    _keep_closed(account)
    total = dollars.format_cents(form.sum_cents)
    after = {"entries": [str(entry.pk) for entry in entries], "sumInDollars": dollars.format_plain(money.nanos(form.sum_cents))}
    summary = f"Closed the account with a refund of {total}, what was unused of its purchases."
    _record(request, Activity.Act.CLOSED, account, summary, cleaned, after=after)
    return f"The account is closed. {total} is taken from its balance: pay that out. {_balance(account)}"


def _keep_closed(account: Account) -> None:
    """Let no owner undo their closing from now on. What it promised stays: the refund, and when personal data is erased."""
    closing = lifecycle.find_open_closing(account)
    if closing and closing.kept_closed_at is None:
        closing.kept_closed_at = pool.database_time()
        closing.save(update_fields=["kept_closed_at"])
    closing_notices.tell_of_closing(account, closing)


def _end_closing_of_owner(account: Account) -> None:
    """Nothing is refunded or erased any more, as the account is open again."""
    if closing := lifecycle.find_open_closing(account):
        closing.undone_at = pool.database_time()
        closing.save(update_fields=["undone_at"])


def _record(request: HttpRequest, act: Activity.Act, account: Account, summary: str, cleaned: Cleaned, **values: Any) -> None:
    notes = {name: cleaned[name] for name in ("reason", "ticket")}
    log.record(request, act, account, summary, account_id=account.pk, **notes, **values)


def _record_entry(
    request: HttpRequest, act: Activity.Act, account: Account, entry: LedgerEntry, summary: str, cleaned: Cleaned
) -> None:
    after = {"entry": str(entry.pk), "amountInDollars": dollars.format_plain(entry.amount_nanos)}
    _record(request, act, account, summary, cleaned, after=after)


def _balance(account: Account) -> str:
    return f"The balance is {dollars.format_usd(account.balance_nanos)}."
