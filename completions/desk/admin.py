"""The part of completions in the support pages of accounts and keys.

An account gets its monthly statements; a key the requests that failed at providers, and the trial of a request.
``billing`` and ``keys`` do not import completions, so completions extend their pages here.
"""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse

from billing import admin as billing_admin
from billing.models import Account
from completions import estimates
from completions.charging import trial
from completions.history import monthly_statement
from completions.models import Completion
from completions.request import schema
from gateway_project.text import number_fields
from keys import admin as keys_admin
from keys.models import ApiKey

FAILED_SHOWN = 10


class TrialForm(forms.Form):
    """A request to try. It is sent by GET: it changes nothing, and its address can be passed on."""

    model = forms.CharField(max_length=schema.MODEL_CHARACTERS_MAX, help_text="A model ID or an alias, as the caller sends it.")
    max_tokens = number_fields.IntegerField(required=False, min_value=1, help_text="Leave empty if the caller sends none.")
    prompt_tokens = number_fields.IntegerField(
        label="Input tokens", min_value=1, help_text="Estimated at four bytes per token."
    )

    def clean_prompt_tokens(self) -> int:
        tokens: int = self.cleaned_data["prompt_tokens"]
        most = settings.REQUEST_BYTES_MAX // estimates.BYTES_PER_TOKEN
        if tokens > most:
            raise forms.ValidationError(f"A body may have {most:,} tokens at most.")
        return tokens


admin.site.unregister([Account, ApiKey])


@admin.register(Account)
class AccountAdmin(billing_admin.AccountAdmin):
    own_pages = {**billing_admin.AccountAdmin.own_pages, "<path:object_id>/months/<int:year>/<int:month>/": "month"}

    def month_view(self, request: HttpRequest, object_id: str, year: int, month: int) -> HttpResponse:
        """Show the statement of a month with the figures that the account's members see."""
        account = self.object_for(request, object_id, "billing.view_ledgerentry")
        context = monthly_statement.read(account, year, month)
        title = f"Statement of {context['month']:%B %Y}"
        return self.show_action(request, "admin/billing/account/month.html", title, account, **context)


@admin.register(ApiKey)
class ApiKeyAdmin(keys_admin.ApiKeyAdmin):
    own_pages = {"<path:object_id>/trial/": "trial"}

    def panels(self, request: HttpRequest, key: Any) -> dict[str, Any]:
        failed = key.completions.filter(failed_attempts__isnull=False).exclude(failed_attempts=[]).order_by("-id")
        return {
            **super().panels(request, key),
            "failed": [{"completion": each, "attempts": describe_failures(each)} for each in failed[:FAILED_SHOWN]],
        }

    def trial_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Say whether a request would be served now. Nothing is written or counted."""
        key = self.object_for(request, object_id, "keys.view_apikey")
        form = TrialForm(request.GET if request.GET else None, initial={"prompt_tokens": 10})
        context: dict[str, Any] = {"form": form}
        if request.GET and form.is_valid():
            given = form.cleaned_data
            try:
                context["trial"] = trial.try_request(key, given.pop("model"), **given)
            except OperationalError:
                context["is_locked"] = True
        return self.show_action(request, "admin/keys/apikey/trial.html", "Test a request", key, **context)


def describe_failures(completion: Completion) -> list[str]:
    """Return each failed attempt in words: "acme: 503, overloaded"."""
    return [
        f"{failed['provider']}: {failed['status'] or 'no status'}, {failed['reason'] or 'its reason was for the caller only'}"
        for failed in completion.failed_attempts or []
    ]
