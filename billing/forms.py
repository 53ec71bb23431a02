"""Parts of forms: a field for amounts that people type in dollars, and the account for which a form was opened."""

from typing import Any

from django import forms

from billing import money
from billing.models import Account
from gateway_project.text import dollars


class DollarsField(forms.CharField):
    """An amount typed in dollars, "12", "12.50", "12,50" or "$1,200", as whole cents; None when left empty."""

    def __init__(self, *, min_cents: int = 0, max_cents: int, **options: Any) -> None:
        self.min_cents, self.max_cents = min_cents, max_cents
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


class SelectedAccountForm(forms.Form):
    """A form for one account, which is refused after another was selected. A subclass sets ``for_account`` first."""

    account = forms.CharField(widget=forms.HiddenInput)
    for_account: Account
    purpose: str  # what the form does there

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["account"].initial = str(self.for_account.pk)

    def clean(self) -> None:
        super().clean()
        name, id = self.for_account.name, str(self.for_account.pk)
        if self.cleaned_data.get("account") != id:
            # The form was opened for one account; then another was selected in a second window. Say where it would lead.
            self.data = {**self.data.dict(), "account": id}  # type: ignore[attr-defined]
            self.add_error(None, f"The selected account is now {name}. Send the form again to {self.purpose} there.")
