"""The acts on an account, as its owners may read them: who, what, when and from where.

Of support staff they see no reasons, tickets, values and addresses, nor requests that wait for a second person.
"""

import json
from collections.abc import Generator, Iterator
from datetime import datetime
from enum import Enum
from itertools import chain
from typing import Any

from django.db.models import Q, QuerySet

from billing.models import Account, MembershipChange
from gateway_project.activity.models import Activity
from gateway_project.db import newest_first
from gateway_project.text import csv_text, timestamps

COLUMNS = ["at", "who", "act", "summary", "object", "before", "after", "address"]
_BATCH = 500
_INTERNAL = [Activity.Act.CREDIT_REQUESTED, Activity.Act.CREDIT_DECLINED, Activity.Act.HANDED_OVER]


class Doer(Enum):
    """Who can have done something. The value is in words."""

    MEMBERS = "Members"
    MANAGEMENT_KEYS = "Management keys"
    SUPPORT = "Support staff"
    GATEWAY = "The gateway"


def find(
    account: Account,
    *,
    act: str | None = None,
    doer: Doer | None = None,
    begin: datetime | None = None,
    end: datetime | None = None,
) -> QuerySet[Activity]:
    acts = Activity.objects.filter(account_id=account.pk).exclude(act__in=_INTERNAL).select_related("actor")
    if doer:
        acts = acts.filter(_done_by(account, doer))
    wanted = {"act": act, "at__gte": begin, "at__lt": end}
    return acts.filter(**{lookup: value for lookup, value in wanted.items() if value}).order_by("-id")


def _done_by(account: Account, doer: Doer) -> Q:
    is_support = Q(actor__isnull=False) & ~Q(actor__in=_members(account))
    return {
        Doer.MEMBERS: Q(actor__isnull=False, program="") & ~is_support,
        Doer.MANAGEMENT_KEYS: ~Q(program=""),
        Doer.SUPPORT: is_support,
        Doer.GATEWAY: Q(actor=None, program=""),
    }[doer]


def describe(account: Account, acts: list[Activity]) -> list[dict[str, Any]]:
    """Return the acts as values by the names of COLUMNS. One query."""
    members = _members(account)
    return [_row(act, members) for act in acts]


def csv_parts(account: Account, acts: QuerySet[Activity]) -> Generator[bytes, None, None]:
    """Make the CSV file of the acts, a batch of lines at a time."""
    return csv_text.write_parts(COLUMNS, (map(_cells, batch) for batch in _read_batches(account, acts)))


def read_all(account: Account) -> Iterator[dict[str, Any]]:
    """Return all acts as values by the names of COLUMNS, a batch at a time."""
    return chain.from_iterable(_read_batches(account, find(account)))


def _read_batches(account: Account, acts: QuerySet[Activity]) -> Iterator[list[dict[str, Any]]]:
    members = _members(account)
    for batch in newest_first.read_batches(acts, _BATCH):
        yield [_row(act, members) | {"at": timestamps.iso_millis(act.at)} for act in batch]


def _members(account: Account) -> set[int]:
    """Return the ids of who is or was a member. Everyone else who acted is staff, or was then."""
    return set(MembershipChange.objects.filter(account_id=account.pk).values_list("user_id", flat=True))


def _row(act: Activity, members: set[int]) -> dict[str, Any]:
    is_support = act.actor is not None and act.actor_id not in members
    who = act.actor.email if act.actor else f"{act.program[:1].upper()}{act.program[1:]}" or Doer.GATEWAY.value
    return {
        "at": act.at,
        "who": Doer.SUPPORT.value if is_support else who,
        "act": act.act,
        "summary": act.summary,
        "object": "" if act.object_type == Account._meta.label_lower else act.object_text,
        "before": None if is_support else act.before,
        "after": None if is_support else act.after,
        "address": "" if is_support else act.address or "",
    }


def _cells(values: dict[str, Any]) -> list[Any]:
    cells = [values[name] for name in COLUMNS]
    return [csv_text.text_cell(json.dumps(each, ensure_ascii=False) if isinstance(each, dict) else each) for each in cells]
