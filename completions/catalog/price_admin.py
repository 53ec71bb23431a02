"""The admin pages of prices: those that wait for a second person, those of providers, and the margins between."""

from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from billing.models import User
from billing.staff.approval_admin import WaitingActAdmin
from completions import margins
from completions.catalog import lookup, price_requests
from completions.catalog.forms import ProviderPriceForm
from completions.catalog.sync import diff
from completions.chat import TIERS
from completions.models import Price, PriceRequest, ProviderDay, ProviderPrice, TokenPrices
from gateway_project.activity.admin_pages import ReadOnlyAdmin, RecordedAdmin
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from gateway_project.text import dollars

_SPANS_DAYS = (1, 7, 30, 90, 365)


class PricesInDollars:
    """Price columns in US dollars per million tokens."""

    @admin.display(description="Effective from")
    def since(self, price: Price) -> str:
        return f"{price.effective_from:%Y-%m-%d %H:%M:%S} UTC" if price.pk else "now"

    @admin.display(description="Input, $ per million")
    def input_dollars(self, price: TokenPrices) -> str:
        return _format_price(price.input_nanos)

    @admin.display(description="Output, $ per million")
    def output_dollars(self, price: TokenPrices) -> str:
        return _format_price(price.output_nanos)

    @admin.display(description="Cached input, $ per million")
    def cached_input_dollars(self, price: TokenPrices) -> str:
        return _format_price(price.cached_input_nanos, "as input")

    @admin.display(description="Cache write, $ per million")
    def cache_write_dollars(self, price: TokenPrices) -> str:
        return _format_price(price.cache_write_nanos, "as input")

    @admin.display(description="For an hour, $ per million")
    def cache_write_1h_dollars(self, price: TokenPrices) -> str:
        return _format_price(price.cache_write_1h_nanos, "refused")

    @admin.display(description="Service tiers, $ per million")
    def tiers(self, price: TokenPrices) -> str:
        """Return the input and output of the service tiers that have prices."""
        found = lookup.price_list(price) if price.pk else None
        tiers = [(name, found.of_tier(name)) for name in TIERS] if found else []
        descriptions = [
            f"{name} {_format_price(tier.input_nanos)} / {_format_price(tier.output_nanos)}" for name, tier in tiers if tier
        ]
        return ", ".join(descriptions) or "none"

    @admin.display(description="Each image, $")
    def image_dollars(self, price: TokenPrices) -> str:
        return _format_price(price.image_nanos, "nothing")

    @admin.display(description="Each web search, $")
    def web_search_dollars(self, price: TokenPrices) -> str:
        return _format_price(price.web_search_nanos, "refused")


PRICE_COLUMNS = (
    *("input_dollars", "output_dollars", "cached_input_dollars"),
    *("cache_write_dollars", "cache_write_1h_dollars", "image_dollars", "web_search_dollars"),
)


def _format_price(amount_nanos: int | None, otherwise: str = "") -> str:
    return otherwise if amount_nanos is None else dollars.format_plain(amount_nanos)


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

    @admin.display(description="change")
    def change(self, asked: PriceRequest) -> str:
        return price_requests.describe(asked)

    def refusal(self, asked: PriceRequest, by: User) -> str:
        return price_requests.refusal(asked, by)

    def facts(self, asked: PriceRequest) -> dict[str, Any]:
        return {"change": self.change(asked), "effect": price_requests.describe_effect(asked.model, asked)}

    def approve(self, request: HttpRequest, asked: PriceRequest, by: User) -> tuple[Activity.Act, dict[str, Any], str]:
        price = price_requests.approve(asked.pk, by=by)
        is_new = price.effective_from > asked.requested_at
        text = f"{'It starts at' if is_new else 'In force stays the price from'} {price.effective_from:%Y-%m-%d %H:%M} UTC."
        return Activity.Act.PRICED, diff.price_values(price), text


@admin.register(ProviderPrice)
class ProviderPriceAdmin(PricesInDollars, RecordedAdmin):
    """What providers charge. It is what the operator says, and can be corrected: it moves no money."""

    form = ProviderPriceForm
    list_display = ("model", "provider", "since_day", *PRICE_COLUMNS, "tiers")
    list_select_related = ("model", "provider")
    list_filter = ("provider",)
    search_fields = ("model__id",)
    ordering = ("model", "provider", "-since")
    autocomplete_fields = ("model",)

    @admin.display(description="Since", ordering="since")
    def since_day(self, price: ProviderPrice) -> str:
        return f"{price.since:%Y-%m-%d}"


@admin.register(ProviderDay)
class MarginAdmin(ReadOnlyAdmin):
    """What was charged and what providers cost, by model: instead of a list of days, their sums."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked = request.GET.get("days", "")
        days = int(asked) if asked in map(str, _SPANS_DAYS) else 30
        until = pool.database_time().date() + timedelta(days=1)
        context = {
            **self.admin_site.each_context(request),
            **{"opts": self.opts, "title": "Margins", "days": days, "spans": _SPANS_DAYS},
            "margins": margins.with_sums(margins.read(until - timedelta(days=days), until)),
        }
        return TemplateResponse(request, "admin/completions/providerday/margins.html", context)
