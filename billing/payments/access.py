"""Who may see an account's payments, and pay for it."""

from billing.models import Account, User


def may_pay(user: User, account: Account) -> bool:
    """Say whether the user may see and make the account's payments: today, whether they are a member of it."""
    return account.members.filter(pk=user.pk).exists()
