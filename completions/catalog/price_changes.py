"""Staff's changes of a model's price: what changes, in percent, is shown and confirmed before it is written.

A change that the rule for providers' lists would not apply by itself (``sync.diff``) is asked about again.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings

from completions.catalog import markup
from completions.catalog.forms import MORE_RATES, MORE_RATES_HELP, RATE_NAMES, more_lines, rate_field, read_sheet
from completions.catalog.sync import diff
from completions.models import CatalogProposal, LanguageModel
from completions.pricing.rates import RateSheet
from completions.statistics import margins
from gateway_project.db import pool
from gateway_project.text import number_fields

_KIND = CatalogProposal.Kind.PRICE
_PERCENT = re.compile(r"[0-9]{1,4}(\.[0-9]{1,2})?", re.ASCII)
_MARKUP_MAX = 1_000


class PriceChangeForm(forms.Form):
    """A new price of a model. It opens with today's, and is sent twice: the second time with what the first one showed."""

    more_rates = forms.CharField(
        label="More rates", max_length=20_000, required=False, widget=forms.Textarea, help_text=MORE_RATES_HELP
    )
    markup = number_fields.DecimalField(
        label="Mark-up on the provider's price, %",
        required=False,
        min_value=0,
        max_value=_MARKUP_MAX,
        max_digits=6,
        decimal_places=2,
    )
    starts_at = number_fields.DateTimeField(
        label="Effective from (UTC)",
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text="Leave empty to apply now. Requests are charged at the price in force when they are admitted.",
    )
    reason = forms.CharField(label="Reason", max_length=500, required=False, help_text="Whoever approves it reads this.")
    is_large = forms.BooleanField(label="Confirm large change", required=False)
    seen = forms.CharField(required=False, widget=forms.HiddenInput)  # the price that the form opened with
    confirmed = forms.CharField(required=False, widget=forms.HiddenInput)  # the change that the form has shown

    def __init__(self, model: LanguageModel, data: Mapping[str, Any] | None = None) -> None:
        self.model, self.current = model, model.prices.at()
        self.before = self.current.sheet.values if self.current else {}
        more = more_lines(self.current.sheet) if self.current else ""
        initial = {**self.before, MORE_RATES: more, "seen": self._seen}
        super().__init__(data.copy() if data else None, initial=initial)  # type: ignore[attr-defined]
        rates = {name: rate_field(name, max_length=30) for name in RATE_NAMES}
        self.fields = {**rates, **self.fields}  # they come first
        self._offer_markup()
        self.sheet = RateSheet([])  # once the form is valid but for its confirmation
        self.change = ""  # in words, once the form is valid but for its confirmation
        self.is_far = False
        self.fields["is_large"].help_text = f"It is more than {settings.CATALOG_SYNC_PRICE_PERCENT} % up or down."
        if data is None:
            del self.fields["is_large"]
        if not settings.PRICES_NEED_APPROVAL:
            del self.fields["reason"]

    def _offer_markup(self) -> None:
        """Let a mark-up fill in the prices, where it is known what the provider of the model's first route charges."""
        first = self.model.routes.filter(is_enabled=True).order_by("priority", "id").first()
        costs = {cost.provider_id: cost for cost in margins.provider_prices(self.model)}
        cost = costs.get(first.provider_id) if first else None
        if cost is None:
            del self.fields["markup"]
            return
        self.fields["markup"].help_text = f"Fills in the prices above from what {cost.provider_id} charges."
        typed = self.data.get("markup", "")
        if _PERCENT.fullmatch(typed) and Decimal(typed) <= _MARKUP_MAX:
            self.data["markup"] = ""  # type: ignore[index]
            filled = cost.sheet.map(lambda nanos: markup.add(nanos, Decimal(typed)))
            for name in RATE_NAMES:
                self.data[name] = filled.values.get(name, "")  # type: ignore[index]
            self.data[MORE_RATES] = more_lines(filled)  # type: ignore[index]

    @property
    def _seen(self) -> str:
        return str(self.current.pk) if self.current else ""

    def clean_starts_at(self) -> datetime | None:
        starts_at: datetime | None = self.cleaned_data["starts_at"]
        if starts_at and starts_at <= pool.database_time():
            raise forms.ValidationError("This is in the past. Leave empty to apply the price now.")
        if starts_at and self.model.prices.filter(effective_from=starts_at).exists():
            raise forms.ValidationError("A price that starts then already exists.")
        return starts_at

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors:
            self.sheet = read_sheet(self, cleaned) or self.sheet
        if cleaned.get("seen") != self._seen:
            self._say_what_changed(cleaned.get("seen", ""))
        elif not self.errors:
            self._require_confirmation(cleaned)
        if not self.is_far:
            del self.fields["is_large"]
        return cleaned

    def _say_what_changed(self, seen: str) -> None:
        """The page is outdated: another price is in force now. It is shown, and what was typed is kept."""
        old = self.model.prices.filter(pk=seen).first() if seen.isascii() and seen.isdigit() and len(seen) < 19 else None
        change = diff.describe_price_change(old.sheet.values if old else {}, self.before)
        self.data["seen"] = self._seen  # type: ignore[index]
        self.add_error(None, f"The price was changed since you opened this page: {change}. Nothing was changed now.")

    def _require_confirmation(self, cleaned: dict[str, Any]) -> None:
        starts_at = cleaned["starts_at"]
        base = self.model.prices.at(starts_at)
        before = base.sheet.values if base else {}
        if self.sheet.values == before:
            self.add_error(None, "This is already the price. Nothing was changed.")
            return
        at_once = "when it is approved" if settings.PRICES_NEED_APPROVAL else "at once"
        start = f"from {starts_at:%Y-%m-%d %H:%M} UTC" if starts_at else at_once
        self.change = f"{diff.describe_price_change(before, self.sheet.values)}, {start}"
        percent = settings.CATALOG_SYNC_PRICE_PERCENT
        self.is_far = bool(before) and not diff.can_apply_automatically(_KIND, before, self.sheet.values, percent=percent)
        is_shown = cleaned["confirmed"] == self.change
        self.data["confirmed"] = self.change  # type: ignore[index]
        if not is_shown:
            verb = "ask for" if settings.PRICES_NEED_APPROVAL else "set"
            self.add_error(None, f"Review the change: {self.change}. Send the form again to {verb} it.")
        elif self.is_far and not cleaned["is_large"]:
            self.add_error("is_large", "Select this to confirm.")
