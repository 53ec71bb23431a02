"""Opens an account for a person, finds it by a member's email address, and closes it when nobody can manage it any more."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from billing import locks
from billing.models import Account, AccountClosing, Membership, Role, User

# Says of each account in a query whether somebody who can sign in is a member of it.
HAS_ACTIVE_MEMBER = Exists(Membership.objects.filter(account=OuterRef("pk"), user__is_active=True))


class NoAccount(LookupError):
    """No user with that address is a member of an account."""


class SeveralAccounts(LookupError):
    """The user is a member of several accounts; the caller must name one."""


def open_account(email: str, *, name: str) -> tuple[Account, bool]:
    """Return the account that the user owns and whether it is new. Makes the user, without a password, if there is none.

    Idempotent: an owner of an account keeps it and its name. Raises SeveralAccounts.
    """
    with transaction.atomic():
        address = email.strip().lower()
        User.objects.get_or_create(email=address, defaults={"password": make_password(None)})
        # Locked, so that two concurrent calls open one account.
        person = User.objects.select_for_update(no_key=True).get(email=address)
        try:
            return _only(Account.objects.filter(memberships__user=person, memberships__role=Role.OWNER), address), False
        except NoAccount:
            account = Account.objects.create(name=name)
            Membership.objects.create(account=account, user=person)
            return account, True


def find_account(email: str, account_id: UUID | None = None) -> Account:
    """Return the account of a member; ``account_id`` selects one of several. Raises NoAccount, SeveralAccounts."""
    accounts = Account.objects.filter(members__email=email.strip().lower())
    if account_id is not None:
        accounts = accounts.filter(pk=account_id)
    return _only(accounts, email)


def _only(accounts: QuerySet[Account], email: str) -> Account:
    """Return the one account of a query. Raises NoAccount, SeveralAccounts."""
    match list(accounts.order_by("id")):
        case []:
            raise NoAccount(f"{email} is not a member of such an account")
        case [account]:
            return account
        case several:
            raise SeveralAccounts(f"{email} is a member of several accounts: {', '.join(str(each.pk) for each in several)}")


@contextmanager
def closing_abandoned(account_ids: Iterable[UUID]) -> Iterator[list[Account]]:
    """Close those of the accounts that lose their last active member in this block, in the same transaction.

    Their keys could go on spending while nobody can see or stop it. Yields the list of the closed accounts, complete when the
    block ends. An account that had no active member before stays as it is: somebody opened it on purpose.
    """
    with transaction.atomic():
        with_member = Account.objects.filter(HAS_ACTIVE_MEMBER, pk__in=account_ids, is_active=True)
        ids = sorted(account.pk for account in with_member)
        closed: list[Account] = []
        yield closed
        closed += [account for account in map(locks.lock_account, ids) if _close_if_abandoned(account)]


def _close_if_abandoned(account: Account) -> bool:
    """Close the locked account if it has no active member. Of two members who leave at once, the second one finds that."""
    if Account.objects.filter(HAS_ACTIVE_MEMBER, pk=account.pk).exists():
        return False
    set_active(account, is_active=False)
    return True


def set_active(account: Account, *, is_active: bool) -> None:
    """Open or close the account, which is locked."""
    account.is_active = is_active
    account.save(update_fields=["is_active"])


def active_owners(account: Account) -> QuerySet[User]:
    """Return the owners who can sign in."""
    return User.objects.filter(memberships__account=account, memberships__role=Role.OWNER, is_active=True).order_by("pk")


def find_open_closing(account: Account) -> AccountClosing | None:
    """Return the owner's closing of the account that can be undone, or that waits for its refund."""
    return AccountClosing.objects.filter(account=account, undone_at=None, erased_at=None).first()


def is_being_refunded(account: Account) -> bool:
    """Say whether an owner closed the account, and what is left is on its way back. Lock the account first."""
    closing = find_open_closing(account)
    return closing is not None and closing.is_being_refunded
