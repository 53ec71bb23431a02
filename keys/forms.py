"""Forms for a spending limit, a new key, and what an owner changes of one."""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.utils.text import capfirst

from billing.forms import DataDemandsForm, DollarsField, SelectedAccountForm
from billing.models import Account
from gateway_project import app_config
from gateway_project.db import pool
from gateway_project.desk.forms import SeenForm
from gateway_project.text import number_fields
from keys import lifetimes, summaries
from keys.limits import rate_limits
from keys.models import MODELS_MAX, RATE_MAX, TAG_CHARACTERS_MAX, TAGS_MAX, ApiKey
from keys.spending_limit import PERIODS, Flaw, SpendingLimit, SpendingType, find_flaws

SECRET_CHARACTERS_MAX = 200
NO_LIMIT = "NONE"  # a value of its own: a form that lost its fields must not clear a limit
TYPES = [
    (NO_LIMIT, "No limit"),
    (SpendingType.FIXED.value, "One-time limit"),
    (SpendingType.RECURRING.value, "Limit that resets"),
]
_PERIODS = [(str(name), capfirst(period.resets)) for name, period in reversed(PERIODS.items())]  # a month first
_FLAWS = {
    Flaw.NO_AMOUNT: ("spending_limit", "Enter the amount that the key can spend."),
    Flaw.NO_PERIOD: ("spending_period", "Choose when the limit resets."),
}


# By values of the list's filter, as ``summaries.find_needing_attention`` has them.
NEEDS_ATTENTION = {
    "idle": f"Idle for {summaries.RECENT_DAYS} days",
    "unlimited": "No spending limit",
    "endless": "Never expires",
    "long": "Beyond the maximum lifetime",
}


class KeyListForm(forms.Form):
    """Which keys are listed, in which order. It is sent by GET."""

    NEWEST, MOST_SPENT = "", "spent"

    search = forms.CharField(required=False, max_length=100, widget=forms.TextInput(attrs={"placeholder": "Name or ID"}))
    tag = forms.CharField(required=False, max_length=TAG_CHARACTERS_MAX)
    only = forms.ChoiceField(label="Show", required=False, choices=[("", "All keys"), *NEEDS_ATTENTION.items()])
    sort = forms.ChoiceField(
        label="Order",
        required=False,
        choices=[(NEWEST, "Newest first"), (MOST_SPENT, f"Most spent in {summaries.RECENT_DAYS} days")],
    )


class LimitForm(forms.Form):
    """A spending limit: none, one-time, or one that resets."""

    spending_type = forms.ChoiceField(label="Spending limit", choices=TYPES, widget=forms.RadioSelect, initial=NO_LIMIT)
    spending_limit = DollarsField(label="Amount in US dollars", required=False, help_text="For example, 5 or 12.50.")
    spending_period = forms.ChoiceField(
        label="Resets", choices=_PERIODS, required=False, help_text="Only for a limit that resets."
    )

    @staticmethod
    def initial_of(key: ApiKey) -> dict[str, Any]:
        return {
            "spending_type": key.spending_type or NO_LIMIT,
            "spending_limit": key.spending_limit_cents,
            "spending_period": key.spending_period or "",
        }

    def clean(self) -> Any:
        # "No limit" with the amount that the key has clears the limit. With a newly typed one it is a contradiction:
        # dropping a limit silently costs money.
        type, cents = self.cleaned_data.get("spending_type"), self.cleaned_data.get("spending_limit")
        if type == NO_LIMIT and cents is not None and "spending_limit" in self.changed_data:
            self.add_error("spending_type", "Choose a kind of limit or leave the amount empty.")
        for flaw in find_flaws(*self._typed()) if type in SpendingType.values else []:
            if flaw is not Flaw.NO_AMOUNT or "spending_limit" not in self.errors:
                self.add_error(*_FLAWS[flaw])

    def _typed(self) -> tuple[int | None, str | None, str | None]:
        """Return the amount, the type and the period, without what does not belong to the type."""
        type = self.cleaned_data.get("spending_type")
        if type == NO_LIMIT:
            return None, None, None
        period = self.cleaned_data.get("spending_period") if type == SpendingType.RECURRING else None
        return self.cleaned_data.get("spending_limit"), type, period

    @property
    def limit(self) -> SpendingLimit:
        return SpendingLimit(*self._typed())


