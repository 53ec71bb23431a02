"""Erases the personal data of accounts that were closed long enough ago. What the books need stays.

Erased are the name of the account, the rows of which ``own_tables`` says so, what other apps erase, and addresses and access
of users who are members of nothing else. The ledger, receipts and the activity log stay as they are.
"""

from uuid import UUID

from allauth.usersessions.models import UserSession
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Q

from billing import locks
from billing.account_settings import own_tables
from billing.models import Account, AccountClosing, Membership, TopUpRule, User
from gateway_project import app_config, identifiers
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.db import everywhere, pool


def erase_closed() -> int:
    """Erase what is due. Return of how many accounts."""
    is_settled = Q(is_refunded=False) | Q(refunded_at__isnull=False)
    due = AccountClosing.objects.filter(is_settled, undone_at=None, erased_at=None, erase_at__lte=pool.database_time())
    return sum(map(_erase, due.values_list("pk", "account_id")))


def _erase(due: tuple[UUID, UUID]) -> bool:
    closing_id, account_id = due
    with transaction.atomic():
        users = User.objects.filter(memberships__account=account_id, is_staff=False)
        locks.lock_users(list(users.values_list("pk", flat=True)))
        account = locks.lock_account(account_id)
        closing = AccountClosing.objects.filter(pk=closing_id, undone_at=None, erased_at=None).first()
        if closing is None or account.open_holds:
            return False
        now = pool.database_time()
        if account.is_active:  # staff opened it again
            closing.undone_at = now
            closing.save(update_fields=["undone_at"])
            return False
        _erase_account(account)
        closing.erased_at = now
        closing.save(update_fields=["erased_at"])
        log.record(None, Activity.Act.ERASED, account, "Erased the personal data of the closed account.")
    return True


def _erase_account(account: Account) -> None:
    members = User.objects.filter(memberships__account=account, is_staff=False)
    of_others = Membership.objects.exclude(account=account).filter(user__in=list(members)).values_list("user", flat=True)
    users = list(members.exclude(pk__in=everywhere.gather(of_others.all)))
    TopUpRule.objects.filter(account=account).update(is_on=False, customer_id="", method_id="", card="")
    own_tables.delete_rows(account)
    for app in app_config.installed():
        app.erase(account)
    for user in users:
        keys = UserSession.objects.filter(user=user).values_list("session_key", flat=True)
        Session.objects.filter(session_key__in=list(keys)).delete()
        own_tables.delete_rows_of_user(user)
        user.email, user.first_name, user.last_name = f"erased-{user.pk}@erased.invalid", "", ""
        user.password, user.is_active, user.links_generation = make_password(None), False, user.links_generation + 1
        user.save(update_fields=["email", "first_name", "last_name", "password", "is_active", "links_generation"])
    account.name, account.keeps_responses = f"Closed account {identifiers.ending(account.pk)}", False
    account.save(update_fields=["name", "keeps_responses"])
