"""The catalog's admin pages. Rows that completions refer to cannot be deleted, only disabled."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import linebreaksbr
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html

from billing.staff import approvals
from billing.staff.approvals import ApprovalRefused
from billing.staff_permissions import staff_of
from completions.catalog import access_words, previews, price_requests, route_calls, writes
from completions.catalog.forms import LanguageModelForm, PriceForm, ProviderForm, RouteForm
from completions.catalog.price_admin import PRICE_COLUMNS, PricesInDollars
from completions.catalog.price_changes import PriceChangeForm
from completions.catalog.sync import proposals
from completions.models import LanguageModel, LanguageModelQuerySet, Price, PriceRequest, Provider, RoutableAlias, Route
from completions.statistics import measurements
from gateway_project.activity import list_values, log
from gateway_project.activity.admin_pages import ReadOnlyAdmin
from gateway_project.activity.list_values import column
from gateway_project.db import pool
from gateway_project.text import dollars, number_fields

_SET_PRICE = "completions.add_price"


class ShowsMeasurements(previews.PreviewedAdmin):
    """Shows beside the form how often attempts failed and how soon streams began, and the last errors."""

    change_form_template = "admin/completions/measured.html"

    def panels(self, request: HttpRequest, target: Any) -> dict[str, Any]:
        is_route, now = isinstance(target, Route), pool.database_time()
        asked: measurements.Route = (target.provider_id, target.model_id) if is_route else (target.pk, None)
        spans = {"The last hour": now - timedelta(hours=1), "The last 24 hours": now - timedelta(hours=24)}
        return {
            "measured": {name: measurements.measure(since).get(asked, measurements.NOTHING) for name, since in spans.items()},
            "completions_max": measurements.COMPLETIONS_MAX,
            "failures": measurements.last_failures(spans["The last 24 hours"], *asked),
        }


@admin.register(Provider)
class ProviderAdmin(ShowsMeasurements):
    form = ProviderForm
    list_display = ("slug", "kind", "base_url", "key", "failed", "is_enabled", "sync")
    actions = ("forget_refusals",)
    list_filter = ("kind", "is_enabled", "sync")
    search_fields = ("slug", "base_url")
    ordering = ("slug",)
    fields = (
        *("slug", "kind", "base_url", "api_key_env", "key", "api_key", "forget_api_key", "reached", "is_enabled"),
        *("passes_unknown_fields", "retention_days", "trains", "region"),
        *("connect_seconds", "first_byte_seconds", "idle_seconds", "total_seconds", "cancels", "sync", "own_list"),
        "bill_accounts",
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Provider | None = None) -> tuple[str, ...]:
        # Only a catalog file sets these: staff could otherwise send any secret of the environment, or of a cloud, to any host.
        fixed = ("key", "api_key_env", "reached", "own_list")
        return (*fixed, "slug", "kind") if obj else fixed

    def get_fields(self, request: HttpRequest, obj: Provider | None = None) -> Any:
        if obj is None or self.has_change_permission(request, obj):
            return self.fields
        return [name for name in self.fields if name not in {"api_key", "forget_api_key"}]

    reached = column("How it is reached", lambda provider: linebreaksbr("\n".join(access_words.describe_access(provider))))

    @admin.display(description="Its list")
    def own_list(self, provider: Provider) -> str:
        stored = proposals.stored_list(provider)
        if stored is None:
            return "never fetched"
        since = f"accepted on {stored.confirmed_at:%Y-%m-%d %H:%M} UTC" if stored.confirmed_at else "none accepted so far"
        return f"{since}; the last time it {stored.failure}" if stored.failure else since

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        measured = measurements.measure(pool.database_time() - timedelta(hours=1))
        for provider in found.result_list:
            provider.measured = measured.get((provider.pk, None), measurements.NOTHING)
        return found

    @admin.display(description="Failed, last hour")
    def failed(self, provider: Any) -> str:
        found: measurements.Measured = provider.measured
        return f"{found.failed:,} of {found.attempts:,}" if found.attempts else "not asked"

    @admin.display(description="Key")
    def key(self, provider: Provider) -> str:
        where = access_words.describe_key(provider)
        if provider.lacked_credential:
            return (
                f"{where}; at {provider.key_refused_at:%H:%M} UTC there was no credential on some host: {provider.key_refusal}"
            )
        if not provider.is_key_refused or provider.key_refused_at is None:
            return where
        refused = f"{where}; the provider refused it on {provider.key_refused_at:%Y-%m-%d %H:%M} UTC: {provider.key_refusal}"
        return f"{refused}. Its models are unavailable until the key is changed or accepted again"

    @admin.action(description="Use refused keys again", permissions=("change",))
    def forget_refusals(self, request: HttpRequest, providers: QuerySet[Provider]) -> None:
        refused = [provider for provider in providers if provider.is_key_refused]
        for provider in refused:
            provider.refused_key, provider.key_refused_at, provider.key_refusal = "", None, ""
            with transaction.atomic():
                provider.save(update_fields=["refused_key", "key_refused_at", "key_refusal"])
                log.record(request, log.Act.CHANGED, provider, "Use the refused key again.")
        self.message_user(request, f"{len(refused)} refused keys are used again.")


class PriceInline(PricesInDollars, admin.TabularInline):
    """The prices of a model. ``price_changes`` sets them, but for the first one where prices need no approval."""

    model = Price
    form = PriceForm
    extra = 1
    ordering = ("-effective_from",)
    fields = ("since", *PRICE_COLUMNS, "more_rates")
    readonly_fields = ("since", "more_rates")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and not settings.PRICES_NEED_APPROVAL and super().has_add_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_delete_permission = has_change_permission


class RouteInline(admin.TabularInline):
    formfield_overrides = number_fields.OF_COLUMNS
    model = Route
    exclude = ("retention_days", "trains", "region")  # on the route's own page: the table is wide enough
    form = RouteForm
    extra = 0


@admin.register(LanguageModel)
class LanguageModelAdmin(previews.PreviewedAdmin):
    form = LanguageModelForm
    change_form_template = "admin/completions/languagemodel/change_form.html"
    list_display = ("id", "name", "maker", "category", "price", "serves", "is_enabled")
    list_filter = ("is_enabled", "kind", "category", "maker", "image_support", "function_calling", "commercial_use")
    search_fields = ("id", "name", "maker")
    inlines = (RouteInline, PriceInline)
    readonly_fields = ("served", "created_at")
    own_pages = {"<path:object_id>/price/": "price", "<path:object_id>/price/<int:price_id>/": "withdraw"}

    def get_readonly_fields(self, request: HttpRequest, obj: LanguageModel | None = None) -> tuple[str, ...]:
        return (*self.readonly_fields, "id") if obj else self.readonly_fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[LanguageModel]:
        models = super().get_queryset(request)
        assert isinstance(models, LanguageModelQuerySet)
        return models.with_price_and_routes()

    @admin.display(description="$ per million, in / out")
    def price(self, model: LanguageModel) -> str:
        if not model.prices_in_force:
            return "none"
        [price] = model.prices_in_force
        return f"{dollars.format_plain(price.input_nanos)} / {dollars.format_plain(price.output_nanos)}"

    @admin.display(description="Served")
    def serves(self, model: LanguageModel) -> str:
        obstacle = next(model.obstacles(), None)
        return list_values.word("no", f"It {obstacle}.") if obstacle else "yes"

    served = column("Served", lambda model: "not yet saved" if model._state.adding else previews.describe_service(model))

    def price_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Set a price, at once or from a time on. A form that is sent twice sets it once."""
        model = self.object_for(request, object_id, _SET_PRICE)
        with transaction.atomic():
            writes.lock_catalog()
            form = PriceChangeForm(model, request.POST if request.method == "POST" else None)
            if request.method == "POST" and form.is_valid():
                starts_at = form.cleaned_data["starts_at"]
                if settings.PRICES_NEED_APPROVAL:
                    reason = form.cleaned_data["reason"]
                    ask = partial(price_requests.ask, model, sheet=form.sheet, starts_at=starts_at, reason=reason)
                    text = f"Asked for a price: {form.change}."
                    self._ask(request, model, "The price", text, ask, before=form.before, reason=reason)
                else:
                    writes.set_price(model.pk, form.sheet, starts_at=starts_at)
                    text = f"Set the price: {form.change}."
                    log.record(request, log.Act.PRICED, model, text, before=form.before, after=form.sheet.values)
                    messages.success(request, text)
                return self.back_to(model)
        context = {
            "form": form,
            "later": model.prices.later(),
            "waiting": approvals.waiting(PriceRequest).filter(model=model).first(),
            "effect": price_requests.describe_effect(model, Price(rates=form.sheet.rows)) if form.change else [],
            "needs_approval": settings.PRICES_NEED_APPROVAL,
        }
        return self.show_action(request, "admin/completions/languagemodel/price.html", "Price", model, **context)

    def withdraw_view(self, request: HttpRequest, object_id: str, price_id: int) -> HttpResponse:
        """Withdraw a price that has not begun, or ask a second person to. Show a confirmation first."""
        model = self.object_for(request, object_id, _SET_PRICE)
        with transaction.atomic():
            writes.lock_catalog()
            price = model.prices.later().filter(pk=price_id).first()
            if price is None:
                messages.error(request, "This price has already started or was withdrawn. Nothing was changed.")
                return self.back_to(model)
            before = model.prices.before(price.effective_from)
            if request.method == "POST":
                what, values = f"the price from {price.effective_from:%Y-%m-%d %H:%M} UTC.", price.sheet.values
                if settings.PRICES_NEED_APPROVAL and before:
                    ask = partial(price_requests.ask_to_withdraw, price, before)
                    self._ask(request, model, "The withdrawal", f"Asked to withdraw {what}", ask, before=values)
                else:
                    text = f"Withdrew {what}"
                    log.record(request, log.Act.PRICED, model, text, before=values)
                    price.delete()
                    messages.success(request, text)
                return self.back_to(model)
        context = {"price": price, "before": before, "needs_approval": settings.PRICES_NEED_APPROVAL and before}
        return self.show_action(request, "admin/completions/languagemodel/withdraw.html", "Withdraw", model, **context)

    def _ask(
        self,
        request: HttpRequest,
        model: LanguageModel,
        what: str,
        text: str,
        ask: Callable[..., PriceRequest],
        **details: Any,
    ) -> None:
        """Ask a second person, and say that ``what`` was asked for waits."""
        try:
            asked = ask(staff_of(request))
        except ApprovalRefused as refusal:
            messages.error(request, str(refusal))
            return
        after = {**asked.sheet.values, "request": str(asked.pk)}
        log.record(request, log.Act.PRICE_REQUESTED, model, text, after=after, **details)
        waits = '<a href="{}">{}</a> waits until a colleague approves it. Nothing is changed until then.'
        address = reverse("admin:completions_pricerequest_change", args=[asked.pk])
        messages.success(request, format_html(waits, address, what))


