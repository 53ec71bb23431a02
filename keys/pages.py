"""The dashboard: an account's balance, spending and keys. Only its members open them; their role decides what they change.

Management keys, with which programs manage keys at /api/keys, are made and revoked by owners.
"""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import Count, F, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import pluralize

from billing import locks as account_locks
from billing.accounts.member_pages import act_page, form_page, page_of, plain_page
from billing.accounts.roles import Permission
from billing.ledger import reading, statement
from billing.models import Account
from billing.sign_in.reauthentication import reauthenticates
from gateway_project import errors
from gateway_project.db import pool
from gateway_project.web import hosts
from keys import acts, lifetimes, secret, summaries
from keys.forms import NEEDS_ATTENTION, KeyForm, KeyListForm, LifetimeForm, ManagementKeyForm
from keys.models import ApiKey, ManagementKey, SpendingDay

LATEST_ENTRIES = 5
LATEST_KEYS = 5
KEYS_PER_PAGE = 50


@plain_page()
def overview(request: HttpRequest, account: Account) -> HttpResponse:
    """Show the balance, the latest ledger entries and keys, and thirty days of spending."""
    now = pool.database_time()
    idle = Q(pk__in=summaries.find_needing_attention(account, now)["idle"].values("pk"))
    keys = summaries.keys_newest_first(account).filter(revoked_at=None).annotate(is_idle=idle)
    chart = summaries.build_chart(account, now.date())
    context = {
        "was_used": chart is not None or SpendingDay.objects.filter(key__account=account, completions__gt=0).exists(),
        "lasts": summaries.describe_pace(account, chart),
        "funds": statement.show_funds(account),
        "is_empty": account.available_nanos <= 0,
        "is_new": account.last_seq == 0,
        "rows": [statement.format_entry(entry) for entry in reading.read_page(account, limit=LATEST_ENTRIES, offset=0)],
        "keys": summaries.summarize_keys(keys[:LATEST_KEYS], now),
        "keys_count": keys.count(),
        "chart": chart,
        "api_url": hosts.api_url(request),
    }
    return render(request, "dashboard/overview.html", context)


@plain_page()
def key_list(request: HttpRequest, account: Account) -> HttpResponse:
    """List the keys that the filters select: keys in use before revoked ones, newest first, or by what they spent recently."""
    now, form = pool.database_time(), KeyListForm(request.GET)
    context: dict[str, Any] = {"form": form, "is_filtered": any(request.GET.get(name) for name in form.fields)}
    if not form.is_valid():
        return render(request, "dashboard/keys.html", {**context, "keys": []}, status=400)
    given = form.cleaned_data
    spent_until = now.date() if given["sort"] == KeyListForm.MOST_SPENT else None
    keys = summaries.select_keys(account, search=given["search"], tag=given["tag"], spent_until=spent_until)
    attention = summaries.find_needing_attention(account, now)
    if given["only"]:
        keys = keys.filter(pk__in=attention[given["only"]].values("pk"))
    filters = {name: Q(pk__in=found.values("pk")) for name, found in attention.items()}
    counts = account.keys.aggregate(**{name: Count("pk", filter=wanted) for name, wanted in filters.items()})
    keys = keys.annotate(is_idle=filters["idle"])
    context["attention"] = [(name, counts[name], words) for name, words in NEEDS_ATTENTION.items() if counts[name]]
    context["lifetime_days"] = account.key_lifetime_days_max
    page = page_of(request, keys, KEYS_PER_PAGE)
    context |= {"keys": summaries.summarize_keys(page.object_list, now), "page": page, "api_url": hosts.api_url(request)}
    return render(request, "dashboard/keys.html", context)


@form_page(Permission.MANAGE_KEYS)
@reauthenticates
def new_key(request: HttpRequest, account: Account) -> HttpResponse:
    """Make a key."""

    def make(form: KeyForm) -> tuple[ApiKey, str]:
        return acts.make_key(request, account, created_by=request.user, **form.new_key)

    return _make(request, account, KeyForm, make, page="keys", name="key", api_url=hosts.api_url(request))


