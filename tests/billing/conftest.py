from typing import Any

import pytest

from billing.ledger import reading
from billing.models import Account, LedgerEntry
from tests import factories, usage
from tests.billing.ledger_entries import spend
from tests.conftest import client_for


@pytest.fixture
def entries(bob: Account) -> list[LedgerEntry]:
    """Bob's 36 entries of every type and of two keys, the most recent first. No two have the same time."""
    for number in range(4):
        usage.buy(bob, 2_000, f"pi_{number}")
        for _ in range(3):
            spend(bob, 7_000_001, "key-a")
        factories.credit(bob, 500)
        factories.credit(bob, 1)
        spend(bob, 12_345_678, "key-b")
        spend(bob, 0, "key-a")
        usage.refund(bob, 100, f"re_{number}")
    return list(LedgerEntry.objects.filter(account=bob).order_by("-seq"))


@pytest.fixture
def bobs_client(bob: Account) -> Any:
    """A client with a key of Bob's."""
    return client_for(factories.make_key(bob)[1])


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BATCH_ENTRIES", 5)
