"""Admin pages of completions. Importing the catalog's admin modules registers their pages."""

from itertools import zip_longest
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet, TextField
from django.forms import Textarea
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from billing.desk import search
from completions.bills import admin as bills_admin  # noqa: F401  registers its pages
from completions.catalog import admin as catalog_admin  # noqa: F401  registers its pages
from completions.catalog.sync import admin as proposals_admin  # noqa: F401  registers its pages
from completions.desk import admin as desk_admin  # noqa: F401  extends the pages of accounts and keys
from completions.history import explanation, pages
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
    list_display = ("at", "of_account", "of_key", "of_model", "tokens", "cost", "status", "short_id")
    amounts = ("cost_nanos",)
    list_select_related = ("account", "key", "model", "provider", "price")
    list_filter = ("settlement", "is_stream", "created_at", "model")
    search_fields = ("id",)
    search_help_text = "The full ID of a completion, request, account or key; an account's name, or a member's email address."
    fields = (
        *("id", "request_id", "provider_request_id", "account", "key", "model", "provider", "attempts", "failed_attempts"),
        *("price", "service_tier", "is_stream", "end_user", "tags", "run", "budgets", "data_demanded", "data_promised"),
        "settlement",
        *("prompt_estimate", "counted_tokens", "held_nanos", "relayed_bytes", "checkpointed_at"),
        *("prompt_tokens", "cached_tokens", "cache_write_tokens", "cache_write_1h_tokens", "images", "completion_tokens"),
        *("web_searches", "other_counts", "cost_nanos", "repeats", "charged_before_nanos"),
        *("own_key_fee", "counts_price", "provider_nanos", "provider_held_nanos"),
        *("first_token_ms", "streamed_ms", "spending_day", "created_at", "finished_at"),
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
        context = {
            "ids": ids,
            "missing": [id for id in ids.values() if id and id not in known],
            "lines": explanation.compare(*found) if len(found) == 2 else [],
        }
        return self.show_action(request, "admin/completions/completion/compare.html", "Compare charges", None, **context)

    def panels(self, request: HttpRequest, completion: Any) -> dict[str, Any]:
        """Return what the page tells of it: as its owner's page, and the provider's words about failures."""
        told = pages.explain(completion)
        charge, tokens, streamed_ms = told["charge"], completion.completion_tokens or 0, completion.streamed_ms
        amounts = dollars.format_exact_column([charge.held_nanos, charge.cost_nanos, charge.returned_nanos or 0])
        return {
            **told,
            **dict(zip(("held", "charged", "returned"), amounts, strict=True)),
            "tries": zip_longest(told["attempts"], completion.failed_attempts or []),
            "speed": 1_000 * tokens / streamed_ms if streamed_ms else None,
        }

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Completion], search_term: str
    ) -> tuple[QuerySet[Completion], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        accounts = search.account_ids(term)
        return queryset.filter(Q(pk=term) | Q(request_id=term) | Q(key=term) | Q(account__in=accounts)), False

    short_id = column("ID", lambda completion: short_ids.shorten(completion.pk))
    cost = column("cost", lambda each: "" if each.cost_nanos is None else usd(each.cost_nanos, list_values.decimals_of(each)))
    at = column("when", lambda completion: list_values.moment(completion.created_at))
    of_account = column("account", lambda completion: list_values.link(completion.account))
    of_key = column("key", lambda completion: list_values.link(completion.key, completion.key.name))
    of_model = column("model", lambda completion: str(completion.model_id))

    @admin.display(description="Status")
    def status(self, completion: Completion) -> str:
        status = explanation.status_of(completion)
        return format_html(
            '<span class="support-state {}" title="{}">{}</span>', status.kind, completion.settlement or "", status.words
        )

    @admin.display(description="Tokens in / out")
    def tokens(self, completion: Completion) -> str:
        if completion.prompt_tokens is None:
            return ""
        return f"{completion.prompt_tokens:,} / {completion.completion_tokens:,}"


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
