"""Acts of staff that move money of an account: credits, and what is taken back of them."""

from typing import Any

from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from billing import money
from billing.desk.acts import StaffAct
from billing.forms import DollarsField
from billing.ledger import credits, statement, writer
from billing.models import Account, CreditRequest, Hold, LedgerEntry, User
from billing.staff import approvals, support_credit
from gateway_project.activity import log
from gateway_project.db import everywhere
from gateway_project.text import dollars

_READ_BY_OWNERS = "Members of the account see it on their statement."
_PAYMENT_ID = r"^[!-~]{1,200}$"  # what can be typed again: no spaces


class _Credit(StaffAct):
    """Credits the account, or asks a colleague to approve that."""

    amount = DollarsField(label="Amount in US dollars", min_cents=1)

    def clean_amount(self) -> int:
        cents: int = self.cleaned_data["amount"]
        if self.subject.balance_nanos + money.nanos(cents) > money.NANOS_MAX:
            raise forms.ValidationError("The balance would be larger than the ledger can store.")
        return cents

    @property
    def terms(self) -> dict[str, Any]:
        return {"amount_cents": self.cleaned_data["amount"], "reference": self.cleaned_data["token"], **self.notes}

    def record_request(self, request: HttpRequest, asked: CreditRequest, **values: str) -> str:
        """Record that it was asked for, and return what happens next."""
        after = {"request": str(asked.pk), "amountInCents": asked.amount_cents, **values}
        self.record(request, log.Act.CREDIT_REQUESTED, f"Asked for a {asked.what}.", after=after)
        page = reverse("admin:billing_creditrequest_change", args=[asked.pk])
        text = '<a href="{}">A {}</a> waits for approval. Nothing is booked until a colleague approves it.'
        return format_html(text, page, asked.what)


