"""/dashboard/runs/: the runs of an account, newest first, and what one run spent, holds and may still spend."""

from datetime import datetime
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from billing.accounts.list_forms import spender_field
from billing.accounts.member_pages import page_of, plain_page
from billing.models import Account
from completions.usage.runs import by_model
from gateway_project.db import pool
from keys.models import Run

RUNS_PER_PAGE = 50
MODELS_SHOWN = 20


class RunListForm(forms.Form):
    """The filters of the list. It is sent by GET."""

    key = forms.ChoiceField(required=False)
    search = forms.CharField(
        label="Begins with",
        required=False,
        max_length=Run.NAME_CHARACTERS_MAX,
        widget=forms.TextInput(attrs={"placeholder": "ID of the run", "autocapitalize": "none", "spellcheck": "false"}),
    )

    def __init__(self, account: Account, data: Any) -> None:
        super().__init__(data)
        self.fields["key"] = spender_field(account)

    def select(self, account: Account) -> QuerySet[Run]:
        wanted = {"key": self.cleaned_data["key"], "name__startswith": self.cleaned_data["search"]}
        runs = Run.objects.filter(key__account=account).select_related("key")
        # By the time, which has no index: one over the runs of all accounts would be read to its end for an account with few.
        return runs.filter(**{name: value for name, value in wanted.items() if value}).order_by("-created_at", "-pk")


@plain_page()
def list_runs(request: HttpRequest, account: Account) -> HttpResponse:
    """List the runs that the filters select."""
    form, now = RunListForm(account, request.GET), pool.database_time()
    context: dict[str, Any] = {"form": form, "is_filtered": any(request.GET.get(name) for name in form.fields), "runs": []}
    if not form.is_valid():
        return render(request, "runs/list.html", context, status=400)
    page = page_of(request, form.select(account), RUNS_PER_PAGE)
    context |= {"page": page, "runs": [describe(run, now) for run in page]}
    return render(request, "runs/list.html", context)


@plain_page()
def show_run(request: HttpRequest, account: Account, key_id: str, name: str) -> HttpResponse:
    """Show what the run spent, holds and has left, and what each model cost it."""
    run = get_object_or_404(Run.objects.select_related("key"), key=key_id, key__account=account, name=name)
    parts = [("Spent", run.spent_nanos), ("Held by running requests", run.held_nanos), ("Left", run.left_nanos)]
    context = {
        **describe(run, pool.database_time()),
        "parts": [{"name": name, "nanos": nanos} for name, nanos in parts],  # they add up to the budget
        "models": by_model(run)[:MODELS_SHOWN],
    }
    return render(request, "runs/run.html", context)


def describe(run: Run, now: datetime) -> dict[str, Any]:
    """Return a run, its state in words with their CSS class, and the percent of its budget that is spent, rounded down."""
    return {
        "run": run,
        "state": _state(run, now),
        "percent": run.spent_nanos * 100 // run.budget_nanos,
        "has_passed": run.deadline is not None and run.deadline <= now,
    }


def _state(run: Run, now: datetime) -> tuple[str, str]:
    if run.held_nanos:
        return "Running", "active"
    if run.spent_nanos >= run.budget_nanos:
        return "Spent", "revoked"
    return ("Ended", "off") if run.deadline and run.deadline <= now else ("Open", "waiting")
