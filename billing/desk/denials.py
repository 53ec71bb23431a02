"""Says which permission a page of the admin needs, and which colleagues have it."""

from django.contrib.auth.models import Group, Permission
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest

from billing.models import User

_COLLEAGUES_SHOWN = 5
_VERBS = {"changelist": "view", "change": "view", "add": "add", "delete": "delete"}  # by the end of a page's name


def describe_denial(request: HttpRequest, denied: PermissionDenied) -> str:
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