class DetailsForm(DataDemandsForm):
    """A key's name, last day, models and tags, and what it demands about data."""

    name = forms.CharField(max_length=100, help_text="For example, “production” or “laptop”.")
    last_day = number_fields.DateField(
        label="Expires after",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="Midnight UTC at the end of this day. Leave empty for a key that never expires.",
    )
    allowed_models = forms.CharField(
        label="Models",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocapitalize": "none"}),
        help_text="IDs of the models it can use, one per line. Leave empty for all models.",
    )
    tags = forms.CharField(
        required=False,
        help_text=f"Such as “web, staging”. At most {TAGS_MAX}, of {TAG_CHARACTERS_MAX} characters, separated by commas.",
    )
    for_account: Account  # set before ``__init__``: by SelectedAccountForm, or by a subclass

    def __init__(self, *args: Any, key: ApiKey | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "initial": {**DataDemandsForm.initial_of(key), **kwargs.get("initial", {})}})
        self.key = key
        if days_max := self.for_account.key_lifetime_days_max:
            empty = "" if key else " Leave empty for the latest end."
            most = f"At most {lifetimes.in_words(days_max)}."
            self.fields["last_day"].help_text = f"Midnight UTC at the end of this day. {most}{empty}"

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if self.key and name == self.key.name:
            return name
        named = ApiKey.objects.filter(account=self.for_account, name__iexact=name, revoked_at=None)
        if self.key and named.exclude(pk=self.key.pk).exists():
            raise forms.ValidationError("Another key has this name.")
        if not self.key and named.exists():
            raise forms.ValidationError("A key has this name already. If you just created it, its secret was shown then.")
        return name

    def clean_last_day(self) -> date | None:
        day: date | None = self.cleaned_data["last_day"]
        if "last_day" not in self.changed_data:
            return day  # of a key that has expired
        if day is not None and day < pool.database_time().astimezone(UTC).date():
            raise forms.ValidationError("This day is in the past.")
        if day == date.max:
            raise forms.ValidationError("Leave it empty for a key that never expires.")
        return day

    def clean_allowed_models(self) -> list[str] | None:
        ids = _unique(re.split(r"[\s,]+", self.cleaned_data["allowed_models"]))
        if len(ids) > MODELS_MAX:
            raise forms.ValidationError(f"You can restrict a key to at most {MODELS_MAX} models.")
        # A model that left the catalog must not keep the form from being saved.
        former = (self.key.allowed_models or []) if self.key else []
        if unknown := app_config.unknown_models([each for each in ids if each not in former]):
            raise forms.ValidationError(f"There is no model {', '.join(unknown)}. The Models page lists their IDs.")
        return ids or None

    def clean_tags(self) -> list[str] | None:
        tags = _unique(each.strip() for each in self.cleaned_data["tags"].split(","))
        if len(tags) > TAGS_MAX or any(len(tag) > TAG_CHARACTERS_MAX for tag in tags):
            raise forms.ValidationError(f"At most {TAGS_MAX} tags, of at most {TAG_CHARACTERS_MAX} characters each.")
        return tags or None

    @property
    def details(self) -> dict[str, Any]:
        """The arguments of ``lifecycle.change_key``."""
        names = ("name", "allowed_models", "tags", "data_policy", "data_regions")
        details = {name: self.cleaned_data[name] for name in names}
        if "last_day" in self.changed_data:  # a key made by a program may end at any time of its last day
            day = self.cleaned_data["last_day"]
            details["expires_at"] = None if day is None else datetime.combine(day + timedelta(days=1), time.min, UTC)
        return details


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))


