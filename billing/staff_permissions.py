"""Decides whom and what staff may change, beside the permissions that Django's admin asks for.

Staff cannot gain permissions through other users:

- They cannot change or delete a user who has a permission that they lack.
- Only superusers set the email address or password of other staff, and the permissions of a user.
- They cannot change a group that they belong to, that has a permission they lack, or that has a member they cannot change. They
  cannot add a permission to a group if they lack it.

Staff cannot give money to themselves:

- They cannot credit an account that they are a member of.
- They cannot approve a credit that they requested, or one for an account that they are a member of.
- They cannot make or end their own membership. They cannot become a member of an account if they credited it, or if they
  requested or approved a credit of it.

The first three rules do not apply to superusers, who have every permission. The last three apply to all. An operator can use
commands instead.
"""

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, Permission
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from billing.models import Account, CreditRequest, LedgerEntry, Membership, User


def staff_of(request: HttpRequest) -> User:
    """Return who is signed in. The admin admits staff only."""
    assert isinstance(request.user, User)
    return request.user


def may_change_user(staff: User, user: User) -> bool:
    """Say whether ``staff`` has every permission that ``user`` has, or would have again when activated."""
    if staff.is_superuser:
        return True
    return not user.is_superuser and not _exceeds(granted_permissions(user), staff)


def may_set_credentials(staff: User, user: User) -> bool:
    """Say whether ``staff`` may set what ``user`` signs in with. Otherwise colleagues could act in each other's name."""
    return staff.is_superuser or staff == user or (not user.is_staff and may_change_user(staff, user))


def may_change_group(staff: User, group: Group) -> bool:
    """Say whether ``staff`` is outside the group, and stronger than it and than each of its members."""
    if staff.is_superuser:
        return True
    if staff.groups.contains(group) or _exceeds(group.permissions.all(), staff):
        return False
    return all(may_change_user(staff, member) for member in User.objects.filter(groups=group))


def may_credit(staff: User, account: Account) -> bool:
    """Say whether ``staff`` is no member of the account. The permission to issue credit is asked for elsewhere."""
    return not Membership.objects.filter(user=staff, account=account).exists()


def membership_refusal(staff: User, user: User, account: Account) -> str:
    """Return why ``staff`` may not make ``user`` a member of the account, or ''. Lock the user first (``billing.locks``).

    ``support_credit`` holds the same lock, so a credit and a membership that begin together cannot both succeed.
    """
    return OWN_MEMBERSHIP if user == staff else credit_refusal(user, account)


def credit_refusal(user: User, account: Account) -> str:
    """Return why the user, who is locked, may not be a member: because of credits of the account. Or ''."""
    if LedgerEntry.objects.filter(issued_by=user, account_id=account.pk).exists():
        return f"{user.email} has credited this account, and so cannot be a member of it."
    requests = CreditRequest.objects.filter(Q(requested_by=user) | Q(decided_by=user), account_id=account.pk)
    if requests.exclude(decision=CreditRequest.Decision.DECLINED).exists():
        return f"{user.email} has asked for a credit of this account or approved one, and so cannot be a member of it."
    return ""


OWN_MEMBERSHIP = "You cannot add or remove your own membership: ask a colleague."


def granted_permissions(user: User) -> QuerySet[Permission]:
    """Return the permissions that were given to the user or to groups of theirs; to superusers, all.

    Django's ``get_all_permissions`` says that an inactive user has none, which would let staff activate a stronger one.
    """
    if user.is_superuser:
        return Permission.objects.all()
    return Permission.objects.filter(Q(user=user) | Q(group__user=user)).distinct()


def staff_with(permission: str) -> QuerySet[User]:
    """Return the active staff who have a permission, such as ``billing.view_account``."""
    found: QuerySet[User] = ModelBackend().with_perm(permission).filter(is_staff=True)
    return found


def _exceeds(permissions: QuerySet[Permission], staff: User) -> bool:
    return permissions.exclude(pk__in=granted_permissions(staff)).exists()
