"""HTML forms of the billing page: the amount of credit, and the billing details."""

from typing import Any

from django import forms
from django.conf import settings

from billing.forms import DollarsField
from billing.models import BillingDetails, TopUpRule
from gateway_project.text import dollars

_COLUMNS = {"threshold": "threshold_cents", "amount": "amount_cents", "month_max": "month_cents_max"}  # of a top-up's form


class CreditForm(forms.Form):
    """How much credit to add: one of the presets, as a button of its own, or an amount that is typed."""

    amount = DollarsField(label="Another amount in US dollars", min_cents=1, required=False)
    preset = forms.TypedChoiceField(coerce=int, empty_value=None, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["amount"]
        field.min_cents, field.max_cents = settings.PAYMENT_CENTS_MIN, settings.PAYMENT_CENTS_MAX
        field.help_text = _bounds()
        self.presets = [(cents, dollars.format_cents(cents)) for cents in settings.PAYMENT_PRESETS_CENTS]
        preset: Any = self.fields["preset"]
        preset.choices = self.presets

    def clean(self) -> None:
        super().clean()
        if not self.errors and self.cleaned_data.get("preset") is None and self.cleaned_data.get("amount") is None:
            self.add_error("amount", "Enter an amount or choose a preset.")

    @property
    def amount_cents(self) -> int:
        return int(self.cleaned_data.get("preset") or self.cleaned_data["amount"])


class TopUpForm(forms.Form):
    """When credit is bought automatically, how much of it, and how much at most in a month."""

    threshold = DollarsField(label="When available balance falls below")
    amount = DollarsField(label="Amount to buy")
    month_max = DollarsField(label="Maximum per month")

    def __init__(self, *args: Any, rule: TopUpRule | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: Any = self.fields
        given = rule or TopUpRule(threshold_cents=500, amount_cents=2_500, month_cents_max=10_000)
        for name, column in _COLUMNS.items():
            fields[name].initial = getattr(given, column)
        fields["threshold"].max_cents = settings.PAYMENT_CENTS_MAX
        fields["amount"].min_cents, fields["amount"].max_cents = settings.PAYMENT_CENTS_MIN, settings.PAYMENT_CENTS_MAX
        fields["amount"].help_text = _bounds()
        fields["month_max"].help_text = "Per calendar month in UTC. Payments you make yourself do not count."

    def clean(self) -> None:
        super().clean()
        amount, month_max = self.cleaned_data.get("amount"), self.cleaned_data.get("month_max")
        if amount is not None and month_max is not None and month_max < amount:
            self.add_error("month_max", "Enter at least the amount of one top-up.")

    @property
    def values(self) -> dict[str, int]:
        """The values of a valid form, as fields of a TopUpRule."""
        return {column: self.cleaned_data[name] for name, column in _COLUMNS.items()}


class BillingDetailsForm(forms.ModelForm):
    class Meta:
        model = BillingDetails
        fields = ("name", "address", "tax_id")
        widgets = {"address": forms.Textarea(attrs={"rows": 4, "autocomplete": "street-address"})}
        help_texts = {"tax_id": "For example, DE123456789. Optional."}


def _bounds() -> str:
    return f"From {dollars.format_cents(settings.PAYMENT_CENTS_MIN)} to {dollars.format_cents(settings.PAYMENT_CENTS_MAX)}."