class KeyForm(SelectedAccountForm, DetailsForm, LimitForm):
    """A new key. Validate it while the account is locked: a double click must not make two keys."""

    field_order = [
        *("name", "last_day", "spending_type", "spending_limit", "spending_period", "allowed_models"),
        *("data_policy", "data_regions", "tags"),
    ]
    purpose = "create the key"

    @property
    def new_key(self) -> dict[str, Any]:
        """The arguments of ``lifecycle.issue_key``."""
        return {**self.details, "limit": self.limit}


class ChangeForm(DetailsForm):
    """The fields of a key that an owner changes, but for its spending limit. A rate may not be above the account's."""

    requests_per_minute = number_fields.IntegerField(min_value=1, max_value=RATE_MAX, required=False)
    tokens_per_minute = number_fields.IntegerField(min_value=1, max_value=RATE_MAX, required=False)
    field_order = [
        *("name", "last_day", "allowed_models", "data_policy", "data_regions", "requests_per_minute", "tokens_per_minute"),
        "tags",
    ]

    def __init__(self, key: ApiKey, *args: Any) -> None:
        last = key.expires_at and (key.expires_at - timedelta(microseconds=1)).astimezone(UTC).date()
        initial = {name: getattr(key, name) for name in ("name", "requests_per_minute", "tokens_per_minute")}
        initial |= {"last_day": last, "allowed_models": "\n".join(key.allowed_models or []), "tags": ", ".join(key.tags or [])}
        self.for_account = key.account
        super().__init__(*args, key=key, initial=initial)
        most = rate_limits.account_limits(key.account)
        self._most = {"requests_per_minute": most.requests, "tokens_per_minute": most.tokens}
        for name, limit in self._most.items():
            self.fields[name].help_text = (
                "Leave empty for no limit." if limit is None else f"Empty: {limit:,}, as for the whole account."
            )

    def clean(self) -> None:
        super().clean()
        for name, most in self._most.items():
            rate = self.cleaned_data.get(name)
            if name in self.changed_data and rate is not None and most is not None and rate > most:
                self.add_error(name, f"At most {most:,}. Ask support for more.")

    @property
    def details(self) -> dict[str, Any]:
        return {**super().details, **{name: self.cleaned_data[name] for name in self._most}}


class LifetimeForm(forms.Form):
    """The maximum lifetime of the account's keys."""

    days = number_fields.IntegerField(
        label="Maximum lifetime in days",
        min_value=1,
        max_value=lifetimes.DAYS_MAX,
        required=False,
        help_text="For example, 90. Leave empty for no maximum.",
    )


GRACES = [("0", "Immediately"), ("3600", "In 1 hour"), ("86400", "In 24 hours"), ("604800", "In 7 days")]


class RotateForm(SeenForm):
    """When the secrets of a key that work now stop working. Validate it with the key locked."""

    grace_seconds = forms.TypedChoiceField(
        label="Current secret stops working", choices=GRACES, coerce=int, initial="86400", widget=forms.RadioSelect
    )

    def facts(self) -> dict[str, str]:
        return {"secret": summaries.mask_secret(self.subject)}

    @property
    def grace(self) -> timedelta:
        return timedelta(seconds=self.cleaned_data["grace_seconds"])


class ManagementKeyForm(forms.Form):
    """A new management key. Validate it while the account is locked: a double click must not make two."""

    name = forms.CharField(max_length=100, help_text="The program that uses it, such as “provisioning”.")

    def __init__(self, account: Account, *args: Any) -> None:
        super().__init__(*args)
        self.account = account

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if self.account.management_keys.filter(name__iexact=name, revoked_at=None).exists():
            words = "A management key has this name already. If you just created it, its secret was shown then."
            raise forms.ValidationError(words)
        return name


class SecretForm(forms.Form):
    """A secret that was found somewhere. It is not shown again, whatever it is."""

    secret = forms.CharField(
        max_length=SECRET_CHARACTERS_MAX,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="The whole secret, starting with “mgw_”. We neither store nor log it.",
    )
