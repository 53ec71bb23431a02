"""Forms of the acts on an account. They are validated while the account is locked, so what they check stays true."""

from typing import Any

from django import forms
from django.contrib.auth.models import Group
from django.db.models import QuerySet

from billing import money, staff_permissions
from billing.accounts import lifecycle
from billing.forms import DollarsField
from billing.ledger import credits, statement
from billing.ledger.credits import Credit
from billing.models import Account, Hold, LedgerEntry
from billing.staff import support_credit
from gateway_project.db import everywhere
from gateway_project.desk.forms import ReasonForm
from gateway_project.text import dollars

_READ_BY_OWNERS = "Members of the account see it on their statement."
_PAYMENT_ID = r"^[!-~]{1,200}$"  # what can be typed again: no spaces


class AccountForm(ReasonForm):
    """An act on a locked account."""

    def __init__(self, account: Account, *args: Any, **kwargs: Any) -> None:
        self.account = account
        super().__init__(account, *args, **kwargs)

    def context(self) -> dict[str, Any]:
        """Return what the form's page shows beside it, as plain values."""
        return {}


class CloseForm(AccountForm):
    """Closes an account: its keys are refused from then on. If its owner closed it before, only staff can reopen it now."""

    def clean(self) -> dict[str, Any]:
        if not lifecycle.may_be_closed_by_staff(self.account):
            raise forms.ValidationError("The account is already closed.")
        return super().clean()


class ReopenForm(AccountForm):
    """Opening a closed account."""

    def clean(self) -> dict[str, Any]:
        if self.account.is_active:
            raise forms.ValidationError("The account is already open.")
        _require_no_refund_under_way(self.account)
        return super().clean()


