"""The card that an account's automatic top-up pays with: of a payment that a member made for that purpose."""

from billing.models import Account, Payment, TopUpRule
from billing.payments.processor import Card


def expect(account: Account, payment: Payment) -> None:
    """Keep the card of this payment, once it is paid."""
    TopUpRule.objects.filter(account=account).update(card_payment=payment)


def keep(payment: Payment, card: Card | None) -> None:
    """Turn on the top-up that waits for this payment's card, in the name of who paid. The account is locked."""
    if card is None:
        return
    TopUpRule.objects.filter(card_payment=payment).update(
        is_on=True,
        set_by=payment.created_by,
        processor=payment.processor,
        customer_id=card.customer_id,
        method_id=card.method_id,
        card=card.words,
        card_payment=None,
        declines=0,
        next_try_at=None,
        stopped_because="",
    )


def card_of(rule: TopUpRule) -> Card:
    return Card(rule.customer_id, rule.method_id, rule.card)
