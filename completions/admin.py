"""Admin pages of completions. Importing the catalog's admin modules registers their pages."""

from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe

from billing.models import Account
from completions.catalog import admin as catalog_admin  # noqa: F401  registers its pages
from completions.catalog.sync import admin as proposals_admin  # noqa: F401  registers its pages
from completions.key_admin import describe_failures
from completions.models import Completion, CompletionHour, IdempotentRequest
from gateway_project import dollars
from gateway_project.activity.admin_pages import ReadOnlyAdmin


@admin.register(Completion)
class CompletionAdmin(ReadOnlyAdmin):
    list_display = ("id", "account", "key", "model", "state", "prompt_tokens", "completion_tokens", "cost", "created_at")
    list_select_related = ("account", "key", "model")
    list_filter = ("settlement", "is_stream", "created_at", "model")
    search_fields = ("id",)
    search_help_text = (
        "The whole id of a completion, a request, an account or a key; or an account's name, or a member's e-mail address."
    )
    ordering = ("-id",)  # ids sort by time, and the primary key is an index
    fields = (
        *(
            "id",
            "request_id",
            "provider_request_id",
            "account",
            "key",
            "model",
            "provider",
            "attempts",
            "failures",
            "price_used",
            "is_stream",
            "state",
        ),
        *("prompt_tokens", "cached_tokens", "cache_write_tokens", "images", "completion_tokens", "cost"),
        *("first_token_ms", "streamed_ms", "spending_day", "created_at", "finished_at"),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Completion], search_term: str
    ) -> tuple[QuerySet[Completion], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        accounts = Account.objects.filter(_account(term))
        return queryset.filter(Q(pk=term) | Q(request_id=term) | Q(key=term) | Q(account__in=accounts)), False

    @admin.display(description="Settlement", ordering="settlement")
    def state(self, completion: Completion) -> str:
        return completion.get_settlement_display() if completion.settlement else "running"

    @admin.display(description="Failed attempts")
    def failures(self, completion: Completion) -> str:
        return format_html_join(mark_safe("<br>"), "{}", ((each,) for each in describe_failures(completion))) or "none"

    @admin.display(description="Cost, $")
    def cost(self, completion: Completion) -> str:
        return "" if completion.cost_nanos is None else dollars.format_plain(completion.cost_nanos)

    @admin.display(description="Price, $ per million")
    def price_used(self, completion: Completion) -> str:
        price = completion.price
        return f"{dollars.format_plain(price.input_nanos)} in, {dollars.format_plain(price.output_nanos)} out"


def _account(term: str) -> Q:
    named = Q(name__iexact=term) | Q(members__email=term.lower())
    try:
        return named | Q(pk=UUID(term))
    except ValueError:
        return named


@admin.register(CompletionHour)
class CompletionHourAdmin(ReadOnlyAdmin):
    list_display = ("hour", "completions", "cost", "first_token_p50_ms", "first_token_p99_ms")
    fields = list_display
    ordering = ("-hour",)

    @admin.display(description="cost")
    def cost(self, hour: CompletionHour) -> str:
        return dollars.format_usd(hour.cost_nanos)


@admin.register(IdempotentRequest)
class IdempotentRequestAdmin(ReadOnlyAdmin):
    """Idempotency keys of callers. The stored reply is encrypted and not shown."""

    list_display = ("key", "account", "completion", "is_stream", "is_kept", "is_too_large", "expires_at")
    list_select_related = ("account", "completion")
    search_fields = ("key", "completion__id")
    ordering = ("-id",)
    fields = ("key", "account", "completion", "fingerprint", "is_stream", "is_kept", "is_too_large", "expires_at")

    @admin.display(boolean=True, description="reply kept")
    def is_kept(self, request: IdempotentRequest) -> bool:
        return request.sealed_reply is not None
