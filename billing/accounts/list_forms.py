"""Filters of a member's lists, newest first. They are sent by GET, so that an address can be kept and passed on."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms

from billing.models import Account
from gateway_project import app_config, errors
from gateway_project.text import number_fields

OFFERED_MAX = 100  # spenders in a list to choose from
_SAME_NAME_MAX = 5
_PLACES = ("older", "newer")


class ListForm(forms.Form):
    """Days are UTC days; the last one counts whole. ``older`` and ``newer`` are the place in the list: what a page follows."""

    since = number_fields.DateField(required=False, label="From day", widget=forms.DateInput(attrs={"type": "date"}))
    until = number_fields.DateField(required=False, label="To day", widget=forms.DateInput(attrs={"type": "date"}))

    def clean(self) -> None:
        super().clean()
        since, until = (self.cleaned_data.get(name) for name in ("since", "until"))
        if since and until and until < since:
            self.add_error("until", "The last day must not be before the first.")

    @property
    def filters(self) -> dict[str, str]:
        """The filters as they were sent, without the place in the list."""
        return {name: self.data[name] for name in self.fields if name not in _PLACES and self.data.get(name)}

    def address(self, **place: Any) -> str:
        """Return the query of the list with these filters, at a place."""
        return "?" + urlencode({**self.filters, **place})

    def places(self, newer: Any, older: Any, *, oldest: Any = None) -> dict[str, str | None]:
        """Return the addresses beside a page, which ``dashboard/_places.html`` shows; None where there is none.

        ``newer`` and ``older`` are the places of the pages beside it, if any, and ``oldest`` is that before all others.
        """
        return {
            "first": self.address() if newer else None,
            "newer": self.address(newer=newer) if newer else None,
            "older": self.address(older=older) if older else None,
            "last": self.address(newer=oldest) if older and oldest is not None else None,
        }

    def refusal(self) -> errors.InvalidRequest:
        """Return the error of a form that is not valid, about its first wrong filter."""
        name, messages = next(iter(self.errors.items()))
        return errors.wrong(name, f"is not a filter: {messages[0]}".rstrip("."))

    @property
    def begin(self) -> datetime | None:
        day = self.cleaned_data["since"]
        return begin_of(day) if day else None

    @property
    def end(self) -> datetime | None:
        day = self.cleaned_data["until"]
        return begin_of(day + timedelta(days=1)) if day and day < date.max else None

    def field(self, name: str) -> Any:
        return self.fields[name]


def spender_field(account: Account) -> forms.Field:
    """Return a field for the id of one of the account's spenders: a list of them, or a text where there are many."""
    names = app_config.spender_names(account, limit=OFFERED_MAX + 1)
    if len(names) > OFFERED_MAX:
        return _SpenderField(account)
    return forms.ChoiceField(required=False, choices=[("", "All keys"), *names.items()])


class _SpenderField(forms.CharField):
    """The id or the name of a spender. Its value is the id."""

    def __init__(self, account: Account) -> None:
        super().__init__(required=False, max_length=100, help_text="Name or ID. Leave empty for all keys.")
        self._account = account

    def clean(self, value: Any) -> str:
        text = str(super().clean(value))
        found = app_config.spender_names(self._account, text=text, limit=_SAME_NAME_MAX) if text else {"": ""}
        if not found:
            raise forms.ValidationError("No key has this name or ID.")
        if text not in found and len(found) > 1:
            raise forms.ValidationError(f"Several keys have this name. Enter one of their IDs: {', '.join(found)}.")
        return text if text in found else next(iter(found))


def begin_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
