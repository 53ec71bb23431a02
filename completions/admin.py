"""Admin pages of completions. Importing the catalog's admin modules registers their pages."""

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet, TextField
from django.forms import Textarea
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe

from billing.desk import search
from billing.models import Hold, LedgerEntry
from completions.catalog import admin as catalog_admin  # noqa: F401  registers its pages
from completions.catalog.sync import admin as proposals_admin  # noqa: F401  registers its pages
from completions.desk.admin import describe_failures
from completions.history import explanation
from completions.history.explanation import SETTLEMENTS_IN_SHORT
from completions.models import Completion, CompletionHour, IdempotentRequest, Incident, IncidentUpdate
from gateway_project.activity import list_values
from gateway_project.activity.admin_pages import NamedTimesMixin, ReadOnlyAdmin, RecordedAdmin
from gateway_project.activity.keyset import NewestFirstAdmin
from gateway_project.activity.list_values import column
from gateway_project.desk import short_ids
from gateway_project.templatetags.amounts import usd
from gateway_project.text import dollars, number_fields


@admin.register(Completion)
class CompletionAdmin(NewestFirstAdmin):
    list_display = ("short_id", "at", "of_account", "of_key", "of_model", "tokens", "cost", "usage")
    amounts = ("cost_nanos",)
    list_select_related = ("account", "key", "model", "provider", "price")
    list_filter = ("settlement", "is_stream", "created_at", "model")
    search_fields = ("id",)
    search_help_text = "The full ID of a completion, request, account or key; an account's name, or a member's email address."
    fields = (
        *("id", "request_id", "provider_request_id", "account", "key", "model", "provider", "attempts", "failures"),
        *("price_used", "is_stream", "end_user", "tags", "state"),
        *("prompt_tokens", "cached_tokens", "cache_write_tokens", "cache_write_1h_tokens", "images", "completion_tokens"),
        *("cost", "entry", "hold"),
        *("first_token_ms", "streamed_ms", "spending_day", "at", "finished"),
    )

    change_form_template = "admin/completions/completion/change_form.html"
    own_pages = {"compare/": "compare"}

    def compare_view(self, request: HttpRequest) -> HttpResponse:
        """Show two charges side by side, by the ids in the query: ``first`` and ``second``."""
        if not self.has_view_permission(request):
            raise PermissionDenied("completions.view_completion")
        ids = {name: request.GET.get(name, "").strip() for name in ("first", "second")}
        known = Completion.objects.select_related("account", "key", "price").in_bulk(list(ids.values()))
        found = [known[id] for id in ids.values() if id in known]
        context = {**self.admin_site.each_context(request), "opts": self.opts, "title": "Compare charges", "ids": ids}
        context["missing"] = [id for id in ids.values() if id and id not in known]
        context["lines"] = explanation.compare(*found) if len(found) == 2 else []
        return TemplateResponse(request, "admin/completions/completion/compare.html", context)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Completion], search_term: str
    ) -> tuple[QuerySet[Completion], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        accounts = search.account_ids(term)
        return queryset.filter(Q(pk=term) | Q(request_id=term) | Q(key=term) | Q(account__in=accounts)), False

    short_id = column("ID", lambda completion: short_ids.shorten(completion.pk))
    at = column("when", lambda completion: list_values.moment(completion.created_at))
    finished = column("finished", lambda one: one.finished_at and list_values.moment(one.finished_at), empty_value="-")
    of_account = column("account", lambda completion: list_values.link(completion.account))
    of_key = column("key", lambda completion: list_values.link(completion.key, completion.key.name))
    of_model = column("model", lambda completion: str(completion.model_id))
    entry = column(
        "Ledger entry", lambda one: list_values.link(LedgerEntry.objects.filter(reference=one.pk).first()), empty_value="none"
    )
    hold = column("hold", lambda one: list_values.link(Hold.objects.filter(pk=one.pk).first()), empty_value="none")

    @admin.display(description="Usage")
    def usage(self, completion: Completion) -> str:
        """The settlement in few words, for the list."""
        if not completion.settlement:
            return "running"
        return list_values.word(SETTLEMENTS_IN_SHORT[completion.settlement], completion.settlement)

    @admin.display(description="Settlement")
    def state(self, completion: Completion) -> str:
        if not completion.settlement:
            return "running"
        return list_values.word(completion.get_settlement_display(), completion.settlement)

    @admin.display(description="Tokens in / out")
    def tokens(self, completion: Completion) -> str:
        if completion.prompt_tokens is None:
            return ""
        return f"{completion.prompt_tokens:,} / {completion.completion_tokens:,}"

    @admin.display(description="Failed attempts")
    def failures(self, completion: Completion) -> str:
        return format_html_join(mark_safe("<br>"), "{}", ((each,) for each in describe_failures(completion))) or "none"

    @admin.display
    def cost(self, completion: Completion) -> str:
        return "" if completion.cost_nanos is None else usd(completion.cost_nanos, list_values.decimals_of(completion))

    @admin.display(description="Price, $ per million")
    def price_used(self, completion: Completion) -> str:
        price = completion.price
        return f"{dollars.format_plain(price.input_nanos)} in, {dollars.format_plain(price.output_nanos)} out"


@admin.register(CompletionHour)
class CompletionHourAdmin(ReadOnlyAdmin):
    list_display = ("hour", "completions", "cost", "first_token_p50_ms", "first_token_p99_ms")
    amounts = ("cost_nanos",)
    fields = list_display
    ordering = ("-hour",)
    cost = column("cost", lambda hour: usd(hour.cost_nanos, list_values.decimals_of(hour)))


@admin.register(IdempotentRequest)
class IdempotentRequestAdmin(NewestFirstAdmin):
    """Idempotency keys of callers. The stored reply is encrypted and not shown."""

    list_display = ("key", "account", "completion", "is_stream", "is_kept", "is_too_large", "expires_at")
    list_select_related = ("account", "completion")
    search_fields = ("key", "completion__id")
    fields = ("key", "account", "completion", "fingerprint", "is_stream", "is_kept", "is_too_large", "expires_at")
    is_kept = column("reply kept", lambda request: request.sealed_reply is not None, boolean=True)


class IncidentUpdateInline(NamedTimesMixin, admin.TabularInline):
    model = IncidentUpdate
    extra = 1
    fields = ("at", "text")
    formfield_overrides = {**number_fields.OF_COLUMNS, TextField: {"widget": Textarea(attrs={"rows": 3, "cols": 50})}}


@admin.register(Incident)
class IncidentAdmin(RecordedAdmin):
    """An incident on the status page."""

    list_display = ("title", "impact", "began_at", "ended_at")
    list_filter = ("impact",)
    search_fields = ("title",)
    ordering = ("-began_at",)
    fields = ("title", "impact", "began_at", "ended_at")
    inlines = (IncidentUpdateInline,)
