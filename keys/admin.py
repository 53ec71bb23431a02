"""The support pages of keys: set or clear a spending limit and rates, revoke."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.forms import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path

from billing import locks as account_locks
from billing.desk import search
from gateway_project.activity.admin_pages import ReadOnlyAdmin
from gateway_project.activity.keyset import NewestFirstAdmin
from gateway_project.activity.list_values import column, decimals_of
from gateway_project.desk.forms import act_once
from gateway_project.templatetags.amounts import usd
from gateway_project.text import timestamps
from keys import locks, rotation, secret, summaries
from keys.desk.forms import ACTS, KeyAct, RevokeForm
from keys.models import ApiKey, FormerSecret, ManagementKey, ManagementReply, RefusalCount, RefusedRequest, SpendingDay
from keys.refusal_history import summaries as refusal_summaries


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    change_form_template = "admin/keys/apikey/change_form.html"
    list_display = ("name", "hint", "account", "state", "limit", "created_at", "expires_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter), ("paused_at", admin.EmptyFieldListFilter), "spending_type")
    list_select_related = ("account",)
    search_fields = ("name", "id__exact", "last_four__exact")
    search_help_text = (
        "A member's email address, the account's or key's name, the key's ID, or the last four characters of its secret."
    )
    # The digest is not shown; what the page leads with is not told twice.
    fields = (
        *("limit", "rates", "allowed_models", "data_policy", "data_regions", "tags", "hint", "former", "id"),
        *("created_by", "created_at", "paused_at", "revoked_at"),
        *("requests_per_minute", "tokens_per_minute", "requests_in_flight_max"),
    )
    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        queryset: QuerySet[ApiKey] = super().get_queryset(request).annotate(now=Now())  # one time for the whole list
        return queryset

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ApiKey], search_term: str
    ) -> tuple[QuerySet[ApiKey], bool]:
        """Find the keys of accounts that the term finds, too."""
        found, may_have_duplicates = super().get_search_results(request, queryset, search_term)
        return found | queryset.filter(account__in=search.account_ids(search_term)), may_have_duplicates

    hint = column("secret", summaries.mask_secret)
    state = column("state", lambda key: summaries.describe_state(key, key.now))
    limit = column("spending limit", lambda key: summaries.describe_limit_of(key, key.now))
    rates = column("limits in force (key, account, deployment)", summaries.describe_rates)

    @admin.display(description="former secrets")
    def former(self, key: Any) -> str:
        former = key.former_secrets.order_by("-rotated_at", "-id")[: rotation.WORKING_MAX]
        words = [f"{summaries.mask(each.last_four)} until {timestamps.in_words(each.ends_at)}" for each in former]
        return ", ".join(words) or "none"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.act_view)
        acts = [path(f"<path:object_id>/{act.name}/", view, {"act": act}, f"keys_apikey_{act.name}") for act in ACTS]
        return [*acts, *super().get_urls()]

    def panels(self, request: HttpRequest, key: Any) -> dict[str, Any]:
        latest = [
            {"words": refusal_summaries.describe_error(refused.error), **model_to_dict(refused)}
            for refused in refusal_summaries.read_latest(key)
        ]
        chart, [summary] = refusal_summaries.build_chart(key, key.now), summaries.summarize_keys([key], key.now)
        return {"summary": summary, "refused": latest, "chart": chart, "history_days": settings.RETENTION_REFUSAL_DAYS}

    def act_view(self, request: HttpRequest, object_id: str, act: type[KeyAct]) -> HttpResponse:
        """Show the form; a POST acts by it, once, with the key locked. A revoked key can only be revoked again."""
        key = self.object_for(request, object_id, act.permission)
        if key.revoked_at is not None and act is not RevokeForm:
            raise Http404
        form, is_done = act(key), False
        if request.method == "POST":
            with transaction.atomic():
                account_locks.lock_account(key.account_id)
                form = act(locks.lock_key(key.pk), request.POST)
                is_done = act_once(request, form, lambda: form.perform(request))
        if is_done:
            return self.back_to(key)
        context = {"form": form, "limit": self.limit(key), "rates": self.rates(key)}
        return self.show_action(request, f"admin/keys/apikey/{act.name}.html", act.title, key, **context)


@admin.register(FormerSecret)
class FormerSecretAdmin(NewestFirstAdmin):
    list_display = fields = ("hint", "key", "rotated_at", "ends_at")
    list_select_related = ("key",)
    search_fields = ("key__id__exact", "last_four__exact")
    search_help_text = "The key's ID or the last four characters of the secret."
    hint = column("secret", lambda former: summaries.mask(former.last_four))


@admin.register(ManagementKey)
class ManagementKeyAdmin(ReadOnlyAdmin):
    list_display = ("name", "hint", "account", "created_at", "last_used_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    list_select_related = ("account",)
    search_fields = ("name", "id__exact", "last_four__exact", "account__id__exact")
    search_help_text = "The name, ID, last four characters of the secret, or the account's ID."
    fields = ("name", "id", "hint", "account", "created_by", "created_at", "last_used_at", "revoked_at")
    ordering = ("-id",)
    hint = column("secret", lambda key: f"{secret.MANAGEMENT_PREFIX}…{key.last_four}")


@admin.register(ManagementReply)
class ManagementReplyAdmin(NewestFirstAdmin):
    list_display = fields = ("at", "management_key", "idempotency_key", "status")  # not the reply, which may have a secret
    list_select_related = ("management_key",)
    search_fields = ("management_key__id__exact",)
    search_help_text = "The management key's ID."


@admin.register(SpendingDay)
class SpendingDayAdmin(NewestFirstAdmin):
    list_display = ("day", "key", "spent", "held", "completions", "prompt_tokens", "completion_tokens")
    amounts = ("spent_nanos", "held_nanos")
    list_select_related = ("key",)
    fields = ("key", "day", "spent", "held", "completions", "prompt_tokens", "completion_tokens")
    search_fields = ("key__id__exact", "key__name")
    search_help_text = "The key's ID or name."
    spent = column("spent", lambda day: usd(day.spent_nanos, decimals_of(day)))
    held = column("held", lambda day: usd(day.held_nanos, decimals_of(day)))


@admin.register(RefusalCount)
class RefusalCountAdmin(NewestFirstAdmin):
    list_display = fields = ("hour", "key", "status", "code", "reason", "number")
    list_select_related = ("key",)
    search_fields = ("key__id__exact",)
    search_help_text = "The key's ID."
    reason = column("reason", lambda count: refusal_summaries.describe_error(count.error))


@admin.register(RefusedRequest)
class RefusedRequestAdmin(NewestFirstAdmin):
    list_display = ("at", "key", "status", "code", "reason", "model", "request_id")
    list_select_related = ("key",)
    fields = ("at", "key", "status", "code", "reason", "message", "model", "request_id")
    search_fields = ("request_id__exact", "key__id__exact")
    search_help_text = "The ID of the request or the key."
    reason = column("reason", lambda refused: refusal_summaries.describe_error(refused.error))