class SupportCredit(_Credit):
    """Issues a SUPPORT_CREDIT, or asks for it if it needs approval."""

    name = "credit"
    title = submit = "Issue credit"
    permission = "billing.issue_support_credit"
    explanation = "The credit is booked as a SUPPORT_CREDIT in your name. You cannot undo this here."
    template = "admin/billing/account/credit.html"
    field_order = ("amount", "reason", "ticket")

    def __init__(self, account: Account, staff: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(account, staff, *args, **kwargs)
        left_cents = max(support_credit.left_today_cents(staff), 0)
        self.fields["amount"].help_text = (
            f"For example, 5 or 12.50. Up to {dollars.format_cents(settings.SUPPORT_CREDIT_CENTS_MAX)} at a time."
            f" You have {dollars.format_cents(left_cents)} of your"
            f" {dollars.format_cents(settings.SUPPORT_CREDIT_DAY_CENTS_MAX)} per day left until midnight UTC."
            f" Above {dollars.format_cents(settings.SUPPORT_CREDIT_ALONE_CENTS_MAX)} per day for this account, a colleague must"
            " approve."
        )
        self.fields["reason"].help_text = f"Why this credit is due. {_READ_BY_OWNERS}"
        self.fields["ticket"].help_text = "The ticket, if there is one. Only staff see it."

    def context(self) -> dict[str, Any]:
        waiting = approvals.waiting(CreditRequest).filter(account=self.subject)
        return {"waiting": waiting.select_related("account", "requested_by").order_by("pk")}

    def perform(self, request: HttpRequest) -> str:
        try:
            issued = support_credit.issue(self.subject, self.staff, **self.terms)
        except approvals.ApprovalRefused as refusal:
            raise forms.ValidationError({"amount": str(refusal)}) from None
        if isinstance(issued, CreditRequest):
            return self.record_request(request, issued)
        amount = dollars.format_usd(issued.amount_nanos)
        after = {"entry": str(issued.pk), "amountInCents": money.floor_cents(issued.amount_nanos)}
        self.record(request, log.Act.CREDITED, f"Credited {amount}, entry {issued.pk}.", after=after)
        return f"{amount} credited. The balance is {dollars.format_usd(issued.balance_after_nanos)}."


class BookPurchase(_Credit):
    """Asks that a payment which came by bank transfer be booked: a colleague approves it."""

    name = "purchase"
    title = "Book a payment"
    permission = "billing.book_purchase"
    explanation = "Books a payment received by bank transfer, in your name, after a colleague approves it."
    submit = "Request approval"

    payment_id = forms.RegexField(
        _PAYMENT_ID,
        label="Payment ID",
        help_text=f"The bank's ID of the transfer, without spaces. A payment is booked once. {_READ_BY_OWNERS}",
    )
    field_order = ("amount", "payment_id")

    def clean_payment_id(self) -> str:
        payment_id: str = self.cleaned_data["payment_id"]
        if booked := _find_in_cells(LedgerEntry.objects.filter(reference=f"pay:bank:{payment_id}")):
            whose = "this account" if booked.account_id == self.subject.pk else "another account"
            raise forms.ValidationError(
                f"This payment is already booked, for {whose}: {dollars.format_usd(booked.amount_nanos)}, entry {booked.pk}."
            )
        waiting = approvals.waiting(CreditRequest).filter(payment_id=payment_id)
        if asked := _find_in_cells(waiting.select_related("account")):
            raise forms.ValidationError(f"This payment is already waiting for approval: {asked}.")
        return payment_id

    def perform(self, request: HttpRequest) -> str:
        payment_id = self.cleaned_data["payment_id"]
        asked = support_credit.ask_for_purchase(self.subject, self.staff, payment_id=payment_id, **self.terms)
        return self.record_request(request, asked, payment=payment_id)


def _find_in_cells(rows: QuerySet[Any]) -> Any:
    """Return a row of a query, from whichever cell has one."""
    return next(filter(None, everywhere.run(lambda: rows.all().first())), None)


class _TakeBack(StaffAct):
    """Takes back money of one credit. The amount may have nanodollars, because the rest of a credit may have them."""

    amount = forms.CharField(
        label="Amount in US dollars", max_length=30, widget=forms.TextInput(attrs={"inputmode": "decimal"})
    )
    overdraws = forms.BooleanField(
        label="Allow a negative balance",
        required=False,
        help_text="Only to take back more than the account has. Its requests are refused until the balance is above zero.",
    )
    field_order: tuple[str, ...] = ("amount", "overdraws")

    def __init__(self, account: Account, staff: User, credit: credits.Credit, *args: Any) -> None:
        self.credit = credit
        super().__init__(account, staff, *args)
        self.fields["reason"].help_text = f"Why. {_READ_BY_OWNERS}"
        most, unused = dollars.format_usd(credit.left_nanos), dollars.format_usd(credit.unused_nanos)
        self.fields["amount"].help_text = f"At most {most}, which is left of this credit. {unused} of it is not used."

    def context(self) -> dict[str, Any]:
        return statement.format_entry(self.credit.entry)

    def clean_amount(self) -> int:
        nanos = dollars.read_usd(self.cleaned_data["amount"], decimals_max=9)
        if nanos is None:
            raise forms.ValidationError("Enter an amount in dollars, such as 12 or 12.50, with at most nine decimals.")
        if nanos <= 0:
            raise forms.ValidationError("Enter an amount above zero: how much to take back.")
        if nanos > self.credit.left_nanos:
            raise forms.ValidationError(f"The maximum is {dollars.format_usd(self.credit.left_nanos)}: no more is left of it.")
        return nanos

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        self.require_no_refund_under_way()
        after = self.subject.balance_nanos - cleaned.get("amount", 0)
        if after < 0 < cleaned.get("amount", 0) and not cleaned.get("overdraws"):
            self.add_error("overdraws", f"The balance would be {dollars.format_usd(after)}. Select this to allow it.")
        return cleaned

    def record_entry(self, request: HttpRequest, act: log.Act, entry: LedgerEntry, summary: str) -> None:
        after = {"entry": str(entry.pk), "amountInDollars": dollars.format_plain(entry.amount_nanos)}
        self.record(request, act, summary, after=after)


class Correct(_TakeBack):
    """Takes back a credit, or a part of it, that was booked wrongly."""

    name = "correct"
    title = "Correct a credit"
    permission = "billing.correct_credit"
    explanation = "Takes back all or part of a credit that was booked by mistake. You can correct a credit once."
    submit = "Take back"

    def clean(self) -> dict[str, Any]:
        if self.credit.is_corrected:
            raise forms.ValidationError("This credit was already corrected. You can correct a credit once.")
        return super().clean()

    def perform(self, request: HttpRequest) -> str:
        nanos, reason, corrected = self.cleaned_data["amount"], self.notes["reason"], self.credit.entry
        entry = writer.correct_credit(self.subject, corrected, amount_nanos=nanos, reason=reason, issued_by=self.staff).entry
        summary = f"Took {dollars.format_usd(nanos)} back of entry {corrected.pk}, as a correction."
        self.record_entry(request, log.Act.CORRECTED, entry, summary)
        return f"{dollars.format_usd(nanos)} is taken back. {_balance(self.subject)}"


class Refund(_TakeBack):
    """Books that money of a purchase was paid back."""

    name = "refund"
    title = "Book a refund"
    permission = "billing.refund_purchase"
    explanation = "Books a refund that was paid to the customer. It does not pay it."
    submit = "Book refund"

    refund_id = forms.RegexField(
        _PAYMENT_ID,
        label="Refund ID",
        help_text="The bank's or processor's ID of the refund, without spaces. A refund is booked once.",
    )
    field_order = ("amount", "refund_id", "overdraws")

    def clean_refund_id(self) -> str:
        refund_id: str = self.cleaned_data["refund_id"]
        if booked := _find_in_cells(LedgerEntry.objects.filter(reference=f"refund:{refund_id}")):
            raise forms.ValidationError(f"This refund is already booked: entry {booked.pk}.")
        return refund_id

    def perform(self, request: HttpRequest) -> str:
        nanos, reference, refunded = self.cleaned_data["amount"], self.cleaned_data["refund_id"], self.credit.entry
        terms = {"amount_nanos": nanos, "reference": reference, "reason": self.notes["reason"]}
        entry = writer.refund_credit(self.subject, refunded, issued_by=self.staff, **terms).entry
        summary = f"Booked a refund of {dollars.format_usd(nanos)} of entry {refunded.pk}, {reference}."
        self.record_entry(request, log.Act.REFUNDED, entry, summary)
        return f"The refund of {dollars.format_usd(nanos)} is booked. {_balance(self.subject)}"


class CloseWithRefund(StaffAct):
    """Closes an account and takes back the unused cents of each purchase, which are paid out."""

    name = "closing-refund"
    title = "Close with a refund"
    permission = "billing.refund_purchase"
    explanation = (
        "Closes the account and takes its unused purchases from the balance, to be paid out. Credits are used in the order in"
        " which they were booked. Support credit is not paid out."
    )
    submit = "Close account and take the refund from its balance"
    template = "admin/billing/account/closing_refund.html"

    def __init__(self, account: Account, *args: Any, **kwargs: Any) -> None:
        self.credits = credits.read_credits(account)
        super().__init__(account, *args, **kwargs)
        self.fields["reason"].help_text = f"Why. {_READ_BY_OWNERS}"

    @property
    def payouts(self) -> list[credits.Credit]:
        """The purchases of which whole cents are not used, oldest first."""
        return [credit for credit in self.credits if credit.is_purchase and credit.unused_cents]

    @property
    def sum_cents(self) -> int:
        return sum(credit.unused_cents for credit in self.payouts)

    def facts(self) -> dict[str, str]:
        return {"the sum": dollars.format_cents(self.sum_cents)}

    def context(self) -> dict[str, Any]:
        """Return the credits that are not used up, and how many others there are, to show how the sum comes about."""
        unused = [credit for credit in self.credits if credit.unused_nanos]
        paid_out = {credit.entry.pk: dollars.format_cents(credit.unused_cents) for credit in self.payouts}
        columns = {
            "amount": [credit.entry.amount_nanos for credit in unused],
            "returned": [credit.returned_nanos for credit in unused],
            "used": [credit.left_nanos - credit.unused_nanos for credit in unused],
            "unused": [credit.unused_nanos for credit in unused],
        }
        decimals = dollars.exact_decimals(nanos for column in columns.values() for nanos in column)
        return {
            "rows": [
                {
                    "entry": credit.entry,
                    **{name: dollars.format_usd(column[place], decimals) for name, column in columns.items()},
                    "paid_out": paid_out.get(credit.entry.pk, "-"),
                }
                for place, credit in enumerate(unused)
            ],
            "others_count": len(self.credits) - len(unused),
            "unused": dollars.format_usd(sum(columns["unused"]), decimals),
            "sum": dollars.format_cents(self.sum_cents),
        }

    def clean(self) -> dict[str, Any]:
        self.require_no_refund_under_way()
        if not self.subject.is_active and not self.payouts:
            raise forms.ValidationError("The account is closed and has no unused purchases.")
        if holds := self.subject.holds.filter(state=Hold.State.HELD).count():
            held = dollars.format_usd(self.subject.held_nanos)
            raise forms.ValidationError(
                f"{holds} running request{' holds' if holds == 1 else 's hold'} {held}. Close the account first so that no more"
                " start, and refund it when they have ended."
            )
        return super().clean()

    def perform(self, request: HttpRequest) -> str:
        entries = [
            writer.refund_credit(
                self.subject,
                credit.entry,
                amount_nanos=money.nanos(credit.unused_cents),
                reference=f"closing:{self.cleaned_data['token']}:{credit.entry.seq}",
                reason=self.notes["reason"],
                issued_by=self.staff,
            ).entry
            for credit in self.payouts
        ]
        self.close_account()
        total, sum_nanos = dollars.format_cents(self.sum_cents), money.nanos(self.sum_cents)
        after = {"entries": [str(entry.pk) for entry in entries], "sumInDollars": dollars.format_plain(sum_nanos)}
        summary = f"Closed the account with a refund of {total}, what was unused of its purchases."
        self.record(request, log.Act.CLOSED, summary, after=after)
        return f"The account is closed. {total} is taken from its balance: pay that out. {_balance(self.subject)}"


def _balance(account: Account) -> str:
    return f"The balance is {dollars.format_usd(account.balance_nanos)}."
