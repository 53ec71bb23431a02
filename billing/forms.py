"""Forms for amounts, support credits and users."""

import re
from typing import Any

from django import forms
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm

from billing import ledger, money
from billing.ledger import BookedEntry
from billing.models import Account, User
from gateway_project import dollars, identifiers

SUPPORT_CREDIT_CENTS_MAX = 100_000_000  # a million dollars; more is a typing error

_DOLLARS = re.compile(r"\$?\s*(\d{1,18}|\d{1,3}(?:,\d{3}){1,5})(?:\.(\d{1,2}))?", re.ASCII)


class DollarsField(forms.CharField):
    """An amount typed in dollars, "12", "12.50" or "$1,200", as whole cents; None when left empty."""

    def __init__(self, *, min_cents: int = 0, max_cents: int, **options: Any) -> None:
        self.min_cents, self.max_cents = min_cents, max_cents
        super().__init__(max_length=30, empty_value=None, **options)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        return None if text is None else self._cents(text)

    def run_validators(self, value: Any) -> None:
        """Skip the validators of CharField, which check text; ``_cents`` checks the bounds of the amount."""

    def prepare_value(self, value: Any) -> Any:
        return dollars.format_plain(money.nanos(value)) if isinstance(value, int) else value

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return {**super().widget_attrs(widget), "inputmode": "decimal", "autocomplete": "off"}

    def _cents(self, text: str) -> int:
        match = _DOLLARS.fullmatch(text)
        if match is None:
            raise forms.ValidationError("Enter an amount in dollars, such as 12 or 12.50, with at most two decimals.")
        cents = int(match[1].replace(",", "")) * 100 + int((match[2] or "").ljust(2, "0"))
        if cents < self.min_cents:
            raise forms.ValidationError(f"The least is {dollars.format_usd(money.nanos(self.min_cents))}.")
        if cents > self.max_cents:
            raise forms.ValidationError(f"The most is {dollars.format_usd(money.nanos(self.max_cents))}.")
        return cents


class SupportCreditForm(forms.Form):
    """A SUPPORT_CREDIT. The reference is made with the form, so a form that is sent twice credits once."""

    amount = DollarsField(
        label="Amount in US dollars", min_cents=1, max_cents=SUPPORT_CREDIT_CENTS_MAX, help_text="Such as 5 or 12.50."
    )
    reason = forms.CharField(
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 60}),
        help_text="Why this credit is due. The account's members can read it on their statement.",
    )
    reference = forms.RegexField(r"^[0-9A-Za-z]{22}$", initial=identifiers.short_uuid7, widget=forms.HiddenInput)

    def __init__(self, account: Account, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.account = account

    def clean_amount(self) -> int:
        cents: int = self.cleaned_data["amount"]
        if self.account.balance_nanos + money.nanos(cents) > money.NANOS_MAX:
            raise forms.ValidationError("The account's balance would be larger than the ledger can store.")
        return cents

    def grant(self, issued_by: User) -> BookedEntry | None:
        """Book the credit. Return None, with an error on the form, if the form was used for another credit before."""
        try:
            return ledger.grant_support_credit(
                self.account.pk,
                amount_cents=self.cleaned_data["amount"],
                reason=self.cleaned_data["reason"],
                reference=self.cleaned_data["reference"],
                issued_by=issued_by,
            )
        except ledger.ReferenceReused:
            self.add_error(None, "This form was already used for another credit. Open a new form to issue one more.")
            return None


class NewUserForm(AdminUserCreationForm):
    """A new user, with e-mail address and password."""

    class Meta:
        model = User
        fields = ("email", "is_staff", "groups")


class UserForm(UserChangeForm):
    class Meta:
        model = User
        fields = "__all__"
