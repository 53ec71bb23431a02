"""Books payments: asks the processor for the report of one, compares the two, and books the difference in the ledger.

The webhook, the page of the return from the processor and the daily reconciliation all end in ``book``. It runs under the locks
of the account and the payment: a second call books nothing.
"""

import contextlib
import logging
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Max, Q
from django.http import HttpRequest

from billing import locks, money
from billing.ledger import credits, writer
from billing.models import Account, AccountAlert, BillingDetails, Payment, PaymentEvent, TopUpRule
from billing.payments import refusals
from billing.payments.documents import taxes
from billing.payments.processor import Card, Event, Processor, ProcessorUnavailable, Report, printable
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.text import dollars

logger = logging.getLogger("gateway.payments")


class ReportOutdated(Exception):
    """The payment changed after the processor was asked for the report. Ask again."""


_ATTEMPTS_MAX = 5


@dataclass(frozen=True)
class Booked:
    """The effect of a report, in words, for the record of the event."""

    outcome: PaymentEvent.Outcome
    note: str = ""


def begin(request: HttpRequest | None, account: Account, processor: Processor, amount_cents: int, what: str) -> Payment:
    """Write a payment that was not made yet. The account is locked."""
    owner = {"account": account, "created_by": request.user if request else None}
    payment = Payment.objects.create(amount_cents=amount_cents, processor=processor.name, is_live=processor.is_live, **owner)
    summary = f"Began {what} of {dollars.format_cents(amount_cents)}."
    log.record(request, log.Act.PAYMENT_BEGUN, payment, summary)
    payment.refresh_from_db()
    return payment


def bring_up_to_date(
    processor: Processor, payment_id: UUID, event: Event | None = None, *, intent_id: str | None = None
) -> Booked | None:
    """Book what the processor reports; not in a transaction, because it may take seconds. Raises ProcessorUnavailable.

    Return None if the payment has no page and no payment there.
    """
    for _ in range(_ATTEMPTS_MAX):
        payment = Payment.objects.get(pk=payment_id)
        session_id = payment.session_id or (event.session_id if event else None)
        known_id = payment.intent_id or intent_id or (event.intent_id if event else None)
        if not session_id and not known_id:
            return None
        report = processor.report(session_id, known_id)
        with contextlib.suppress(ReportOutdated):  # something else was booked meanwhile, maybe a newer report
            return book(payment, report, event)
    raise ProcessorUnavailable("the payment changed each time that the processor was asked")


def book(payment: Payment, report: Report, event: Event | None = None) -> Booked:
    """Book what the report says and the ledger does not, and record the event, in one transaction.

    ``payment`` is as it was read before the processor was asked. Raises ReportOutdated, also if another payment took one of the
    processor's ids at the same moment: the next report then contradicts.
    """
    try:
        with transaction.atomic():
            account = locks.lock_account(payment.account_id)
            locked = locks.lock_payment(payment.pk)
            if locked.revision != payment.revision:
                raise ReportOutdated
            booked = _apply_or_refuse(account, locked, report)
            if event:
                record(event, locked.processor, booked, locked)
            return booked
    except IntegrityError as error:
        raise ReportOutdated from error


def _apply_or_refuse(account: Account, payment: Payment, report: Report) -> Booked:
    """Of a contradiction book nothing, and keep for the payer what became of the money."""
    contradiction = find_contradiction(payment, report)
    if not contradiction:
        try:
            with transaction.atomic():
                return _apply(account, payment, report)
        except writer.ReferenceReused as error:
            payment.refresh_from_db()
            contradiction = str(error)
    logger.error("payment %s contradicts the processor's report: %s", payment.pk, contradiction)
    refusal = refusals.explain(payment, report)
    Payment.objects.filter(pk=payment.pk).exclude(refusal=refusal).update(refusal=refusal, revision=payment.revision + 1)
    return Booked(PaymentEvent.Outcome.REFUSED, contradiction)


