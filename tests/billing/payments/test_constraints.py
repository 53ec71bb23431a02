"""The database refuses violations of payments. Every constraint and trigger has a test, which is named after it."""

import pytest

from billing.models import Account, InvoiceFile, Payment, PaymentDifference, PaymentEvent, TopUpRule
from tests import factories
from tests.billing.payments.payment_rows import NOW, paid, paid_columns, payment
from tests.billing.refused_rows import refused

__all__ = ["paid", "payment"]


def top_up(account: Account, **columns: object) -> TopUpRule:
    rule = {"threshold_cents": 500, "amount_cents": 2_000, "month_cents_max": 2_000, **columns}
    return TopUpRule.objects.create(account=account, set_by=account.members.get(), processor="stripe", **rule)


@pytest.mark.parametrize("cents", [0, -1])
def test_a_payment_is_of_some_amount(alice, cents):
    with refused("a_payment_is_of_some_amount"):
        Payment.objects.create(account=alice, amount_cents=cents, processor="stripe", is_live=False)


@pytest.mark.parametrize("missing", ["status", "credit", "receipt_number", "paid_at"])
def test_a_payment_is_paid_when_it_is_credited(payment, missing):
    columns = paid_columns(payment) | {missing: "OPEN" if missing == "status" else None}
    with refused("a_payment_is_paid_when_it_is_credited"):
        Payment.objects.update(**columns)


@pytest.mark.parametrize("column", ["refunded_cents", "disputed_cents"])
def test_a_refund_or_dispute_is_never_negative(paid, column):
    with refused("a_refund_or_dispute_is_never_negative"):
        Payment.objects.update(**{column: -1})


@pytest.mark.parametrize("cents", [-1, 2_001])
def test_no_more_is_taken_back_than_was_paid(paid, cents):
    with refused("no_more_is_taken_back_than_was_paid"):
        Payment.objects.update(debited_cents=cents)
    Payment.objects.update(debited_cents=2_000)


def test_only_what_was_paid_is_taken_back(payment):
    with refused("only_what_was_paid_is_taken_back"):
        Payment.objects.update(debited_cents=1)


def test_a_receipts_number_is_used_once(paid):
    other = Payment.objects.create(account=paid.account, amount_cents=2_000, processor="stripe", is_live=False)
    factories.credit(paid.account, 2_000)
    with refused("a_receipts_number_is_used_once"):
        columns = paid_columns(other) | {"credit": paid.account.entries.get(seq=2)}
        Payment.objects.filter(pk=other.pk).update(**columns)


def test_a_payment_keeps_its_amount(payment, bob):
    others = {"account": bob, "amount_cents": 1, "currency": "eur", "processor": "demo", "is_live": True}
    for name, value in others.items():
        with refused("the account, amount and currency of a payment never change"):
            Payment.objects.update(**{name: value})
    with refused("a payment is never deleted"):
        payment.delete()


def test_a_payment_keeps_its_amount_and_stays_paid(paid):
    for columns in ({"status": "OPEN"}, {"receipt_number": 2}, {"intent_id": "pi_other"}):
        with refused("what is paid stays paid"):
            Payment.objects.update(**columns)


def test_an_event_is_kept_once(db):
    PaymentEvent.objects.create(processor="stripe", event_id="evt_1", type="charge.refunded", outcome="IGNORED")
    with refused("an_event_is_kept_once"):
        PaymentEvent.objects.create(processor="stripe", event_id="evt_1", type="charge.refunded", outcome="APPLIED")


def test_payment_events_are_never_changed(db):
    event = PaymentEvent.objects.create(processor="stripe", event_id="evt_1", type="charge.refunded", outcome="IGNORED")
    with refused("UPDATE is refused"):
        PaymentEvent.objects.update(outcome="APPLIED")
    with refused("DELETE is refused"):
        event.delete()


def test_a_difference_is_open_once(payment):
    columns = {"processor": "stripe", "subject": "pi_1", "payment": payment, "sentence": "is paid there and not here"}
    first = PaymentDifference.objects.create(**columns)
    with refused("a_difference_is_open_once"):
        PaymentDifference.objects.create(**columns)
    PaymentDifference.objects.filter(pk=first.pk).update(gone_at=NOW)
    PaymentDifference.objects.create(**columns)


@pytest.mark.parametrize("columns", [{"threshold_cents": -1}, {"amount_cents": 0}, {"month_cents_max": 1_999}], ids=str)
def test_a_top_up_fits_in_its_month(alice, columns):
    with refused("a_top_up_fits_in_its_month"):
        top_up(alice, **columns)


def test_a_top_up_that_is_on_has_a_card(alice):
    with refused("a_top_up_that_is_on_has_a_card"):
        top_up(alice, is_on=True)


def test_invoices_stay_as_issued(alice):
    issued = InvoiceFile.objects.create(account=alice, number="0001", content=b"%PDF")
    for change in (lambda: InvoiceFile.objects.update(content=b"other"), issued.delete):
        with refused("the book is append-only"):
            change()


def test_an_invoice_is_issued_once(alice):
    InvoiceFile.objects.create(account=alice, number="0001", content=b"%PDF")
    with refused("an_invoice_is_issued_once"):
        InvoiceFile.objects.create(account=alice, number="0001", content=b"%PDF")


def test_payment_events_are_summed_up(payment):
    digests = []
    for number in range(2):
        said = {"event_id": f"evt_{number}", "type": "charge.refunded", "outcome": "IGNORED"}
        PaymentEvent.objects.create(payment=payment, processor="stripe", **said)
        payment.refresh_from_db()
        digests.append(payment.events_digest)
    assert len({None, *digests}) == 3
