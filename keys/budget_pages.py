"""/dashboard/budgets/: the monthly budgets of an account, its keys with a tag, or a member's keys; create, change, delete."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import FilteredRelation, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from billing import money
from billing.accounts.member_pages import form_page, plain_page
from billing.accounts.roles import Permission
from billing.forms import DollarsField
from billing.models import Account, User
from billing.sign_in.reauthentication import reauthenticates
from gateway_project import errors
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from gateway_project.text import dollars
from keys.budgets import monthly
from keys.models import TAG_CHARACTERS_MAX, Budget

_SCOPES = [
    (Budget.Scope.ACCOUNT.value, "The whole account"),
    (Budget.Scope.TAG.value, "Keys with a tag"),
    (Budget.Scope.MEMBER.value, "Keys that a member created"),
]
_ACTIONS = [
    (Budget.Action.STOP.value, "Refuse requests until the next month"),
    (Budget.Action.WARN.value, "Only send an alert"),
]


class BudgetForm(forms.Form):
    """How much may be spent in a month, and what happens then."""

    amount = DollarsField(label="Amount per month in US dollars", min_cents=1, help_text="For example, 50 or 12.50.")
    action = forms.ChoiceField(label="When it is spent", choices=_ACTIONS, widget=forms.RadioSelect, initial=_ACTIONS[0][0])


class NewBudgetForm(BudgetForm):
    """With what it is a budget of: each has one at most."""

    field_order = ("scope", "tag", "member", "amount", "action")

    scope = forms.ChoiceField(label="Budget of", choices=_SCOPES, widget=forms.RadioSelect, initial=_SCOPES[0][0])
    tag = forms.CharField(required=False, max_length=TAG_CHARACTERS_MAX, help_text="A tag that keys have, such as “web”.")
    member = forms.ModelChoiceField(User.objects.none(), required=False, empty_label="Choose a member")

    def __init__(self, account: Account, *args: Any) -> None:
        super().__init__(*args)
        self.account = account
        self.fields["member"].queryset = account.members.order_by("email")  # type: ignore[attr-defined]

    def clean(self) -> None:
        given = self.cleaned_data
        if given.get("scope") == Budget.Scope.TAG and not self.account.keys.filter(tags__contains=[given.get("tag")]).exists():
            self.add_error("tag", "No key has this tag. Add it to a key first." if given.get("tag") else "Enter the tag.")
        if given.get("scope") == Budget.Scope.MEMBER and not given.get("member"):
            self.add_error("member", "Choose the member.")
        if not self.errors and in_force(self.account).filter(**self.place).exists():
            self.add_error("scope", "This has a budget already. Change that one instead.")

    @property
    def place(self) -> dict[str, Any]:
        given, scope = self.cleaned_data, self.cleaned_data["scope"]
        tag = given["tag"] if scope == Budget.Scope.TAG else ""
        return {"scope": scope, "tag": tag, "member": given["member"] if scope == Budget.Scope.MEMBER else None}


def in_force(account: Account) -> QuerySet[Budget]:
    return Budget.objects.filter(account=account, ended_at=None).select_related("member").order_by("pk")


def summarize(account: Account, now: datetime) -> list[dict[str, Any]]:
    """Return the budgets in force with what was spent of each in this month, in two queries at most."""
    month = now.astimezone(UTC).date().replace(day=1)
    current = FilteredRelation("months", condition=Q(months__month=month))
    columns = ("current__spent_nanos", "current__held_nanos")
    counted = in_force(account).annotate(current=current)
    sums = {pk: (spent or 0, held or 0) for pk, spent, held in counted.values_list("pk", *columns)}
    return [_summary(budget, *sums.get(budget.pk, (0, 0)), monthly.resets_at(month)) for budget in counted]


def _summary(budget: Budget, spent_nanos: int, held_nanos: int, resets: datetime) -> dict[str, Any]:
    amount_nanos = money.nanos(budget.amount_cents)
    return {
        "budget": budget,
        "place": describe_place(budget),
        "stops": budget.action == Budget.Action.STOP,
        "spent_nanos": spent_nanos,
        "held_nanos": held_nanos,
        "amount_nanos": amount_nanos,
        "percent": spent_nanos * 100 // amount_nanos,
        "is_spent": spent_nanos >= amount_nanos,
        "resets": resets,
    }


def describe_place(budget: Budget) -> str:
    """Return what it is a budget of, as the beginning of a sentence."""
    match budget.scope:
        case Budget.Scope.TAG:
            return f"Keys with the tag {budget.tag}"
        case Budget.Scope.MEMBER:
            return f"Keys of {budget.member}"
    return "The whole account"


@plain_page()
def list_budgets(request: HttpRequest, account: Account) -> HttpResponse:
    """List the budgets in force, with what was spent of them in this month."""
    return render(request, "budgets/list.html", {"budgets": summarize(account, pool.database_time())})


@form_page(Permission.MANAGE_KEYS)
@reauthenticates
def new_budget(request: HttpRequest, account: Account) -> HttpResponse:
    """Create a budget."""
    form = NewBudgetForm(account, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            return _set(request, account, form, **form.place)
        except errors.MaximumReached as refusal:
            form.add_error(None, refusal.message)
    return render(request, "budgets/form.html", {"form": form, "place": ""})


@form_page(Permission.MANAGE_KEYS)
@reauthenticates
def change_budget(request: HttpRequest, account: Account, budget_id: str) -> HttpResponse:
    """Change the amount of a budget, or what happens when it is spent."""
    budget = get_object_or_404(in_force(account), pk=budget_id)
    initial = {"amount": budget.amount_cents, "action": budget.action}
    form = BudgetForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        return _set(request, account, form, scope=budget.scope, tag=budget.tag, member=budget.member)
    return render(request, "budgets/form.html", {"form": form, "place": describe_place(budget)})


def _set(request: HttpRequest, account: Account, form: BudgetForm, **place: Any) -> HttpResponse:
    given = form.cleaned_data
    with transaction.atomic():
        before: Any = in_force(account).filter(**place).values("amount_cents", "action").first()
        budget = monthly.set_budget(account, amount_cents=given["amount"], action=given["action"], **place)
        after = {"amount_cents": budget.amount_cents, "action": budget.action}
        end = "requests are refused" if budget.action == Budget.Action.STOP else "members get an alert"
        amount = dollars.format_cents(budget.amount_cents)
        summary = f"{describe_place(budget)} can spend {amount} per month. When it is spent, {end}."
        log.record(request, Activity.Act.BUDGET_SET, budget, summary, before=before, after=after)
    messages.success(request, summary)
    return redirect("budgets")


@form_page(Permission.MANAGE_KEYS)
@reauthenticates
def delete_budget(request: HttpRequest, account: Account, budget_id: str) -> HttpResponse:
    """Ask first; a POST ends the budget. A second one finds none."""
    budget = get_object_or_404(in_force(account), pk=budget_id)
    if request.method == "POST":
        with transaction.atomic():
            monthly.end_budget(budget)
            summary = f"Deleted the monthly budget. {describe_place(budget)}: {dollars.format_cents(budget.amount_cents)}."
            log.record(request, Activity.Act.BUDGET_DELETED, budget, summary)
        messages.success(request, "The budget is deleted. Nothing counts on it from the next request on.")
        return redirect("budgets")
    return render(request, "budgets/delete.html", {"budget": budget, "place": describe_place(budget)})
