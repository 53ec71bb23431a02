"""Says in a refusal for money since when running requests hold some of it. Only who is refused waits for this query."""

from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Exists, Min, OuterRef

from billing.models import Hold
from completions.models import Completion
from gateway_project import errors
from gateway_project.db import pool
from gateway_project.text import dollars, timestamps
from keys.authentication import Caller


def tell(refusal: errors.MoneyRefused, caller: Caller) -> None:
    """Add how much is held and since when, for people and for programs. Without the database: only how much."""
    if not refusal.held_nanos:
        return
    try:
        caller.enter_cell()  # where the batch has found its account
        since = pool.read(partial(_oldest, refusal, caller))
    except pool.DATABASE_ERRORS:
        since = None
    finally:
        pool.release_connection()
    held, began = dollars.format_usd(refusal.held_nanos), f", the oldest since {timestamps.in_words(since)}" if since else ""
    reason, affords, tokens = refusal.message.partition(" It affords ")
    refusal.message = f"{reason} Running requests hold {held}{began}.{affords}{tokens}"
    refusal.details = {**(refusal.details or {}), "held_since": since and timestamps.iso_millis(since)}


def _oldest(refusal: errors.MoneyRefused, caller: Caller) -> datetime | None:
    holds = Hold.objects.filter(account=caller.account_id, state=Hold.State.HELD)
    if refusal.limit_source != "account":
        counted: dict[str, dict[str, Any]] = {
            "key": {"key": caller.key_id, "spending_day__gte": refusal.first_day},
            "run": {"key": caller.key_id, "run": refusal.counted_id},
            "budget": {"account": caller.account_id, "budgets__has_key": refusal.counted_id},
        }
        completions = Completion.objects.filter(**counted[refusal.limit_source])
        holds = holds.filter(Exists(completions.filter(pk=OuterRef("reference"))))
    oldest: datetime | None = holds.aggregate(oldest=Min("created_at"))["oldest"]
    return oldest
