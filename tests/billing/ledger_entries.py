"""Usage entries of an account, and the ids that the ledger's endpoint lists."""

from datetime import datetime
from typing import Any

from django.db import transaction

from billing import locks
from billing.ledger import movements, writer
from billing.models import Account, LedgerEntry
from gateway_project import identifiers
from gateway_project.db import pipelined_transaction

LEDGER, CSV = "/api/billing/ledger", "/api/billing/ledger.csv"


def spend(account: Account, nanos: int, spender: str) -> LedgerEntry:
    with transaction.atomic():
        entry = writer.debit_usage(
            locks.lock_account(account.pk),
            cost_nanos=nanos,
            reference=identifiers.short_uuid7(),
            model="demo/echo",
            prompt_tokens=3,
            completion_tokens=4,
            settlement="reported",
            spender=spender,
        )
        pipelined_transaction.execute(movements.write_statement(entries=[entry]))
    return LedgerEntry.objects.get(pk=entry.id)


def ids(entries: list[LedgerEntry]) -> list[str]:
    return [str(entry.pk) for entry in entries]


def iso(moment: datetime) -> str:
    return moment.isoformat()


def listed(api: Any, **query: Any) -> list[str]:
    """Return the ids of the entries on a page of the ledger."""
    reply = api.get(LEDGER, query)
    assert reply.status_code == 200, reply.content
    body = reply.json()
    entry_ids = [entry["id"] for entry in body.pop("entries")]
    assert body == {"limit": query.get("limit", 10), "offset": query.get("offset", 0), "count": len(entry_ids)}
    return entry_ids
