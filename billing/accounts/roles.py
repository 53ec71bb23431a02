"""The permissions of each role in an account. All pages and functions of the dashboard look it up in ``PERMISSIONS``."""

from enum import Enum

from billing.models import Account, Membership, Role, User


class Permission(Enum):
    """An act that only some roles may do. The value completes the sentence "Your role cannot ...".

    Every member sees the balance, spending, keys, requests, the statement, its CSV file and the other members, and may leave.
    """

    MANAGE_KEYS = "create, change or revoke keys"
    MANAGE_BY_PROGRAM = "create or revoke management keys"  # with which a program does what MANAGE_KEYS allows
    SEND_REQUESTS = "send requests from the playground"
    PAY = "see or make payments"  # with receipts, billing details, the automatic top-up and alerts of a low balance
    MANAGE_WEBHOOKS = "manage webhooks"
    MANAGE_PROVIDER_KEYS = "see, add or remove the account's own keys of providers"
    MANAGE_MEMBERS = "invite, change or remove members"
    CLOSE_ACCOUNT = "close or reopen the account"
    EXPORT_DATA = "export the data of the account"
    SEE_SETTINGS = "see the settings and the activity of the account"


PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.OWNER: frozenset(Permission),
    Role.DEVELOPER: frozenset({Permission.MANAGE_KEYS, Permission.SEND_REQUESTS, Permission.MANAGE_WEBHOOKS}),
    Role.BILLING: frozenset({Permission.PAY}),
    Role.VIEWER: frozenset(),
}

DESCRIPTIONS: dict[Role, str] = {
    Role.OWNER: "can do everything: keys, management keys, payments and members",
    Role.DEVELOPER: "can create and change keys, manage webhooks, use the playground and see the statement, but no payments",
    Role.BILLING: "can pay and see payments and receipts; sees keys, but cannot change them",
    Role.VIEWER: "can see the balance, keys and the statement, but change nothing",
}


def that_may(permission: Permission) -> list[Role]:
    return [role for role, permissions in PERMISSIONS.items() if permission in permissions]


def may(user: User, account: Account, permission: Permission) -> bool:
    role = Membership.objects.filter(user=user, account=account).values_list("role", flat=True).first()
    return role is not None and permission in PERMISSIONS[Role(role)]
