"""Parts of forms: amounts that people type in dollars, demands about data, and the account for which a form was opened."""

import re
from typing import Any

from django import forms

from billing import money
from billing.models import REGION, REGIONS_MAX, Account, DataDemands, DataPolicy
from gateway_project.text import dollars

_ANY = "any"  # a value of its own: a form that lost its fields must not clear a demand


class DollarsField(forms.CharField):
    """An amount typed in dollars, "12", "12.50", "12,50" or "$1,200", as whole cents; None when left empty."""

    def __init__(self, *, min_cents: int = 0, **options: Any) -> None:
        self.min_cents, self.max_cents = min_cents, money.CENTS_MAX
        super().__init__(max_length=30, empty_value=None, **options)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if text is None:
            return None
        if (nanos := dollars.read_usd(text, decimals_max=2)) is None:
            raise forms.ValidationError("Enter an amount in dollars, such as 12 or 12.50, with at most two decimals.")
        cents = money.floor_cents(nanos)
        if cents < self.min_cents:
            raise forms.ValidationError(f"The minimum is {dollars.format_cents(self.min_cents)}.")
        if cents > self.max_cents:
            raise forms.ValidationError(f"The maximum is {dollars.format_cents(self.max_cents)}.")
        return cents

    def run_validators(self, value: Any) -> None:
        """Skip the validators of CharField, which check text; ``to_python`` checks the bounds of the amount."""

    def prepare_value(self, value: Any) -> Any:
        return dollars.format_plain(money.nanos(value)) if isinstance(value, int) else value

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return {**super().widget_attrs(widget), "inputmode": "decimal", "autocomplete": "off"}


class DataDemandsForm(forms.Form):
    """The demands of an account or a key on providers. A form that lost its fields leaves them as they are."""

    data_policy = forms.ChoiceField(
        label="Prompts and replies go to",
        choices=[(policy.value or _ANY, policy.label) for policy in DataPolicy],
        required=False,
        help_text="A demand excludes providers that promise nothing. If they must keep nothing, we store no replies either.",
    )
    data_regions = forms.CharField(
        label="Regions",
        required=False,
        max_length=100,
        widget=forms.TextInput(attrs={"autocapitalize": "none", "spellcheck": "false"}),
        help_text="Where requests may be processed: eu, or codes of countries, such as “eu, ch”. Leave empty for anywhere.",
    )

    @staticmethod
    def initial_of(owner: DataDemands | None) -> dict[str, Any]:
        if owner is None:
            return {"data_policy": _ANY}
        return {"data_policy": owner.data_policy or _ANY, "data_regions": ", ".join(owner.data_regions or [])}

    def clean_data_policy(self) -> str:
        policy: str = self.cleaned_data["data_policy"] or self.initial["data_policy"]
        return "" if policy == _ANY else policy

    def clean_data_regions(self) -> list[str] | None:
        given: str = (self.cleaned_data if "data_regions" in self.data else self.initial).get("data_regions", "")
        regions = list(dict.fromkeys(filter(None, re.split(r"[\s,]+", given.lower()))))
        if len(regions) > REGIONS_MAX or not all(re.fullmatch(REGION, region) for region in regions):
            raise forms.ValidationError(f"Enter at most {REGIONS_MAX} codes of two letters, such as “eu, ch”.")
        return regions or None


class SelectedAccountForm(forms.Form):
    """A form for one account, which is refused after another was selected."""

    account = forms.CharField(widget=forms.HiddenInput)
    purpose: str  # what the form does there

    def __init__(self, for_account: Account, *args: Any, **kwargs: Any) -> None:
        self.for_account = for_account
        super().__init__(*args, **kwargs)
        self.fields["account"].initial = str(for_account.pk)

    def clean(self) -> None:
        super().clean()
        name, id = self.for_account.name, str(self.for_account.pk)
        if self.cleaned_data.get("account") != id:
            # The form was opened for one account; then another was selected in a second window. Say where it would lead.
            self.data = {**self.data.dict(), "account": id}  # type: ignore[attr-defined]
            self.add_error(None, f"The selected account is now {name}. Send the form again to {self.purpose} there.")
