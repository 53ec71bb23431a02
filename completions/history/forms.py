"""The filters of an account's requests."""

from typing import Any

from django import forms

from billing.accounts.list_forms import ListForm, spender_field
from billing.models import Account
from completions.history.explanation import Status
from completions.history.reading import Selection
from completions.models import LanguageModel

REFUSED = "refused"
_STATUSES = [("", "All"), *((status.name.lower(), status.words) for status in Status)]


class HistoryForm(ListForm):
    field_order = ("status", "key", "model", "user", "tag", "since", "until")

    status = forms.ChoiceField(required=False, choices=[*_STATUSES, (REFUSED, "Refused before sending")])
    key = forms.ChoiceField(required=False)
    model = forms.ChoiceField(required=False)
    user = forms.CharField(required=False, max_length=512, label="End user", strip=False)
    tag = forms.CharField(
        required=False, max_length=600, strip=False, widget=forms.TextInput(attrs={"placeholder": "team=blue"})
    )
    older = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    newer = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, account: Account, data: Any) -> None:
        super().__init__(data)
        models = LanguageModel.objects.values_list("pk", "pk")
        self.fields["key"] = spender_field(account)
        self.field("model").choices = [("", "All models"), *models]

    def clean_tag(self) -> tuple[str, str] | None:
        """Return the name and the value, which may have an equals sign."""
        name, is_tag, value = self.cleaned_data["tag"].partition("=")
        if self.cleaned_data["tag"] and not (name and is_tag):
            raise forms.ValidationError("Write a tag as name=value.")
        return (name, value) if is_tag else None

    @property
    def shows_refusals(self) -> bool:
        return bool(self.cleaned_data["status"] == REFUSED)

    @property
    def selection(self) -> Selection:
        given = self.cleaned_data
        return Selection(
            key_id=given["key"] or None,
            model_id=given["model"] or None,
            status=Status[given["status"].upper()] if given["status"] else None,
            end_user=given["user"] or None,
            tag=given["tag"],
            since=self.begin,
            until=self.end,
        )
