"""Writes a payment, opens the processor's page for it, and closes the page of one that is cancelled."""

from datetime import timedelta

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.urls import reverse

from billing import locks
from billing.models import Account, Payment, TopUpRule
from billing.payments import booking
from billing.payments.processor import Processor, ProcessorUnavailable
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.text import dollars
from gateway_project.web import hosts

BEGUN_MAX, BEGUN_TIME = 20, timedelta(hours=1)  # of one account, against trying many cards and flooding the processor


class NotBegun(Exception):
    """No payment was begun; says why, to the payer."""


def begin(
    request: HttpRequest, account: Account, processor: Processor, *, amount_cents: int, keeps_card: bool = False
) -> Payment:
    """Write the payment, then open the processor's page for it, at ``page_url``. Raises NotBegun; the payment then failed."""
    payment = _write(request, account, processor, amount_cents)
    if keeps_card:
        TopUpRule.objects.filter(account=account).update(card_payment=payment)  # ``booking`` keeps it once it is paid
    return_url = hosts.base_url(request) + reverse("payment", args=[payment.pk])
    try:
        email = request.user.email  # type: ignore[union-attr]
        page = processor.open_page(payment, return_url=return_url, email=email, keeps_card=keeps_card)
        payment.session_id, payment.page_url = page
        with transaction.atomic():
            payment.save(update_fields=["session_id", "page_url"])  # only these: an event may have paid it meanwhile
    except (ProcessorUnavailable, IntegrityError) as error:  # of the database, if the page is that of another payment
        failed = {"status": Payment.Status.FAILED, "failure": "The payment page could not be opened."}
        Payment.objects.filter(pk=payment.pk, session_id=None).update(**failed)
        raise NotBegun("We could not open the payment page. You were not charged. Try again in a minute.") from error
    return payment


def cancel(request: HttpRequest, payment: Payment, processor: Processor) -> bool:
    """Close the page of a payment. Return False if it ended otherwise. Raises ProcessorUnavailable: it can be closed again."""
    processor.close_page(payment.session_id or "")
    booking.bring_up_to_date(processor, payment.pk)
    with transaction.atomic():
        account = locks.lock_account(payment.account_id)
        closed = account.payments.filter(pk=payment.pk, status=Payment.Status.EXPIRED, failure="")
        is_cancelled = bool(closed.update(failure=f"Cancelled by {request.user}."))
        if is_cancelled:
            summary = f"Cancelled a payment of {dollars.format_cents(payment.amount_cents)}."
            log.record(request, log.Act.PAYMENT_CANCELLED, payment, summary)
    return is_cancelled


def _write(request: HttpRequest, account: Account, processor: Processor, amount_cents: int) -> Payment:
    with transaction.atomic():
        if not locks.lock_account(account.pk).is_active:
            raise PermissionDenied("This account is closed.")
        begun = account.payments.filter(created_by__isnull=False, created_at__gt=pool.database_time() - BEGUN_TIME)
        if begun.count() >= BEGUN_MAX:
            raise NotBegun("Too many payments started in the last hour. You were not charged. Try again later.")
        return booking.begin(request, account, processor, amount_cents, "a payment")