@admin.register(Price)
class PriceAdmin(PricesInDollars, ReadOnlyAdmin):
    list_display = ("model", "since", *PRICE_COLUMNS, "more_rates")
    list_select_related = ("model",)
    search_fields = ("model__id",)
    ordering = ("model", "-effective_from")
    fields = ("model", "since", *PRICE_COLUMNS, "more_rates")


@admin.register(Route)
class RouteAdmin(ShowsMeasurements):
    """Enables, disables and orders routes. They are added and removed on the page of their model."""

    form = RouteForm
    list_display = ("model", "provider", "upstream_model", "api", "priority", "weight", "is_enabled", "open_until")
    list_select_related = ("model", "provider")
    list_filter = ("provider", "is_enabled")
    search_fields = ("model__id", "upstream_model")
    ordering = ("model", "priority")
    readonly_fields = ("model", "provider", "upstream_model", "circuit")
    fields = (
        *("model", "provider", "upstream_model", "api", "priority", "weight", "is_enabled"),
        *("retention_days", "trains", "region", "circuit"),
    )
    own_pages = {"<path:object_id>/call/": "call"}

    def call_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask the provider for a few words, which no account pays for, and show what came of it."""
        route = self.object_for(request, object_id, "completions.change_route")
        outcome = None
        if request.method == "POST":
            outcome = route_calls.call(route)
            with transaction.atomic():  # not around the call, which may take half a minute
                ended = f"failed: {outcome.failure}" if outcome.failure else f"answered after {outcome.seconds}"
                log.record(request, log.Act.CALLED, route, f"Called the route by hand: it {ended}.")
        return self.show_action(request, "admin/completions/route/call.html", "Test call", route, outcome=outcome)

    @admin.display(description="circuit open", ordering="rests_until", empty_value="no")
    def open_until(self, route: Route) -> str | None:
        if route.rests_until is None or route.rests_until <= timezone.now():
            return None
        return f"until {date_format(timezone.localtime(route.rests_until), 'H:i:s')}"

    @admin.display
    def circuit(self, route: Route) -> str:
        """The state in the row. Each process has a circuit of its own, which only its log and its metrics show."""
        open_until = self.open_until(route)
        return f"open in a process {open_until}; a hint to the others" if open_until else "no process has opened it lately"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


@admin.register(RoutableAlias)
class RoutableAliasAdmin(ReadOnlyAdmin):
    """The rankings decide which models an alias stands for, so it is not edited here."""

    list_display = ("id", "model_ids", "updated_at")
    search_fields = ("id",)
    ordering = ("id",)
