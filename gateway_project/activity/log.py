"""Records acts. The caller's transaction holds the act and its record, so that neither is there without the other.

Also says who may read them, and deletes old ones. An act that moves money has a record of its own, which stays.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_permission_codename, get_user_model
from django.db import connection
from django.db.models import Model, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest

from gateway_project import errors
from gateway_project.activity.models import Activity
from gateway_project.db import cell, pool
from gateway_project.web.client_address import client_address
from gateway_project.web.request_notes import notes_or_empty

Act = Activity.Act
_TEXT_MAX = Activity._meta.get_field("object_text").max_length
_HOUR = timedelta(hours=1)
_DELETED_ROWS = 5_000  # in one transaction
# An act that stops something is never refused. Each needs something that was begun before, so these are bounded, too.
_UNLIMITED = {
    *(Act.KEY_PAUSED, Act.KEY_REVOKED, Act.MANAGEMENT_KEY_REVOKED, Act.ENDPOINT_DELETED),
    *(Act.MEMBER_UNINVITED, Act.MEMBER_REMOVED, Act.INVITATION_REVOKED),
    *(Act.PAYMENT_CANCELLED, Act.OWN_KEY_REMOVED),
    Act.CLOSED,  # which the last member does who leaves
    Act.DELETED,  # of people who are no staff: what signs them in, such as a passkey
    Act.PASSWORD_CHANGED,  # which costs a hash each time
}
# Acts of people and of programs are counted apart, among so many of the account's latest: no count reads its whole history.
_LATEST_PER_ACT = 4
Values = dict[str, Any]  # of fields, by name; what JSON does not know is recorded as text


def record(
    request: HttpRequest | None,
    act: Act,
    target: Model,
    summary: str,
    *,
    account_id: UUID | None = None,
    before: Values | None = None,
    after: Values | None = None,
    reason: str = "",
    ticket: str = "",
    is_defence: bool = False,
) -> None:
    """Record that the request's user, or its ``program``, did ``act`` to ``target``. It is None for an operator's command.

    Without ``account_id`` the act concerns the account of the target, if it has or is one.
    Must run in the transaction of the act. ``before`` and ``after`` hold no secrets. Raises RateLimitExceeded after
    ACTS_PER_HOUR of the account, by people or else by programs, or of the user where no account is concerned. Staff and
    commands are not limited, nor is what stops something, nor what a person does with ``is_defence``: an act that takes
    away what another person may have, such as the rotation of a key.
    """
    assert connection.in_atomic_block
    account_id = account_id or _account_id_of(target)
    user = getattr(request, "user", None)  # of a request of the API an account
    notes = notes_or_empty(request)
    program = notes.program
    is_unlimited = act in _UNLIMITED or (is_defence and not program)
    if request is not None and not is_unlimited and not getattr(user, "is_staff", False):
        _require_pace(account_id, user, is_program=bool(program))
    Activity.objects.create(
        act=act,
        actor=user if isinstance(user, get_user_model()) else None,
        program=program,
        account_id=account_id,
        object_type=target._meta.label_lower,
        object_id=str(target.pk),
        object_text=str(target)[:_TEXT_MAX],
        summary=summary,
        before=_json(before),
        after=_json(after),
        reason=reason,
        ticket=ticket,
        request_id=notes.id,
        address=(client_address(request) or None) if request else None,
    )


def change(request: HttpRequest, act: Act, row: Model, summary: str, after: Values) -> None:
    """Change fields of a locked row and record it. If they have these values already, do neither."""
    before = {name: getattr(row, name) for name in after}
    if before != after:
        type(row)._default_manager.filter(pk=row.pk).update(**after)
        record(request, act, row, summary, before=before, after=after)


def _account_id_of(target: Model) -> UUID | None:
    found = target.pk if target._meta.label_lower == "billing.account" else getattr(target, "account_id", None)
    return found if isinstance(found, UUID) else None


def _require_pace(account_id: UUID | None, user: Any, *, is_program: bool) -> None:
    """Raises RateLimitExceeded when the account's people or programs, or else the user, did ACTS_PER_HOUR within an hour."""
    maximum = settings.ACTS_PER_HOUR
    if account_id is not None:
        acts, count = Activity.objects.filter(account_id=account_id), maximum * _LATEST_PER_ACT
        first_id = Subquery(acts.order_by("-id").values("id")[count - 1 : count])  # of the latest
        acts = acts.filter(id__gte=Coalesce(first_id, 0))
        acts = acts.exclude(program="") if is_program else acts.filter(program="")
    elif isinstance(user, get_user_model()):
        acts = Activity.objects.filter(actor=user, account_id=None)
    else:
        return
    first = acts.order_by("-id").values_list("at", flat=True)[maximum - 1 : maximum].first()  # of as many as may be
    if first is not None and (wait := first + _HOUR - pool.database_time()) > timedelta():
        whose = "The account" if account_id else "The user"
        raise errors.RateLimitExceeded(
            f"{whose} was changed {maximum:,} times in an hour, which is the maximum. Try again later."
            " You can still pause and revoke keys.",
            headers=errors.retry_after(min(wait, timedelta(seconds=errors.RETRY_AFTER_SECONDS_MAX))),
        )


def _json(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict):
        return {name: _json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, QuerySet)):
        return [_json(each) for each in value]
    return str(value)


_ACCOUNTS, _LEDGER = "billing.view_account", "billing.view_ledgerentry"
_OF_MONEY = [  # their summaries and values have amounts of the ledger
    *(Act.CREDITED, Act.CREDIT_REQUESTED, Act.CREDIT_DECLINED, Act.CORRECTED, Act.PURCHASED, Act.REFUNDED),
    *(Act.PAYMENT_BEGUN, Act.PAYMENT_CANCELLED, Act.TOP_UP_CHANGED),
]


def readable(staff: Any) -> QuerySet[Activity]:
    """Return the acts that ``staff``, a user, may read: those on rows that they may view elsewhere, and their own."""
    if staff.is_superuser:
        return Activity.objects.all()
    kinds = [model._meta for model in apps.get_models()]
    shown = [each.label_lower for each in kinds if staff.has_perm(f"{each.app_label}.{get_permission_codename('view', each)}")]
    may_read = Q(account_id=None, object_type__in=shown) | Q(actor=staff)
    if staff.has_perm(_ACCOUNTS):
        of_accounts = Q(account_id__isnull=False)
        may_read |= of_accounts if staff.has_perm(_LEDGER) else of_accounts & ~Q(act__in=_OF_MONEY)
    return Activity.objects.filter(may_read)


def delete_old(now: datetime) -> int:
    """Delete the acts that are older than RETENTION_ACTIVITY_DAYS, in small transactions. Return how many."""
    kept_days, total = settings.RETENTION_ACTIVITY_DAYS, 0
    if kept_days is None:
        return 0
    while True:
        [(deleted,)] = cell.execute("SELECT activity_delete_old(%s, %s)", [now - timedelta(days=kept_days), _DELETED_ROWS])
        total += int(deleted)
        if deleted < _DELETED_ROWS:
            return total
