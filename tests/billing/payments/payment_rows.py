"""A payment as a row, open and paid."""

from datetime import UTC, datetime

import pytest

from billing.models import Account, Payment

NOW = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture
def payment(alice: Account) -> Payment:
    return Payment.objects.create(account=alice, amount_cents=2_000, processor="stripe", is_live=False)


@pytest.fixture
def paid(payment: Payment) -> Payment:
    Payment.objects.update(**paid_columns(payment))
    payment.refresh_from_db()
    return payment


def paid_columns(payment: Payment) -> dict[str, object]:
    return {"status": "PAID", "credit": payment.account.entries.get(seq=1), "receipt_number": 1, "paid_at": NOW}