class HandOverForm(AccountForm):
    """Handing a ticket about the account over to colleagues."""

    group = forms.ModelChoiceField(Group.objects.none(), label="To", empty_label=None, help_text="Its members get an email.")
    field_order = ("group", "ticket", "reason")

    def __init__(self, account: Account, *args: Any, **kwargs: Any) -> None:
        super().__init__(account, *args, **kwargs)
        field = self.fields["group"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = (
            Group.objects.filter(user__in=staff_permissions.staff_with("billing.view_account")).distinct().order_by("name")
        )
        self.fields["ticket"].required = True
        self.fields["reason"].help_text = "What is left to do. It goes into the email and the activity log."


class PurchaseForm(AccountForm):
    """A payment that came by bank transfer."""

    amount = DollarsField(
        label="Amount in US dollars", min_cents=1, max_cents=money.CENTS_MAX, help_text="The amount received."
    )
    payment_id = forms.RegexField(
        _PAYMENT_ID,
        label="Payment ID",
        help_text=f"The bank's ID of the transfer, without spaces. A payment is booked once. {_READ_BY_OWNERS}",
    )
    field_order = ("amount", "payment_id")

    def clean_amount(self) -> int:
        cents: int = self.cleaned_data["amount"]
        if self.account.balance_nanos + money.nanos(cents) > money.NANOS_MAX:
            raise forms.ValidationError("The balance would be larger than the ledger can store.")
        return cents

    def clean_payment_id(self) -> str:
        payment_id: str = self.cleaned_data["payment_id"]
        booked = _find_in_cells(LedgerEntry.objects.filter(reference=f"pay:bank:{payment_id}"))
        if booked:
            whose = "this account" if booked.account_id == self.account.pk else "another account"
            raise forms.ValidationError(
                f"This payment is already booked, for {whose}: {dollars.format_usd(booked.amount_nanos)}, entry {booked.pk}."
            )
        if asked := _find_in_cells(support_credit.waiting().filter(payment_id=payment_id).select_related("account")):
            raise forms.ValidationError(f"This payment is already waiting for approval: {asked}.")
        return payment_id


def _find_in_cells(rows: QuerySet[Any]) -> Any:
    """Return a row of a query, from whichever cell has one."""
    return next(filter(None, everywhere.run(lambda: rows.all().first())), None)


class _TakeBackForm(AccountForm):
    """Taking back money of one credit. The amount may have nanodollars, because the rest of a credit may have them."""

    amount = forms.CharField(
        label="Amount in US dollars", max_length=30, widget=forms.TextInput(attrs={"inputmode": "decimal"})
    )
    overdraws = forms.BooleanField(
        label="Allow a negative balance",
        required=False,
        help_text="Only to take back more than the account has. Its requests are refused until the balance is above zero.",
    )
    field_order: tuple[str, ...] = ("amount", "overdraws")

    def __init__(self, account: Account, credit: Credit, *args: Any, **kwargs: Any) -> None:
        self.credit = credit
        super().__init__(account, *args, **kwargs)
        self.fields["reason"].help_text = f"Why. {_READ_BY_OWNERS}"
        most, unused = dollars.format_usd(credit.left_nanos), dollars.format_usd(credit.unused_nanos)
        self.fields["amount"].help_text = f"At most {most}, which is left of this credit. {unused} of it is not used."

    def context(self) -> dict[str, Any]:
        return {"entry": statement.format_entry(self.credit.entry)}

    def clean_amount(self) -> int:
        nanos = _nanos(self.cleaned_data["amount"])
        if nanos <= 0:
            raise forms.ValidationError("Enter an amount above zero: how much to take back.")
        if nanos > self.credit.left_nanos:
            raise forms.ValidationError(f"The maximum is {dollars.format_usd(self.credit.left_nanos)}: no more is left of it.")
        return nanos

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        _require_no_refund_under_way(self.account)
        after = self.account.balance_nanos - cleaned.get("amount", 0)
        if after < 0 < cleaned.get("amount", 0) and not cleaned.get("overdraws"):
            self.add_error("overdraws", f"The balance would be {dollars.format_usd(after)}. Select this to allow it.")
        return cleaned


class CorrectionForm(_TakeBackForm):
    """Taking back a credit, or a part of it, that was booked wrongly."""

    def clean(self) -> dict[str, Any]:
        if self.credit.is_corrected:
            raise forms.ValidationError("This credit was already corrected. You can correct a credit once.")
        return super().clean()


class RefundForm(_TakeBackForm):
    """Booking that money of a purchase was paid back."""

    refund_id = forms.RegexField(
        _PAYMENT_ID,
        label="Refund ID",
        help_text="The bank's or processor's ID of the refund, without spaces. A refund is booked once.",
    )
    field_order = ("amount", "refund_id", "overdraws")

    def clean_refund_id(self) -> str:
        refund_id: str = self.cleaned_data["refund_id"]
        booked = _find_in_cells(LedgerEntry.objects.filter(reference=f"refund:{refund_id}"))
        if booked:
            raise forms.ValidationError(f"This refund is already booked: entry {booked.pk}.")
        return refund_id


class ClosingRefundForm(AccountForm):
    """Closing an account and taking back the unused cents of each purchase, which are paid out."""

    def __init__(self, account: Account, *args: Any, **kwargs: Any) -> None:
        self.credits = credits.read_credits(account)
        super().__init__(account, *args, **kwargs)
        self.fields["reason"].help_text = f"Why. {_READ_BY_OWNERS}"

    @property
    def payouts(self) -> list[Credit]:
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
                    "id": credit.entry.pk,
                    "title": credit.entry.title,
                    "created_at": credit.entry.created_at,
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
        _require_no_refund_under_way(self.account)
        if not self.account.is_active and not self.payouts:
            raise forms.ValidationError("The account is closed and has no unused purchases.")
        holds = self.account.holds.filter(state=Hold.State.HELD).count()
        if holds:
            held = dollars.format_usd(self.account.held_nanos)
            raise forms.ValidationError(
                f"{holds} running request{' holds' if holds == 1 else 's hold'} {held}. Close the account first so that no more"
                " start, and refund it when they have ended."
            )
        return super().clean()


def _require_no_refund_under_way(account: Account) -> None:
    """Raises ValidationError while the processor pays back what is left of an account that its owner closed."""
    if lifecycle.is_being_refunded(account):
        raise forms.ValidationError("The owner closed the account. What is left is being refunded: try again in a few minutes.")


def _nanos(typed: str) -> int:
    """Read an amount of dollars, exactly. Raises ValidationError."""
    if (nanos := dollars.read_usd(typed, decimals_max=9)) is None:
        raise forms.ValidationError("Enter an amount in dollars, such as 12 or 12.50, with at most nine decimals.")
    return nanos
