"""Filters of a member's lists, newest first. They are sent by GET, so that an address can be kept and passed on."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms

_PLACES = ("older", "newer")


class ListForm(forms.Form):
    """Days are UTC days; the last one counts whole. ``older`` and ``newer`` are the place in the list: what a page follows."""

    since = forms.DateField(required=False, label="From day", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To day", widget=forms.DateInput(attrs={"type": "date"}))

    def clean(self) -> None:
        super().clean()
        since, until = (self.cleaned_data.get(name) for name in ("since", "until"))
        if since and until and until < since:
            self.add_error("until", "The last day is before the first.")

    @property
    def filters(self) -> dict[str, str]:
        """The filters as they were sent, without the place in the list."""
        return {name: self.data[name] for name in self.fields if name not in _PLACES and self.data.get(name)}

    def address(self, **place: Any) -> str:
        """Return the query of the list with these filters, at a place."""
        return "?" + urlencode({**self.filters, **place})

    @property
    def begin(self) -> datetime | None:
        day = self.cleaned_data["since"]
        return begin_of(day) if day else None

    @property
    def end(self) -> datetime | None:
        """The end of the last day."""
        day = self.cleaned_data["until"]
        return begin_of(day + timedelta(days=1)) if day and day < date.max else None

    def field(self, name: str) -> Any:
        return self.fields[name]


def begin_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
