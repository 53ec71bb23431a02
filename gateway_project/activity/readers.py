"""Says which acts a member of staff may read: those on rows that they may view elsewhere, and their own."""

from typing import Any

from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.db.models import Q, QuerySet

from gateway_project.activity.models import Activity

Act = Activity.Act
_ACCOUNTS, _LEDGER = "billing.view_account", "billing.view_ledgerentry"
_OF_MONEY = [  # their summaries and values have amounts of the ledger
    *(Act.CREDITED, Act.CREDIT_REQUESTED, Act.CREDIT_DECLINED, Act.CORRECTED, Act.PURCHASED, Act.REFUNDED),
    *(Act.PAYMENT_BEGUN, Act.PAYMENT_CANCELLED, Act.TOP_UP_CHANGED),
]


def readable(staff: Any) -> QuerySet[Activity]:
    """Return the acts that ``staff``, a user, may read."""
    if staff.is_superuser:
        return Activity.objects.all()
    kinds = [model._meta for model in apps.get_models()]
    viewable = [
        each.label_lower for each in kinds if staff.has_perm(f"{each.app_label}.{get_permission_codename('view', each)}")
    ]
    may_read = Q(account_id=None, object_type__in=viewable) | Q(actor=staff)
    if staff.has_perm(_ACCOUNTS):
        of_accounts = Q(account_id__isnull=False)
        may_read |= of_accounts if staff.has_perm(_LEDGER) else of_accounts & ~Q(act__in=_OF_MONEY)
    return Activity.objects.filter(may_read)
