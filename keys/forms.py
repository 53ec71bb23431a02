"""Forms for a spending limit and a new key."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms

from billing import money
from billing.forms import DollarsField
from billing.models import Account
from gateway_project.db import pool
from keys import lifecycle
from keys.models import ApiKey, SpendingPeriod, SpendingType

NO_LIMIT = "NONE"  # a value of its own: a form that lost its fields must not clear a limit
TYPES = [
    (NO_LIMIT, "No limit"),
    (SpendingType.FIXED.value, "One-time limit (FIXED)"),
    (SpendingType.RECURRING.value, "Limit that resets (RECURRING)"),
]
_PERIODS = [("", "—"), *((period.value, f"{period.label} ({period.value})") for period in SpendingPeriod)]


class LimitForm(forms.Form):
    """A spending limit: none, one-time, or one that resets."""

    spending_type = forms.ChoiceField(label="Spending limit", choices=TYPES, widget=forms.RadioSelect, initial=NO_LIMIT)
    spending_limit = DollarsField(
        label="At most, in US dollars", max_cents=money.CENTS_MAX, required=False, help_text="Such as 5 or 12.50."
    )
    spending_period = forms.ChoiceField(
        label="Resets",
        choices=_PERIODS,
        required=False,
        help_text="At 00:00 UTC: each day, on Mondays, on the first of the month. Only for a limit that resets.",
    )

    @staticmethod
    def initial_of(key: ApiKey) -> dict[str, Any]:
        """Return the fields for the key's current limit."""
        return {
            "spending_type": key.spending_type or NO_LIMIT,
            "spending_limit": key.spending_limit_cents,
            "spending_period": key.spending_period or "",
        }

    def clean(self) -> Any:
        # "No limit" together with a newly typed amount is a contradiction. The form shows it and does not guess: dropping a
        # limit silently costs money. Together with the amount that the key already has, it clears the limit.
        limit_cents = self.cleaned_data.get("spending_limit")
        type, period = self.cleaned_data.get("spending_type"), self.cleaned_data.get("spending_period")
        if type == NO_LIMIT and limit_cents is not None and "spending_limit" in self.changed_data:
            self.add_error("spending_type", "Choose the kind of limit, or leave the amount empty.")
        if type in SpendingType.values and limit_cents is None and "spending_limit" not in self.errors:
            self.add_error("spending_limit", "Enter the most that the key may spend.")
        if type == SpendingType.RECURRING and not period:
            self.add_error("spending_period", "Choose when the limit resets.")

    @property
    def limit(self) -> dict[str, Any]:
        """``limit_cents``, ``type`` and ``period``: arguments of ``lifecycle.set_spending_limit``."""
        type = self.cleaned_data["spending_type"]
        if type == NO_LIMIT:
            return {"limit_cents": None, "type": None, "period": None}
        period = self.cleaned_data["spending_period"] if type == SpendingType.RECURRING else None
        return {"limit_cents": self.cleaned_data["spending_limit"], "type": type, "period": period}


class KeyForm(LimitForm):
    """A new key. Validate it while the account is locked: a double click must not make two keys."""

    name = forms.CharField(max_length=100, help_text="Where you will use it, such as “production” or “laptop”.")
    last_day = forms.DateField(
        label="Last day it works",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="Until midnight UTC. Empty: it never expires.",
    )
    account = forms.CharField(widget=forms.HiddenInput)

    field_order = ["name", "last_day", "spending_type", "spending_limit", "spending_period"]

    def __init__(self, for_account: Account, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.for_account = for_account
        self.fields["account"].initial = str(for_account.pk)

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if ApiKey.objects.filter(account=self.for_account, name__iexact=name, revoked_at=None).exists():
            raise forms.ValidationError(
                "There is a key with this name. If you made it just now, its secret was shown then and cannot be shown again."
            )
        return name

    def clean_last_day(self) -> date | None:
        day: date | None = self.cleaned_data["last_day"]
        if day is not None and day < pool.database_time().astimezone(UTC).date():
            raise forms.ValidationError("This day is in the past.")
        if day == date.max:
            raise forms.ValidationError("Leave it empty for a key that never expires.")
        return day

    def clean(self) -> None:
        super().clean()
        if self.cleaned_data.get("account") != str(self.for_account.pk):
            # The form was opened for one account; then another was selected in a second window. Say whose key it would be.
            self.data = {**self.data.dict(), "account": str(self.for_account.pk)}  # type: ignore[attr-defined]
            self.add_error(
                None, f"The selected account is now {self.for_account.name}. Send the form again to make the key there."
            )

    def issue(self, created_by: Any) -> tuple[ApiKey, str]:
        """Make the key. Return it and its secret."""
        day = self.cleaned_data["last_day"]
        return lifecycle.issue_key(
            self.for_account,
            name=self.cleaned_data["name"],
            created_by=created_by,
            expires_at=None if day is None else datetime.combine(day + timedelta(days=1), time.min, UTC),
            **self.limit,
        )
