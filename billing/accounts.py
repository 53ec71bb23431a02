"""Whose account: opened for a person, found by a person's e-mail address."""

from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.db import transaction

from billing.models import Account, Membership, User


class NoAccount(LookupError):
    """Nobody of that address is a member of an account."""


class SeveralAccounts(LookupError):
    """The person is a member of several accounts; somebody must say which is meant."""


def open_account(email: str, *, name: str) -> tuple[Account, bool]:
    """The person's account, and whether it was made just now. An unknown person is made too, without a password.

    Opening twice opens one account: whoever is a member of one keeps it, under its own name. Raises SeveralAccounts.
    """
    with transaction.atomic():
        address = email.strip().lower()
        User.objects.get_or_create(email=address, defaults={"password": make_password(None)})
        # Locked, so that two who open at once open one.
        person = User.objects.select_for_update(no_key=True).get(email=address)
        try:
            return find_account(address), False
        except NoAccount:
            account = Account.objects.create(name=name)
            Membership.objects.create(account=account, user=person)
            return account, True


def find_account(email: str, account_id: UUID | None = None) -> Account:
    """The account that the person is a member of; ``account_id`` says which of several. Raises NoAccount, SeveralAccounts."""
    accounts = Account.objects.filter(members__email=email.strip().lower()).order_by("id")
    if account_id is not None:
        accounts = accounts.filter(pk=account_id)
    match list(accounts):
        case []:
            raise NoAccount(f"{email} is not a member of {'this' if account_id else 'any'} account")
        case [account]:
            return account
        case several:
            raise SeveralAccounts(f"{email} is a member of several accounts: {', '.join(str(each.pk) for each in several)}")
