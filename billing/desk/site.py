"""The admin as a site: home page, search, sign-in of staff, the password before each change, and missing permissions."""

import functools
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.auth.models import Group, Permission
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from billing.models import User
from billing.sign_in.credential_pages import ChangePassword
from billing.sign_in.reauthentication import reauthenticates
from gateway_project import errors, logs
from gateway_project.db import everywhere
from gateway_project.desk import chosen_cell, panels, search

View = Callable[..., Any]

# Leaving, stopping a leaked key and giving the password anyhow must not wait for a password. To search and to choose a cell
# changes nothing.
_WITHOUT_PASSWORD = {"logout", "password_change", "keys_apikey_revoke", "search", "cell"}
_COLLEAGUES_SHOWN = 5
_VERBS = {"changelist": "view", "change": "view", "add": "add", "delete": "delete"}  # by the end of a page's name


class SupportSite(AdminSite):
    enable_nav_sidebar = False  # the rail is ours

    def get_urls(self) -> list[URLPattern | URLResolver]:
        search_path = path("search/", self.admin_view(search.search_page), name="search")
        return [search_path, path("cell/", self.admin_view(chosen_cell.choose), name="cell"), *super().get_urls()]

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Return nothing for the rail, which is ours: this would be two fifths of the work of a page."""
        return super().get_app_list(request, app_label) if app_label else []

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Give each page the addresses of the lists in the rail: "" of one that the user may not view."""
        shown = {
            str(model._meta).replace(".", "_"): pages.has_view_permission(request) for model, pages in self._registry.items()
        }
        lists = {name: reverse(f"admin:{name}_changelist") if is_shown else "" for name, is_shown in shown.items()}
        return {**super().each_context(request), **chosen_cell.context(), "lists": lists}

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Show the panels. Name the cells that are not in them, because they do not answer."""
        for number in [number for number, is_up in everywhere.answers().items() if not is_up]:
            messages.warning(request, f"Cell {number} does not answer. Its accounts are not in the figures below.")
        return super().index(request, {"title": "Today", "panels": panels.read(request), **(extra_context or {})})

    def admin_view(self, view: View, cacheable: bool = False) -> View:  # type: ignore[override]
        """Ask for a recent password before each POST, and lead whoever is not signed in to the sign-in page of all."""
        plain = super().admin_view(view, cacheable)
        asked = super().admin_view(reauthenticates(view), cacheable)

        @never_cache
        @functools.wraps(asked)
        def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            name = request.resolver_match.url_name if request.resolver_match else None
            address = request.get_full_path()
            may_be_kept = search.conceal(address)
            is_search = name == "search" and request.user.is_authenticated
            if may_be_kept != address and request.method == "GET" and not is_search:
                return redirect(may_be_kept)  # a browser keeps this address instead, and shows it
            if not request.user.is_authenticated and name != "logout":
                return redirect_to_login(address)  # where Django's own page would lead, in one step
            chosen_cell.enter(request)
            try:
                return (plain if name in _WITHOUT_PASSWORD else asked)(request, *args, **kwargs)
            except PermissionDenied as denied:
                return self._deny(request, denied)

        return page

    def _deny(self, request: HttpRequest, denied: PermissionDenied) -> HttpResponse:
        """Show staff which permission they need, and who has it. Raises PermissionDenied for others."""
        if not self.has_permission(request):
            raise denied
        error = errors.Forbidden(_describe_denial(request, denied) or "You do not have permission to do this.")
        logs.explain(error)
        context = {**self.each_context(request), "title": "Permission needed", "message": error.message}
        return TemplateResponse(request, "admin/denied.html", context, status=error.status)

    @method_decorator(never_cache)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Lead to the page that signs in, and staff who are signed in to where they wanted to go."""
        wanted = request.GET.get("next", "")
        address = wanted if url_has_allowed_host_and_scheme(wanted, None) else reverse("admin:index")
        if not request.user.is_authenticated:
            return redirect_to_login(address)
        if not (request.user.is_staff and request.user.is_active):
            raise PermissionDenied
        return redirect(address)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:  # type: ignore[override]
        """Show the owners' view in the admin's layout."""
        return ChangePassword.as_view(
            template_name="registration/password_change_form.html",
            success_url=reverse("admin:index"),
            extra_context={**self.each_context(request), **(extra_context or {})},
        )(request)


def _describe_denial(request: HttpRequest, denied: PermissionDenied) -> str:
    """Return what the member of staff needs and who has it, or the reason that the error gives, or else ''.

    The error has the name of a permission, such as ``billing.close_account``, a sentence, or nothing.
    """
    text = str(denied)
    if " " in text:
        return text
    wanted = text or _permission_of_page(request)
    if not wanted or request.user.has_perm(wanted):
        return ""
    app_label, codename = wanted.split(".")
    permission = Permission.objects.filter(content_type__app_label=app_label, codename=codename).first()
    if permission is None:
        return ""
    return f"You need the permission “{permission.name}”. {_describe_holders(permission)}"


def _permission_of_page(request: HttpRequest) -> str:
    """Return the permission that Django's admin asks for on this page, or ''."""
    match = request.resolver_match
    app_label, _, model_and_page = (match.url_name or "").partition("_") if match else ("", "", "")
    model, _, page = model_and_page.partition("_")
    return f"{app_label}.{_VERBS[page]}_{model}" if page in _VERBS else ""


def _describe_holders(permission: Permission) -> str:
    """Return the groups and the first colleagues who have the permission. Superusers have every one, so they come last."""
    granted = Q(groups__permissions=permission) | Q(user_permissions=permission)
    staff = User.objects.filter(is_staff=True, is_active=True).order_by("is_superuser", "email").distinct()
    people = list(staff.filter(granted | Q(is_superuser=True)).values_list("email", flat=True)[: _COLLEAGUES_SHOWN + 1])
    groups = list(Group.objects.filter(permissions=permission).order_by("name").values_list("name", flat=True))
    in_groups = f"It belongs to the group{'' if len(groups) == 1 else 's'} {', '.join(groups)}. " if groups else ""
    if not people:
        return f"{in_groups}No colleague has it yet."
    more = " and others" if len(people) > _COLLEAGUES_SHOWN else ""
    return f"{in_groups}Ask {', '.join(people[:_COLLEAGUES_SHOWN])}{more}."
