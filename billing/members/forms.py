"""The forms of an invitation and of a role."""

from typing import Any

from django import forms

from billing.members.roles import DESCRIPTIONS
from billing.models import Account, Role
from billing.sign_in import backend

_CHOICES = [(role.value, f"{role.label}: {DESCRIPTIONS[role]}") for role in Role]


class RoleForm(forms.Form):
    role = forms.TypedChoiceField(choices=_CHOICES, coerce=Role, widget=forms.RadioSelect)


class InvitationForm(RoleForm):
    email = forms.EmailField(label="Email address", widget=forms.EmailInput(attrs={"autocomplete": "off"}))
    account = forms.CharField(widget=forms.HiddenInput)

    field_order = ["email", "role"]

    def __init__(self, for_account: Account, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.for_account = for_account
        self.fields["account"].initial = str(for_account.pk)

    def clean_email(self) -> str:
        return backend.canonical(self.cleaned_data["email"])

    def clean(self) -> None:
        super().clean()
        if self.cleaned_data.get("account") != str(self.for_account.pk):
            # The form was opened for one account; then another was selected in a second window. Say where it would lead.
            self.data = {**self.data.dict(), "account": str(self.for_account.pk)}  # type: ignore[attr-defined]
            self.add_error(
                None, f"The selected account is now {self.for_account.name}. Send the form again to invite someone there."
            )