def record(event: Event, processor: str, booked: Booked, payment: Payment | None = None) -> None:
    """Store the event and its outcome. An event that was stored before stays as it is."""
    row = PaymentEvent(processor=processor, event_id=event.id, type=event.type, payment=payment)
    row.outcome, row.note = booked.outcome, booked.note
    PaymentEvent.objects.bulk_create([row], ignore_conflicts=True)


def find_contradiction(payment: Payment, report: Report) -> str:
    """Return what of the report differs from the payment row, the only source of these facts, or contradicts itself; or ''."""
    wanted = {
        "payment": (str(payment.pk), report.payment_id),
        "amount in cents": (payment.amount_cents, report.amount_cents),
        "currency": (payment.currency, report.currency),
        "live mode": (payment.is_live, report.is_live),
        "payment page": (payment.session_id or report.session_id, report.session_id or payment.session_id),
        "processor's payment": (payment.intent_id or report.intent_id, report.intent_id or payment.intent_id),
    }
    found = [f"the {name} is {ours}, and was reported as {theirs}" for name, (ours, theirs) in wanted.items() if ours != theirs]
    if report.contradiction and not found:
        found.append(report.contradiction)
    if not 0 <= report.refunded_cents <= payment.amount_cents:
        found.append(f"{report.refunded_cents} of {payment.amount_cents} cents were reported as refunded")
    if not 0 <= report.disputed_cents <= money.CENTS_MAX:
        found.append(f"{report.disputed_cents} cents were reported as withdrawn by banks")
    return printable("; ".join(found or _find_foreign_ids(payment, report)), 2_000)


def _find_foreign_ids(payment: Payment, report: Report) -> list[str]:
    """Return the fault of the processor's ids: an id cannot be stored, or belongs to another payment here."""
    ids = [each for each in (report.session_id, report.intent_id) if each]
    if unstorable := [each for each in ids if not isinstance(each, str) or each != printable(each, 255)]:
        return [f"the id {unstorable[0]!a:.100} cannot be stored"]
    others = Payment.objects.filter(Q(session_id__in=ids) | Q(intent_id__in=ids)).exclude(pk=payment.pk)
    return [f"the processor's ids are those of another payment here, {other.pk}" for other in others[:1]]


def _apply(account: Account, payment: Payment, report: Report) -> Booked:
    paid = Payment.Status.PAID
    notes = ["no longer contradicts"] if payment.refusal else []
    payment.refusal = ""
    payment.session_id, payment.intent_id = payment.session_id or report.session_id, payment.intent_id or report.intent_id
    # Without the processor's id nothing counts as paid: there would be nothing to book it by.
    is_certain = bool(payment.intent_id) or report.status != paid
    if is_certain and payment.status not in (paid, report.status):
        notes.append(_change_status(account, payment, report))
    if payment.status == paid:
        notes += _take_back(account, payment, report)
    if not notes:
        return Booked(PaymentEvent.Outcome.UNCHANGED)
    payment.revision += 1
    payment.save()
    return Booked(PaymentEvent.Outcome.APPLIED, "; ".join(notes))


def _change_status(account: Account, payment: Payment, report: Report) -> str:
    payment.status, payment.failure = report.status, report.failure
    if report.status != Payment.Status.PAID:
        return f"is now: {payment.get_status_display()}"
    payment.failure = ""
    payment_id = payment.intent_id or ""
    payment.credit = writer.credit_purchase(
        account, amount_cents=payment.amount_cents, processor=payment.processor, payment_id=payment_id, payment=payment
    ).entry
    payment.paid_at = payment.credit.created_at
    payment.receipt_number = 1 + (account.payments.aggregate(last=Max("receipt_number"))["last"] or 0)
    payment.billed_to = {**describe_payer(account), **taxes.describe_rate(), "seller": settings.SELLER_LINES}
    _keep_card(payment, report.card)
    return "credited"


