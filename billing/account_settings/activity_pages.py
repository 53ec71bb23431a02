"""/dashboard/settings/activity/: what was done to the account, with filters, and the CSV file of exactly what is filtered."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_safe

from billing.account_settings import activity
from billing.account_settings.activity import ActFilter, Doer
from billing.accounts.list_forms import ListForm
from billing.accounts.member_pages import member_page_for
from billing.accounts.roles import Permission
from billing.models import Account
from gateway_project.activity.models import Activity
from gateway_project.db import newest_first
from gateway_project.text import number_fields
from gateway_project.web import downloads

ACTS_PER_PAGE = 50
_ACTS = [("", "All")] + [(act.value, f"{act.label[:1].upper()}{act.label[1:]}") for act in Activity.Act]
_DOERS = [("", "Everyone")] + [(doer.name, doer.value) for doer in Doer]
_KEY_MAX = 2**63 - 1


class ActivityForm(ListForm):
    act = forms.ChoiceField(required=False, choices=_ACTS, label="What")
    by = forms.ChoiceField(required=False, choices=_DOERS, label="Who")
    older = number_fields.IntegerField(required=False, min_value=1, max_value=_KEY_MAX, widget=forms.HiddenInput)
    newer = number_fields.IntegerField(required=False, min_value=0, max_value=_KEY_MAX - 1, widget=forms.HiddenInput)
    field_order = ("act", "by", "since", "until")

    @property
    def act_filter(self) -> ActFilter:
        by = self.cleaned_data["by"]
        return ActFilter(self.cleaned_data["act"] or None, Doer[by] if by else None, self.begin, self.end)


@require_safe
@member_page_for(Permission.SEE_SETTINGS)
def show_activity(request: HttpRequest, account: Account) -> HttpResponse:
    form = ActivityForm(request.GET)
    context: dict[str, Any] = {"form": form, "is_filtered": bool(form.filters)}
    if not form.is_valid():
        return render(request, "settings/activity.html", context, status=400)
    acts, given = activity.find(account, form.act_filter), form.cleaned_data
    page = newest_first.read_page(acts, ACTS_PER_PAGE, newer_than=given["newer"], older_than=given["older"])
    context |= {
        **form.places(page.newer, page.older),
        "rows": activity.describe(account, page.rows),
        "csv_query": form.address() if form.filters else "",
    }
    return render(request, "settings/activity.html", context)


@require_GET
@member_page_for(Permission.SEE_SETTINGS)
def download_activity(request: HttpRequest, account: Account) -> HttpResponseBase:
    form = ActivityForm(request.GET)
    if not form.is_valid():
        raise form.refusal()
    parts = activity.csv_parts(account, form.act_filter)
    file = {"filename": "activity.csv", "content_type": "text/csv"}
    return downloads.respond(parts, **file, downloader=f"user {request.user.pk}", subject="the activity")
