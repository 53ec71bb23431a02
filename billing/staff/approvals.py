"""Acts of staff that wait for a second person: asked for once, decided once, never approved by who asked.

A request is a row (``models.WaitingAct``). ``support_credit``, ``people_requests`` and
``completions.catalog.price_requests`` say what each kind does once approved.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from billing import locks
from billing.models import AccountAct, User, WaitingAct
from billing.sign_in import mails
from gateway_project.db import pool
from gateway_project.text import timestamps

WAITS_TIME = timedelta(days=7)  # then what is asked for can no longer be approved
Decision = WaitingAct.Decision
_ASK_AGAIN = "Decline it, and ask again if it is still due."
Asked = TypeVar("Asked", bound=WaitingAct)


class ApprovalRefused(Exception):
    """The person may not ask for this or decide on it. The message says why, to them."""


def waiting(model: type[Asked], now: datetime | None = None) -> QuerySet[Asked]:
    since = (now or pool.database_time()) - WAITS_TIME
    rows: QuerySet[Asked] = model._default_manager.filter(decision="", requested_at__gt=since)
    return rows


def lock(model: type[Asked], id: UUID, *people: int) -> Asked:
    """Lock who asked, the people, its account if any, and the row, and return it as it is then. Raises DoesNotExist."""
    rows = model._default_manager
    asked: Any = rows.get(pk=id)
    locks.lock_users([asked.requested_by_id, *people])
    account = locks.lock_account(asked.account_id) if issubclass(model, AccountAct) else None
    asked = rows.select_for_update(of=("self",), no_key=True).select_related("requested_by").get(pk=id)
    if account is not None:
        asked.account = account
    found: Asked = asked
    return found


def refusal(asked: WaitingAct, by: User) -> str:
    """Return why ``by`` cannot approve it, whatever it is; or ''."""
    if asked.decision:
        return _decided(asked)
    if by == asked.requested_by:
        return "You asked for this. Someone else must approve it."
    if not waiting(type(asked)).filter(pk=asked.pk).exists():
        return f"This was asked for more than {WAITS_TIME.days} days ago. If it is still due, ask for it again."
    if not asked.requested_by.is_active:
        return f"{asked.requested_by.email} asked for this and can no longer sign in. {_ASK_AGAIN}"
    return ""


def change_since(asked: WaitingAct, now: Mapping[str, Any]) -> str:
    """Return what changed since it was asked for, as a reason not to approve it, or ''. ``now`` is what ``seen`` would be."""
    # A request of the former release has seen nothing.
    changed = [name for name in now if asked.seen and asked.seen.get(name) != now[name]]
    return f"{changed[0]} changed since this was asked for. {_ASK_AGAIN}" if changed else ""


def decline_lapsed(rows: QuerySet[Asked], by: User) -> None:
    """Decline the rows that were not decided in time, so that the same may be asked for again."""
    for asked in rows.filter(decision="").exclude(pk__in=waiting(rows.model).values("pk")):
        decide(asked, Decision.DECLINED, by, decision_reason="Asked for again, after no one decided in time.")


def decide(asked: WaitingAct, decision: Decision, by: User, **columns: object) -> None:
    """Write the decision to the locked row. Raises ApprovalRefused if there is one."""
    if asked.decision:
        raise ApprovalRefused(_decided(asked))
    columns |= {"decision": decision, "decided_by": by, "decided_at": pool.database_time()}
    for name, value in columns.items():
        setattr(asked, name, value)
    asked.save(update_fields=list(columns))


def tell_requester(asked: WaitingAct, outcome: str) -> None:
    """Send a mail to who asked, once the decision is committed. The list shows it, too."""
    facts: dict[str, Any] = {"what": asked.what, "account": str(asked.target), "outcome": outcome}
    mails.send_once_committed(asked.requested_by.email, "act_decided", **facts)


def describe_state(asked: WaitingAct, approved: str) -> str:
    """Return the state in words, as a predicate: "waits for approval". ``approved`` says what became of it then."""
    if asked.decision == Decision.APPROVED:
        return f"is approved and {approved}"
    if asked.decision == Decision.DECLINED:
        return "is declined"
    is_waiting = waiting(type(asked)).filter(pk=asked.pk).exists()
    return "waits for approval" if is_waiting else "was not decided in time"


def _decided(asked: WaitingAct) -> str:
    assert asked.decided_by is not None
    assert asked.decided_at is not None
    decided = Decision(asked.decision).label.lower()
    return f"Already {decided} by {asked.decided_by.email} on {timestamps.in_words(asked.decided_at)}."
