"""Requests with a known worst case, and keys whose balance just covers it."""

import json

from billing.models import Account
from tests import chat, factories, usage

CENT = 10_000_000
INPUT, OUTPUT = 500, 1_500  # nanodollars a token: the factory's $0.50 and $1.50 a million


def worst_case(raw: bytes, max_tokens: int) -> int:
    """Return what the documentation promises to hold, computed apart from the code."""
    return chat.prompt_bytes(json.loads(raw)["messages"]) * INPUT + max_tokens * OUTPUT


def with_balance(nanos: int) -> Account:
    """Return an account with exactly this balance in nanodollars."""
    cents = -(-nanos // CENT)
    account = factories.make_account("Exact", cents=cents)
    if cents * CENT > nanos:
        usage.debit(account, cents * CENT - nanos, "before", prompt_tokens=0, completion_tokens=0)
    account.refresh_from_db()
    assert account.balance_nanos == nanos
    return account
