"""The dashboard: an account's balance, spending and keys. Only its members open them; their role decides what they change."""

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from billing import locks as account_locks
from billing.accounts.member_pages import Pager, member_page, member_page_for
from billing.accounts.roles import Permission
from billing.ledger import reading, statement
from billing.models import Account
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.db import pool
from gateway_project.web import hosts
from keys import acts, summaries
from keys.forms import KeyForm, KeyListForm, LimitForm
from keys.models import SpendingDay

LATEST_ENTRIES = 5
LATEST_KEYS = 5
KEYS_PER_PAGE = 50


@require_safe
@member_page
def overview(request: HttpRequest, account: Account) -> HttpResponse:
    """Show the balance, the latest ledger entries and keys, and thirty days of spending."""
    now = pool.database_time()
    keys = summaries.keys_newest_first(account).filter(revoked_at=None)
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


@require_safe
@member_page
def key_list(request: HttpRequest, account: Account) -> HttpResponse:
    """List the keys that the filters select: keys in use before revoked ones, newest first, or by what they spent recently."""
    now, form = pool.database_time(), KeyListForm(request.GET)
    context: dict[str, Any] = {"form": form, "is_filtered": any(request.GET.get(name) for name in form.fields)}
    if not form.is_valid():
        return render(request, "dashboard/keys.html", {**context, "keys": [], "pager": Pager(1, 0, KEYS_PER_PAGE)}, status=400)
    given = form.cleaned_data
    spent_until = now.date() if form.is_by_spending else None
    keys = summaries.select_keys(account, search=given["search"], tag=given["tag"], spent_until=spent_until)
    pager = Pager.of(request, count=keys.count(), per_page=KEYS_PER_PAGE)
    page = keys[pager.offset : pager.offset + KEYS_PER_PAGE]
    context |= {"keys": summaries.summarize_keys(page, now), "pager": pager, "api_url": hosts.api_url(request)}
    return render(request, "dashboard/keys.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@member_page_for(Permission.MANAGE_KEYS)
@reauthenticates
def new_key(request: HttpRequest, account: Account) -> HttpResponse:
    """Make a key. Its secret is shown only in the reply to the POST: it is in no URL, cookie or session."""
    if not account.is_active:
        messages.error(request, str(acts.AccountClosed()))
        return redirect("keys")
    if request.method != "POST":
        return render(request, "dashboard/key_new.html", {"form": KeyForm(account)})
    with transaction.atomic():
        account_locks.lock_account(account.pk)
        form = KeyForm(account, request.POST)
        if form.is_valid():
            with acts.refusals_in(form):
                key, secret = acts.make_key(request, account, created_by=request.user, **form.new_key)
    if not form.is_valid():
        return render(request, "dashboard/key_new.html", {"form": form})
    context = {"name": key.name, "secret": secret, "api_url": hosts.api_url(request)}
    return render(request, "dashboard/key_made.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@member_page_for(Permission.MANAGE_KEYS)
@reauthenticates
def limit_key(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
    """Set, change or clear a key's spending limit."""
    key = get_object_or_404(account.keys, pk=key_id, revoked_at=None)
    form = LimitForm(request.POST if request.method == "POST" else None, initial=LimitForm.initial_of(key))
    if request.method == "POST" and form.is_valid():
        acts.set_spending_limit(request, key, form.limit)
        messages.success(request, f"The spending limit of {key.name} is now: {form.limit}.")
        return redirect("keys")
    [summary] = summaries.summarize_keys([key], pool.database_time())
    return render(request, "dashboard/key_limit.html", {"form": form, "key": summary})


@require_http_methods(["GET", "HEAD", "POST"])
@member_page_for(Permission.MANAGE_KEYS)
def revoke_key(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
    """Show a confirmation; a POST revokes the key. Revoking twice changes nothing."""
    key = get_object_or_404(account.keys, pk=key_id)
    if request.method == "POST":
        acts.revoke(request, key)
        messages.success(request, f"{key.name} is revoked. Requests with it are now refused.")
        return redirect("keys")
    [summary] = summaries.summarize_keys([key], pool.database_time())
    return render(request, "dashboard/key_revoke.html", {"key": summary})
