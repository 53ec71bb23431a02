"""Opens an account for a person, finds it by a member's email address, and closes it when it has no active member."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from billing import email_addresses, locks
from billing.models import Account, AccountClosing, Membership, Role, User
from gateway_project.cells import directory
from gateway_project.db import cell

# Says of each account in a query whether someone who can sign in is a member of it.
HAS_ACTIVE_MEMBER = Exists(Membership.objects.filter(account=OuterRef("pk"), user__is_active=True))


class NoAccount(LookupError):
    """No user with that address is a member of an account."""


class SeveralAccounts(LookupError):
    """The user is a member of several accounts; the caller must name one."""


def open_account(email: str, *, name: str) -> tuple[Account, bool]:
    """Return the account that a user owns, and whether it is new. A new user has no password. Raises SeveralAccounts."""
    with transaction.atomic():
        address = email_addresses.read(email)
        User.objects.get_or_create(email=address, defaults={"password": make_password(None)})
        # Locked, so that two concurrent calls open one account.
        person = User.objects.select_for_update(no_key=True).get(email=address)
        try:
            owned = Q(memberships__user=person, memberships__role=Role.OWNER)
            return _only(owned, address), False
        except NoAccount:
            account = make_account(name)
            add_member(account, person)
            return account, True


def make_account(name: str) -> Account:
    """Make an account without members in the cell that has the fewest accounts, and enter it."""
    enter_cell_of_new_accounts()
    return Account.objects.create(name=name)


def enter_cell_of_new_accounts() -> None:
    cell.enter(directory.emptiest())


def enter_cell(account_id: UUID) -> None:
    """Enter the cell of an account, as far as this process knows."""
    cell.enter(directory.cell_of(account_id))


def add_member(account: Account, user: User, role: Role = Role.OWNER) -> Membership:
    """Make the user, who is no member yet, a member of an account of the current cell."""
    return Membership.objects.create(account=account, user=user, role=role)


def find_account(email: str, account_id: UUID | None = None) -> Account:
    """Return the account of a member, or one of several, and enter its cell. Raises NoAccount, SeveralAccounts."""
    accounts = Q(members__email=email_addresses.canonical(email))
    return _only(accounts if account_id is None else accounts & Q(pk=account_id), email)


def _only(condition: Q, email: str) -> Account:
    """Return the one account of a user that a condition selects, and enter its cell. Raises NoAccount, SeveralAccounts."""
    user_id = User.objects.filter(email=email_addresses.canonical(email)).values_list("pk", flat=True).first()
    if user_id is None:
        raise NoAccount(f"{email} is not a member of such an account")
    accounts: dict[Account, int] = {}
    for number in Membership.cells_of(user_id):
        with cell.use(number):
            accounts |= dict.fromkeys(Account.objects.filter(condition), number)
    match sorted(accounts, key=attrgetter("pk")):
        case []:
            raise NoAccount(f"{email} is not a member of such an account")
        case [account]:
            cell.enter(directory.remember(account.pk, accounts[account]))
            return account
        case several:
            raise SeveralAccounts(f"{email} is a member of several accounts: {', '.join(str(each.pk) for each in several)}")


@contextmanager
def closing_abandoned(account_ids: Iterable[UUID]) -> Iterator[list[Account]]:
    """Close those of the accounts that lose their last active member in this block, in the same transaction.

    Otherwise their keys could continue to spend, unseen. Yields the list of the closed accounts, complete when the
    block ends. An account that had no active member before stays as it is: someone opened it on purpose.
    """
    with transaction.atomic():
        ids = sorted(filter(_has_active_member, account_ids))
        closed: list[Account] = []
        yield closed
        closed += filter(None, map(_close_if_abandoned, ids))


def _has_active_member(account_id: UUID) -> bool:
    with directory.within(account_id):
        return Account.objects.filter(HAS_ACTIVE_MEMBER, pk=account_id, is_active=True).exists()


def _close_if_abandoned(account_id: UUID) -> Account | None:
    """Close the account if it has no active member. Of two members who leave at once, the second one finds that."""
    with directory.within(account_id):
        account = locks.lock_account(account_id)
        if Account.objects.filter(HAS_ACTIVE_MEMBER, pk=account_id).exists():
            return None
        set_active(account, is_active=False)
        return account


def set_active(account: Account, *, is_active: bool) -> None:
    """Open or close the account, which is locked."""
    account.is_active = is_active
    account.save(update_fields=["is_active"])


def active_owners(account: Account) -> QuerySet[User]:
    return User.objects.filter(memberships__account=account, memberships__role=Role.OWNER, is_active=True).order_by("pk")


def find_open_closing(account: Account) -> AccountClosing | None:
    """Return the owner's closing of the account that can be undone, or that waits for its refund."""
    return AccountClosing.objects.filter(account=account, undone_at=None, erased_at=None).first()


def is_being_refunded(account: Account) -> bool:
    """Say whether an owner closed the account, and what is left is on its way back. Lock the account first."""
    closing = find_open_closing(account)
    return closing is not None and closing.is_being_refunded
