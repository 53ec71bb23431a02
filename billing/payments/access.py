"""Who may see an account's payments, and pay for it."""

from billing.members import roles
from billing.members.roles import Act
from billing.models import Account, User


def may_pay(user: User, account: Account) -> bool:
    """Say whether the user may see and make the account's payments, by their role in it."""
    return roles.may(user, account, Act.PAY)
