"""Acts on a key, each a form that does what it says. It is validated while the key is locked, so what it checks stays true."""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest

from billing import money
from billing.forms import DollarsField
from gateway_project.db import pool
from gateway_project.desk.forms import ReasonForm
from gateway_project.text import dollars, number_fields
from keys import acts, lifecycle, summaries
from keys.forms import NO_LIMIT, TYPES, LimitForm
from keys.models import RATE_MAX, ApiKey

RAISE_DAYS_MAX = 31


class KeyAct(ReasonForm):
    """An act on a locked key. Its reason is optional."""

    name: ClassVar[str]  # in addresses
    title: ClassVar[str]
    permission: ClassVar[str]

    reason = forms.CharField(
        max_length=500, required=False, widget=forms.Textarea(attrs={"rows": 3, "cols": 60}), help_text="For the activity log."
    )

    def perform(self, request: HttpRequest) -> str:
        """Act by the valid form. Return what was done, in a sentence."""
        raise NotImplementedError


class RevokeForm(KeyAct):
    name, title, permission = "revoke", "Revoke key", "keys.revoke_apikey"

    def perform(self, request: HttpRequest) -> str:
        if acts.revoke(request, self.subject, **self.notes):
            return "The key is revoked. Requests with it are now refused."
        return "The key was already revoked."


class SupportLimitForm(KeyAct, LimitForm):
    """A spending limit in the admin, whose layout has no room for radio buttons."""

    name, title, permission = "limit", "Spending limit", "keys.set_spending_limit"

    spending_type = forms.ChoiceField(label="Spending limit", choices=TYPES, initial=NO_LIMIT)
    field_order = ("spending_type", "spending_limit", "spending_period")

    def __init__(self, key: ApiKey, *args: Any) -> None:
        super().__init__(key, *args, initial=LimitForm.initial_of(key))

    def facts(self) -> dict[str, str]:
        return {"spending_limit": summaries.describe_limit_of(self.subject, pool.database_time())}

    def perform(self, request: HttpRequest) -> str:
        acts.set_spending_limit(request, self.subject, self.limit, **self.notes)
        return f"The spending limit is now: {self.limit}."


class RaiseForm(KeyAct):
    """A higher spending limit for a time. The limit's kind and period stay."""

    name, title, permission = "raise", "Raise the limit temporarily", "keys.set_spending_limit"

    raised_limit = DollarsField(label="Amount in US dollars")
    until = number_fields.DateTimeField(
        label="Until (UTC)",
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text=f"At most {RAISE_DAYS_MAX} days from now. The limit then returns to what it was.",
    )
    field_order = ("raised_limit", "until")

    def facts(self) -> dict[str, str]:
        return {"raised_limit": summaries.describe_limit_of(self.subject, pool.database_time())}

    def clean_raised_limit(self) -> int:
        cents: int = self.cleaned_data["raised_limit"]
        limit_nanos = self.subject.spending_limit_nanos
        if limit_nanos is None:
            raise forms.ValidationError("The key has no spending limit, so there is nothing to raise.")
        if money.nanos(cents) <= limit_nanos:
            raise forms.ValidationError(f"A raise is above the limit, which is {dollars.format_usd(limit_nanos)}.")
        return cents

    def clean_until(self) -> datetime:
        until: datetime = self.cleaned_data["until"].replace(tzinfo=UTC)  # typed as UTC, whatever the zone of the deployment
        now = pool.database_time()
        if until <= now:
            raise forms.ValidationError("This moment is in the past.")
        if until > now + timedelta(days=RAISE_DAYS_MAX):
            raise forms.ValidationError(f"A raise ends within {RAISE_DAYS_MAX} days. For longer, change the limit itself.")
        return until

    def perform(self, request: HttpRequest) -> str:
        limit_cents, until = self.cleaned_data["raised_limit"], self.cleaned_data["until"]
        words = acts.raise_spending_limit(request, self.subject, limit_cents=limit_cents, until=until, **self.notes)
        return f"The spending limit is now: {words}."


def _rate(label: str) -> number_fields.IntegerField:
    return number_fields.IntegerField(label=label, min_value=1, max_value=RATE_MAX, required=False)


class RatesForm(KeyAct):
    """How much a key may send. An empty field: as its account says, or else the deployment."""

    name, title, permission = "rates", "Rates", "keys.set_rates"

    requests_per_minute = _rate("Requests per minute")
    tokens_per_minute = _rate("Tokens per minute")
    requests_in_flight_max = _rate("Requests at a time")
    field_order = lifecycle.RATES

    def __init__(self, key: ApiKey, *args: Any) -> None:
        super().__init__(key, *args, initial={name: getattr(key, name) for name in lifecycle.RATES})

    def facts(self) -> dict[str, str]:
        values = {name: getattr(self.subject, name) for name in lifecycle.RATES}
        return {name: "empty" if value is None else str(value) for name, value in values.items()}

    def clean(self) -> dict[str, Any]:
        if not set(lifecycle.RATES) <= set(self.data):  # a form that lost its fields must not clear a limit
            raise forms.ValidationError("This form is damaged. Open it again.")
        return super().clean()

    def perform(self, request: HttpRequest) -> str:
        rates = {name: self.cleaned_data[name] for name in lifecycle.RATES}
        return f"The key may now send {acts.set_rates(request, self.subject, rates, **self.notes)}."


ACTS: list[type[KeyAct]] = [SupportLimitForm, RaiseForm, RatesForm, RevokeForm]