def _keep_card(payment: Payment, card: Card | None) -> None:
    """Turn on the top-up that waits for this payment's card, in the name of who paid. The account is locked."""
    rules = TopUpRule.objects.filter(card_payment=payment)
    if card is None or not rules.exists():
        return
    # A charge of the former card is not asked for again with this one. If it was made, the daily comparison credits it.
    attempts = Payment.objects.filter(attempt_of__card_payment=payment, status=Payment.Status.OPEN, intent_id=None)
    if attempts.update(status=Payment.Status.FAILED, failure="You gave another card.", revision=F("revision") + 1):
        rules.update(attempt=None)
    # Of a dispute without a time, from before times were kept, nothing is known but that it was before this payment.
    disputed = Payment.objects.filter(account_id=payment.account_id, disputed_cents__gt=0, disputed_at=None)
    disputed.update(disputed_at=F("paid_at"))
    kept = {"customer_id": card.customer_id, "method_id": card.method_id, "card": card.words, "card_at": payment.paid_at}
    begun_anew = {"declines": 0, "next_try_at": None, "stopped_because": "", "stopped_by": "", "stop_told": ""}
    owner = {"set_by": payment.created_by, "processor": payment.processor}
    rules.update(is_on=True, card_payment=None, **owner, **kept, **begun_anew)


def describe_payer(account: Account) -> dict[str, str]:
    details = BillingDetails.objects.filter(account=account).first()
    return {"name": details.name, "address": details.address, "tax_id": details.tax_id} if details else {}


def _take_back(account: Account, payment: Payment, report: Report) -> list[str]:
    """Debit what the processor took back and the ledger does not have yet. The total is never more than was paid.

    An amount that staff took back by hand, and a later report up to it, are taken for the same money.
    """
    before_cents = _taken_back_cents(payment)
    if (payment.refunded_cents, payment.disputed_cents) == (report.refunded_cents, report.disputed_cents):
        return []
    is_dispute = payment.refunded_cents == report.refunded_cents
    if report.disputed_cents > payment.disputed_cents:
        payment.disputed_at = pool.database_time()
    payment.refunded_cents, payment.disputed_cents = report.refunded_cents, report.disputed_cents
    assert payment.credit  # a constraint of what is paid
    taken_cents = _taken_back_cents(payment)
    if taken_cents > before_cents:
        by_hand_cents = money.ceil_cents(credits.taken_back_by_hand(payment.credit))
        due_cents = max(taken_cents - by_hand_cents, payment.debited_cents)
    else:
        due_cents = max(payment.debited_cents - (before_cents - taken_cents), 0)
    owed_cents, payment.debited_cents = due_cents - payment.debited_cents, due_cents
    if owed_cents:
        payment.debits += 1
        _debit(account, payment, owed_cents, is_dispute=is_dispute)
    return [f"refunded {payment.refunded_cents} and disputed {payment.disputed_cents} cents in all; booked {-owed_cents:+}"]


def _taken_back_cents(payment: Payment) -> int:
    """Return what the processor says was taken back, at most what was paid."""
    return min(payment.refunded_cents + payment.disputed_cents, payment.amount_cents)


def _debit(account: Account, payment: Payment, owed_cents: int, *, is_dispute: bool) -> None:
    """Debit what is owed; credit it where it is negative: a dispute was decided for the seller, or a refund failed."""
    reference = f"{payment.processor}:{payment.intent_id}:{payment.debits}"
    if owed_cents > 0:
        reason = "Payment disputed at the bank" if is_dispute else "Payment refunded"
        writer.refund(account, payment, amount_cents=owed_cents, reference=reference, reason=reason)
        data = {"payment_id": str(payment.pk), "amount_nanos": money.nanos(owed_cents), "reason": reason}
        AccountAlert.objects.create(account=account, kind=AccountAlert.Kind.PAYMENT_TAKEN_BACK, data=data)
        return
    reason = "Disputed payment reinstated by the bank" if is_dispute else "Refund returned"
    writer.return_refund(account, payment, amount_cents=-owed_cents, reference=reference, reason=reason)