def _make(
    request: HttpRequest, account: Account, form_class: Any, make: Callable[[Any], Any], page: str, name: str, **shown: str
) -> HttpResponse:
    """Make a key of either kind by a form. ``page`` is their list, ``name`` begins the names of its templates.

    The secret is shown only in the reply to the POST: it is in no URL, cookie or session.
    """
    if not account.is_active:
        messages.error(request, acts.AccountClosed.message)
        return redirect(page)
    form, made = form_class(account), None
    if request.method == "POST":
        with transaction.atomic():
            account_locks.lock_account(account.pk)  # against a double click
            form = form_class(account, request.POST)
            try:
                made = make(form) if form.is_valid() else None
            except (errors.MaximumReached, acts.AccountClosed) as refusal:
                form.add_error(None, refusal.message)
            except lifetimes.ExpiresTooLate as refusal:
                form.add_error("last_day", str(refusal))
    if made is None:
        return render(request, f"dashboard/{name}_new.html", {"form": form})
    key, minted = made
    return render(request, f"dashboard/{name}_made.html", {"name": key.name, "secret": minted, **shown})


@form_page(Permission.SEE_SETTINGS)
@reauthenticates
def set_lifetime(request: HttpRequest, account: Account) -> HttpResponse:
    """Set the maximum lifetime of the account's keys, and show which existing ones it would end."""
    form = LifetimeForm(request.POST if request.method == "POST" else None, initial={"days": account.key_lifetime_days_max})
    if request.method == "POST" and form.is_valid():
        acts.set_lifetime(request, account, form.cleaned_data["days"])
        messages.success(request, "Maximum lifetime saved. It applies to new keys and new secrets.")
        return redirect("key-lifetime")
    keys = lifetimes.find_outliving(account)
    context = {"form": form, "keys": keys.order_by("new_expiry", "pk")[:KEYS_PER_PAGE], "count": keys.count()}
    return render(request, "dashboard/key_lifetime.html", {**context, "notice_days": lifetimes.NOTICE.days})


@act_page(Permission.SEE_SETTINGS)
@reauthenticates
def apply_lifetime(request: HttpRequest, account: Account) -> HttpResponse:
    """Let existing keys end within the maximum lifetime."""
    number = acts.apply_lifetime(request, account)
    messages.success(request, f"{number} key{pluralize(number)} now end{pluralize(number, 's,')} within the maximum lifetime.")
    return redirect("keys")


@plain_page()
def list_management_keys(request: HttpRequest, account: Account) -> HttpResponse:
    """List the management keys: those in use first, each newest first."""
    keys = account.management_keys.order_by(F("revoked_at").desc(nulls_first=True), "-id")
    page = page_of(request, keys, KEYS_PER_PAGE)
    context = {"keys": [_describe(key) for key in page], "page": page, "address": _address(request)}
    return render(request, "dashboard/management_keys.html", context)


@form_page(Permission.MANAGE_BY_PROGRAM)
@reauthenticates
def new_management_key(request: HttpRequest, account: Account) -> HttpResponse:
    """Make a management key."""

    def make(form: ManagementKeyForm) -> tuple[ManagementKey, str]:
        return acts.make_management_key(request, account, form.cleaned_data["name"])

    names = {"page": "management-keys", "name": "management_key"}
    return _make(request, account, ManagementKeyForm, make, **names, address=_address(request))


@form_page(Permission.MANAGE_BY_PROGRAM)
def revoke_management_key(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
    """Show a confirmation; a POST revokes the management key. Revoking twice changes nothing."""
    key = get_object_or_404(account.management_keys, pk=key_id)
    if request.method == "POST":
        acts.revoke_management_key(request, key)
        messages.success(request, f"{key.name} is revoked. Requests with it are now refused. Its keys keep working.")
        return redirect("management-keys")
    return render(request, "dashboard/management_key_revoke.html", {"key": _describe(key)})


def _describe(key: ManagementKey) -> dict[str, object]:
    columns = ("id", "name", "created_at", "last_used_at", "revoked_at")
    hint = f"{secret.MANAGEMENT_PREFIX}…{key.last_four}"
    return {"hint": hint, **{name: getattr(key, name) for name in columns}}


def _address(request: HttpRequest) -> str:
    return f"{hosts.base_url(request)}/api/keys"
