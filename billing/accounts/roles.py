"""What each role may do in an account. Every page and act of the dashboard asks this table."""

from enum import Enum

from billing.models import Account, Membership, Role, User


class Act(Enum):
    """What not every member may do. The value completes the sentence "This role may not ...".

    Every member sees the balance, spending, keys, requests, the statement and its CSV, and who else is a member; and may leave.
    """

    MANAGE_KEYS = "create, change or revoke keys"
    MANAGE_BY_PROGRAM = "create or revoke management keys"  # with which a program does what MANAGE_KEYS allows
    SEND_REQUESTS = "send requests from the playground"
    PAY = "see or make payments"  # with receipts, billing details, the automatic top-up and warnings of a low balance
    MANAGE_WEBHOOKS = "manage webhooks"
    MANAGE_MEMBERS = "invite, change or remove members"
    CLOSE_ACCOUNT = "close or reopen the account"
    EXPORT_DATA = "export the data of the account"
    SEE_SETTINGS = "see the settings and the activity of the account"


ACTS: dict[Role, frozenset[Act]] = {
    Role.OWNER: frozenset(Act),
    Role.DEVELOPER: frozenset({Act.MANAGE_KEYS, Act.SEND_REQUESTS, Act.MANAGE_WEBHOOKS}),
    Role.BILLING: frozenset({Act.PAY}),
    Role.VIEWER: frozenset(),
}

DESCRIPTIONS: dict[Role, str] = {
    Role.OWNER: "can do everything: keys, management keys, payments and members",
    Role.DEVELOPER: "can create and change keys, manage webhooks, use the playground and see the statement, but no payments",
    Role.BILLING: "can pay and see payments and receipts; sees keys, but cannot change them",
    Role.VIEWER: "can see the balance, keys and the statement, but change nothing",
}


def that_may(act: Act) -> list[Role]:
    """Return the roles that have the act."""
    return [role for role, acts in ACTS.items() if act in acts]


def may(user: User, account: Account, act: Act) -> bool:
    """Say whether the user is a member of the account whose role has the act."""
    role = Membership.objects.filter(user=user, account=account).values_list("role", flat=True).first()
    return role is not None and act in ACTS[Role(role)]
