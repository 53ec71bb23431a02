"""Opens an account for a person, and finds the account by a member's e-mail address."""

from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.db import transaction

from billing.models import Account, Membership, User


class NoAccount(LookupError):
    """No user with that address is a member of an account."""


class SeveralAccounts(LookupError):
    """The user is a member of several accounts; the caller must name one."""


def open_account(email: str, *, name: str) -> tuple[Account, bool]:
    """Return the user's account and whether it is new. Makes the user, without a password, if the address is unknown.

    Idempotent: a user with an account keeps it and its name. Raises SeveralAccounts.
    """
    with transaction.atomic():
        address = email.strip().lower()
        User.objects.get_or_create(email=address, defaults={"password": make_password(None)})
        # Locked, so that two concurrent calls open one account.
        person = User.objects.select_for_update(no_key=True).get(email=address)
        try:
            return find_account(address), False
        except NoAccount:
            account = Account.objects.create(name=name)
            Membership.objects.create(account=account, user=person)
            return account, True


def find_account(email: str, account_id: UUID | None = None) -> Account:
    """Return the account of a member; ``account_id`` selects one of several. Raises NoAccount, SeveralAccounts."""
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
