"""Forms of the acts on a key. They are validated while the key is locked, so what they check stays true."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms

from billing import money
from billing.forms import DollarsField
from gateway_project.db import pool
from gateway_project.desk.forms import ReasonForm
from gateway_project.text import dollars, number_fields
from keys import lifecycle, summaries
from keys.forms import NO_LIMIT, TYPES, LimitForm
from keys.models import RATE_MAX, ApiKey

RAISE_DAYS_MAX = 31


_OPTIONAL_REASON = forms.CharField(
    max_length=500, required=False, widget=forms.Textarea(attrs={"rows": 3, "cols": 60}), help_text="For the activity log."
)


class RevokeForm(ReasonForm):
    reason = _OPTIONAL_REASON


class SupportLimitForm(ReasonForm, LimitForm):
    """A spending limit in the admin, whose layout has no room for radio buttons."""

    reason = _OPTIONAL_REASON
    spending_type = forms.ChoiceField(label="Spending limit", choices=TYPES, initial=NO_LIMIT)
    field_order = ("spending_type", "spending_limit", "spending_period")

    def __init__(self, key: ApiKey, *args: Any) -> None:
        super().__init__(key, *args, initial=LimitForm.initial_of(key))

    def facts(self) -> dict[str, str]:
        return {"spending_limit": summaries.describe_limit_of(self.subject, pool.database_time())}


class RaiseForm(ReasonForm):
    """A higher spending limit for a time. The limit's kind and period stay."""

    reason = _OPTIONAL_REASON
    raised_limit = DollarsField(label="Amount in US dollars", max_cents=money.CENTS_MAX)
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


def _rate(label: str) -> number_fields.IntegerField:
    return number_fields.IntegerField(label=label, min_value=1, max_value=RATE_MAX, required=False)


class RatesForm(ReasonForm):
    """How much a key may send. An empty field: as its account says, or else the deployment."""

    reason = _OPTIONAL_REASON
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

    @property
    def rates(self) -> dict[str, int | None]:
        """The arguments of ``lifecycle.set_rates``."""
        return {name: self.cleaned_data[name] for name in lifecycle.RATES}
