"""The frame of members' pages: who is signed in, the selected account, and what the role allows. Only members open them."""

import functools
from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core import paginator
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from billing.accounts import lifecycle
from billing.accounts.roles import PERMISSIONS, Permission
from billing.models import Account, LedgerEntry, Membership, Role
from gateway_project.cells import directory
from gateway_project.db import cell, pool

_ACCOUNT_SESSION_KEY = "account_id"  # session key: the selected account of a member of several

Page = Callable[..., HttpResponseBase]


class Member:
    """The signed-in member and the selected account, for the header of every page; templates read ``request.member``."""

    def __init__(self, user: Any, chosen: Membership, memberships: list[Membership]) -> None:
        account = chosen.account
        self.email, self.is_staff = user.email, user.is_staff
        self.role = Role(chosen.role)
        self.may = {permission.name: permission in PERMISSIONS[self.role] for permission in Permission}
        self.account_name, self.account_is_active = account.name, account.is_active
        self.may_create_keys = self.may[Permission.MANAGE_KEYS.name] and account.is_active
        # The threshold of alerts, if the balance of an account that had credit, beyond one to try, is below it.
        no_credit = Q(type=LedgerEntry.Type.USAGE_DEBIT) | Q(reference__startswith="trial:")
        is_low = account.is_low and account.entries.exclude(no_credit).exists()
        self.low_below_nanos = account.warning_threshold_nanos if is_low else None
        # The accounts that the member can select.
        self.choices = [
            {"id": str(each.account_id), "name": each.account.name, "is_chosen": each == chosen} for each in memberships
        ]


def member_of(request: HttpRequest) -> Member:
    """Return who asks for a ``member_page``."""
    member: Member = vars(request)["member"]
    return member


def member_page(view: Page) -> Page:
    """Restrict a view to signed-in members and pass it the selected account. Browsers and proxies store no copy."""

    @never_cache
    @login_required
    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        # Read from the database each time, so that a removed member loses access at once, and a new role counts at once.
        memberships = _memberships(request.user.pk)
        if not memberships:
            return render(request, "dashboard/no_account.html", status=403)
        chosen_id = request.session.get(_ACCOUNT_SESSION_KEY)
        chosen = next((each for each in memberships if str(each.account_id) == chosen_id), memberships[0])
        lifecycle.enter_cell(chosen.account_id)
        vars(request)["member"] = Member(request.user, chosen, memberships)
        return view(request, chosen.account, *args, **kwargs)

    return page


def _memberships(user_id: Any) -> list[Membership]:
    """Return a user's memberships, by names of accounts. Raises the error of an unavailable cell if there are no others."""
    found: list[Membership] = []
    failure: Exception | None = None
    for number in Membership.cells_of(user_id):
        try:
            with cell.use(number):
                rows = Membership.objects.filter(user=user_id).select_related("account")
                memberships = list(rows.order_by("account__name", "account_id"))
            for membership in memberships:
                directory.remember(membership.account_id, number)
            found += memberships
        except pool.UNAVAILABLE as error:
            failure = error
    if failure and not found:
        raise failure
    return found


def requires(permission: Permission) -> Callable[[Page], Page]:
    """Restrict a ``member_page`` to members whose role has the permission. Others see that they need another role."""

    def restrict(view: Page) -> Page:
        @functools.wraps(view)
        def page(request: HttpRequest, account: Account, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not member_of(request).may[permission.name]:
                return render(request, "dashboard/other_role.html", {"permission": permission.value}, status=403)
            return view(request, account, *args, **kwargs)

        return page

    return restrict


def _page(*methods: str) -> Callable[..., Callable[[Page], Page]]:
    def page_for(permission: Permission | None = None) -> Callable[[Page], Page]:
        allowed = requires(permission) if permission else lambda view: view
        return lambda view: require_http_methods(methods)(member_page(allowed(view)))

    return page_for


plain_page = _page("GET", "HEAD")
form_page = _page("GET", "HEAD", "POST")
act_page = _page("POST")
download_page = _page("GET")


def select_account(request: HttpRequest, account: Account) -> None:
    """Make this the account whose pages the member sees."""
    request.session[_ACCOUNT_SESSION_KEY] = str(account.pk)


@act_page()
def choose_account(request: HttpRequest, account: Account) -> HttpResponse:
    """Select another of the member's accounts."""
    chosen = request.POST.get("account", "")
    if chosen not in {choice["id"] for choice in member_of(request).choices}:
        raise Http404
    request.session[_ACCOUNT_SESSION_KEY] = chosen
    return redirect("dashboard")


def page_of(request: HttpRequest, rows: QuerySet[Any], per_page: int) -> paginator.Page[Any]:
    """Read ``?page=``. A number outside the list means the nearest page, because lists change under bookmarks."""
    asked = request.GET.get("page", "1")
    number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) <= 15 else 1
    return paginator.Paginator(rows, per_page).get_page(max(number, 1))
