"""What was done to an account, as its owners may read it: who, what, when and from where.

Owners see what support staff did, but not their reasons, tickets, values and addresses. The statement has the reasons that are
meant for owners. Requests of staff that wait for a second person are left out, because they have changed nothing yet.
"""

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Row:
    """One act as a page shows it."""

    at: datetime
    who: str
    summary: str
    target: str
    address: str


@dataclass(frozen=True)
class ActFilter:
    """Which acts are listed. None: no filter."""

    act: str | None = None
    doer: Doer | None = None
    begin: datetime | None = None
    end: datetime | None = None


def find(account: Account, selected: ActFilter) -> QuerySet[Activity]:
    """Return the acts that the filter selects, the newest first."""
    acts = Activity.objects.filter(account_id=account.pk).exclude(act__in=_INTERNAL).select_related("actor")
    if selected.act:
        acts = acts.filter(act=selected.act)
    if selected.doer:
        acts = acts.filter(_done_by(account, selected.doer))
    if selected.begin:
        acts = acts.filter(at__gte=selected.begin)
    if selected.end:
        acts = acts.filter(at__lt=selected.end)
    return acts.order_by("-id")


def _done_by(account: Account, doer: Doer) -> Q:
    is_support = Q(actor__isnull=False) & ~Q(actor__in=_members(account))
    return {
        Doer.MEMBERS: Q(actor__isnull=False, program="") & ~is_support,
        Doer.MANAGEMENT_KEYS: ~Q(program=""),
        Doer.SUPPORT: is_support,
        Doer.GATEWAY: Q(actor=None, program=""),
    }[doer]


def describe(account: Account, acts: list[Activity]) -> list[Row]:
    """Return the acts as a page shows them. One query."""
    members = _members(account)
    return [_row(act, members) for act in acts]


def csv_parts(account: Account, selected: ActFilter) -> Generator[bytes, None, None]:
    """Make the CSV file of what the filter selects, a batch of lines at a time."""
    batches = _read_batches(account, selected)
    return csv_text.write_parts(COLUMNS, (map(_cells, batch) for batch in batches))


def read_all(account: Account, selected: ActFilter) -> Iterator[dict[str, Any]]:
    """Return what the filter selects as values by the names of COLUMNS, a batch at a time."""
    return chain.from_iterable(_read_batches(account, selected))


def _read_batches(account: Account, selected: ActFilter) -> Iterator[list[dict[str, Any]]]:
    members = _members(account)
    for batch in newest_first.read_batches(find(account, selected), _BATCH):
        yield [_values(act, members) for act in batch]


def _members(account: Account) -> set[int]:
    """Return the ids of who is or was a member. Everybody else who acted is staff, or was then."""
    return set(MembershipChange.objects.filter(account_id=account.pk).values_list("user_id", flat=True))


def _row(act: Activity, members: set[int]) -> Row:
    is_support = _is_support(act, members)
    return Row(act.at, _who(act, is_support), act.summary, _target(act), "" if is_support else act.address or "")


def _values(act: Activity, members: set[int]) -> dict[str, Any]:
    """Return what a file says of an act, by the names of COLUMNS."""
    row, is_support = _row(act, members), _is_support(act, members)
    before, after = (None, None) if is_support else (act.before, act.after)
    values = [timestamps.iso_millis(act.at), row.who, act.act, row.summary, row.target, before, after, row.address]
    return dict(zip(COLUMNS, values, strict=True))


def _cells(values: dict[str, Any]) -> list[Any]:
    texts = [json.dumps(each, ensure_ascii=False) if isinstance(each, dict) else each for each in values.values()]
    return [csv_text.text_cell(each) for each in texts]


def _is_support(act: Activity, members: set[int]) -> bool:
    return act.actor is not None and act.actor_id not in members


def _who(act: Activity, is_support: bool) -> str:
    if is_support:
        return Doer.SUPPORT.value
    if act.actor:
        return act.actor.email
    return f"{act.program[:1].upper()}{act.program[1:]}" or Doer.GATEWAY.value


def _target(act: Activity) -> str:
    """Return what was changed, if it is not the account itself."""
    return "" if act.object_type == Account._meta.label_lower else act.object_text
