"""The filters of an account's requests. They are sent by GET, so that an address can be kept and passed on."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms

from billing.models import Account
from completions.history.explanation import Status
from completions.history.reading import Selection
from completions.models import LanguageModel

REFUSED = "refused"
_PLACES = ("older", "newer")
_STATUSES = [("", "all"), *((status.name.lower(), status.words) for status in Status)]


class HistoryForm(forms.Form):
    """Which requests are listed. Days are UTC days; the last one counts whole."""

    status = forms.ChoiceField(required=False, choices=[*_STATUSES, (REFUSED, "refused before anything was sent")])
    key = forms.ChoiceField(required=False)
    model = forms.ChoiceField(required=False)
    user = forms.CharField(required=False, max_length=512, label="End user", strip=False)
    since = forms.DateField(required=False, label="From day", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To day", widget=forms.DateInput(attrs={"type": "date"}))
    older = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    newer = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, account: Account, data: Any) -> None:
        super().__init__(data)
        keys = account.keys.order_by("-id").values_list("pk", "name")
        models = LanguageModel.objects.values_list("pk", "pk")
        self._field("key").choices = [("", "all keys"), *keys]
        self._field("model").choices = [("", "all models"), *models]

    def clean(self) -> None:
        super().clean()
        since, until = (self.cleaned_data.get(name) for name in ("since", "until"))
        if since and until and until < since:
            self.add_error("until", "The last day is before the first.")

    @property
    def shows_refusals(self) -> bool:
        return bool(self.cleaned_data["status"] == REFUSED)

    @property
    def filters(self) -> dict[str, str]:
        """The filters as they were sent, without the place in the list."""
        return {name: self.data[name] for name in self.fields if name not in _PLACES and self.data.get(name)}

    @property
    def begin(self) -> datetime | None:
        return _begin(self.cleaned_data["since"])

    @property
    def end(self) -> datetime | None:
        """The end of the last day."""
        day = self.cleaned_data["until"]
        return _begin(day + timedelta(days=1)) if day and day < date.max else None

    @property
    def selection(self) -> Selection:
        """What a valid form selects of the completions."""
        given = self.cleaned_data
        return Selection(
            key_id=given["key"] or None,
            model_id=given["model"] or None,
            status=Status[given["status"].upper()] if given["status"] else None,
            end_user=given["user"] or None,
            since=self.begin,
            until=self.end,
        )

    def _field(self, name: str) -> Any:
        return self.fields[name]


def _begin(day: date | None) -> datetime | None:
    return datetime.combine(day, time(), UTC) if day else None
