"""The admin pages of prices: those that wait for a second person, those of providers, and the margins between."""

from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from billing.models import User
from billing.staff.approval_admin import WaitingActAdmin
from completions.catalog import price_requests
from completions.catalog.forms import ProviderPriceForm
from completions.models import PriceRequest, ProviderDay, ProviderPrice, TokenPrices
from completions.pricing.meters import METERS, Meter, Unit
from completions.statistics import margins
from gateway_project.activity import log
from gateway_project.activity.admin_pages import ReadOnlyAdmin, RecordedAdmin
from gateway_project.activity.list_values import column
from gateway_project.db import pool
from gateway_project.text import dollars

_SPANS_DAYS = (1, 7, 30, 90, 365)


class PricesInDollars:
    """The rates of a price in US dollars: a column for each meter, and one for those of service tiers and long prompts."""

    since = column("Effective from", lambda price: f"{price.effective_from:%Y-%m-%d %H:%M:%S} UTC" if price.pk else "now")

    @admin.display(description="Tiers and long prompts, $")
    def more_rates(self, price: TokenPrices) -> str:
        more = [rate for rate in price.sheet if rate.tier or rate.above] if price.rates else []
        words = [f"{rate.title[0].lower()}{rate.title[1:]} {dollars.format_plain(rate.nanos)}" for rate in more]
        return ", ".join(words) or "none"


def _column(meter: Meter) -> Any:
    def rate(price: TokenPrices) -> str:
        nanos = price.sheet.stated(meter.name) if price.rates else None
        return meter.without_rate if nanos is None else dollars.format_plain(nanos)

    return column(f"{meter.title}, {'$ each' if meter.unit is Unit.EACH else '$ per million'}", rate)


PRICE_COLUMNS = tuple(f"{meter.name}_dollars" for meter in METERS)
for _meter in METERS:
    setattr(PricesInDollars, f"{_meter.name}_dollars", _column(_meter))


@admin.register(PriceRequest)
class PriceRequestAdmin(WaitingActAdmin):
    approve_permission = "completions.approve_price"
    approve_template = "admin/completions/pricerequest/approve.html"
    approved_as = "set"
    list_display = ("requested_at", "model", "change", "reason", "requested_by", "state")
    list_select_related: ClassVar[tuple[str, ...]] = ("model", "before", "requested_by")
    search_fields = ("model__id", "requested_by__email__exact")
    search_help_text = "A part of the model's id, or the requester's email address."
    fields = (
        *("model", "change", "reason", "requested_by", "requested_at"),
        *("state", "decided_by", "decided_at", "decision_reason", "price"),
    )

    change = column("change", price_requests.describe)
    refusal = staticmethod(price_requests.refusal)

    def facts(self, asked: PriceRequest) -> dict[str, Any]:
        return {"change": self.change(asked), "effect": price_requests.describe_effect(asked.model, asked)}

    def approve(self, request: HttpRequest, asked: PriceRequest, by: User) -> tuple[log.Act, dict[str, Any], str]:
        price = price_requests.approve(asked.pk, by=by)
        is_new = price.effective_from > asked.requested_at
        text = f"{'It starts at' if is_new else 'In force stays the price from'} {price.effective_from:%Y-%m-%d %H:%M} UTC."
        return log.Act.PRICED, price.sheet.values, text


@admin.register(ProviderPrice)
class ProviderPriceAdmin(PricesInDollars, RecordedAdmin):
    """Providers' prices. The operator states them, and can correct them: it moves no money."""

    form = ProviderPriceForm
    list_display = ("model", "provider", "since_day", *PRICE_COLUMNS, "more_rates")
    list_select_related = ("model", "provider")
    list_filter = ("provider",)
    search_fields = ("model__id",)
    ordering = ("model", "provider", "-since")
    autocomplete_fields = ("model",)
    since_day = column("Since", lambda price: f"{price.since:%Y-%m-%d}", ordering="since")


@admin.register(ProviderDay)
class MarginAdmin(ReadOnlyAdmin):
    """Charges and providers' costs, by model: instead of a list of days, their sums."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked = request.GET.get("days", "")
        days = int(asked) if asked in map(str, _SPANS_DAYS) else 30
        until = pool.database_time().date() + timedelta(days=1)
        found = margins.with_sums(margins.read(until - timedelta(days=days), until))
        context = {"days": days, "spans": _SPANS_DAYS, "margins": found}
        return self.show_action(request, "admin/completions/providerday/margins.html", "Margins", None, **context)
