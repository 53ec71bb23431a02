"""The card that an account's automatic top-up pays with: of a payment that a member made for that purpose."""

from django.db.models import F

from billing.models import Payment, TopUpRule
from billing.payments.processor import Card


def keep(payment: Payment, card: Card | None) -> None:
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
    rules.update(
        is_on=True,
        set_by=payment.created_by,
        processor=payment.processor,
        customer_id=card.customer_id,
        method_id=card.method_id,
        card=card.words,
        card_at=payment.paid_at,
        card_payment=None,
        declines=0,
        next_try_at=None,
        stopped_because="",
        stopped_by="",
        stop_told="",
    )
