"""Stripe, by its own client. Amounts and states are read from its objects here, and nowhere else.

The payment's id is in the Checkout Session and in the Payment Intent, so that any event leads back to it, in any order.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import stripe
from stripe import StripeClient

from billing.models import Payment
from billing.payments import processor
from billing.payments.processor import Card, Declined, Event, ProcessorUnavailable, Report, printable
from gateway_project.db import pool
from gateway_project.text import dollars

TIMEOUT_SECONDS = 20
PAGE_SECONDS = 3_600
_EXPANDED_INTENT = ["latest_charge"]

# The types that say something about a payment. Everything else that Stripe may send is ignored.
EVENT_TYPES = frozenset({
    "checkout.session.completed", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed",
    "checkout.session.expired",
    "payment_intent.succeeded", "payment_intent.processing", "payment_intent.payment_failed", "payment_intent.canceled",
    "charge.refunded", "charge.refund.updated",
    "refund.created", "refund.updated", "refund.failed",
    "charge.dispute.created", "charge.dispute.updated", "charge.dispute.funds_withdrawn", "charge.dispute.funds_reinstated",
    "charge.dispute.closed",
})  # fmt: skip


class StripeProcessor:
    name = "stripe"
    page_origin = "https://checkout.stripe.com"

    def __init__(self, *, secret_key: str, webhook_secret: str, api_base: str) -> None:
        self.is_live, self.webhook_secret = processor.is_live_key(secret_key), webhook_secret
        self._client = StripeClient(
            secret_key,
            base_addresses={"api": api_base},
            http_client=stripe.RequestsClient(timeout=TIMEOUT_SECONDS),
            max_network_retries=2,  # of requests that Stripe knows again by their idempotency key
        )

    def open_page(self, payment: Payment, *, return_url: str, email: str, keeps_card: bool) -> tuple[str, str]:
        """Open a Checkout Session, under the payment's id as idempotency key."""
        known, product = {"payment": str(payment.pk)}, {"name": "Credit for the Model Gateway"}
        price: Any = {"currency": payment.currency, "unit_amount": payment.amount_cents, "product_data": product}
        description = f"Credit of {dollars.format_cents(payment.amount_cents)}"
        params: Any = {
            "mode": "payment",
            "line_items": [{"price_data": price, "quantity": 1}],
            "client_reference_id": str(payment.pk),
            "metadata": known,
            "payment_intent_data": {"metadata": known, "description": description},
            "customer_email": email,
            "adaptive_pricing": {"enabled": False},  # another currency than the payment's would be refused
            "expires_at": int(payment.created_at.timestamp()) + PAGE_SECONDS,
            "success_url": return_url,
            "cancel_url": return_url,
        }
        if keeps_card:
            params |= {"customer_creation": "always", "payment_method_types": ["card"]}
            params["payment_intent_data"]["setup_future_usage"] = "off_session"
            # Whoever lets a card be charged later shows to its bank that it is theirs, where the bank can ask.
            params["payment_method_options"] = {"card": {"request_three_d_secure": "any"}}
        with _translated():
            session = self._client.v1.checkout.sessions.create(params, {"idempotency_key": f"open-{payment.pk}"})
        return session.id, session.url or ""

    def close_page(self, session_id: str) -> None:
        """Expire the Checkout Session. Stripe refuses that of one that is complete or expired."""
        with _translated():
            try:
                self._client.v1.checkout.sessions.expire(session_id)
            except stripe.InvalidRequestError as error:
                if error.code == "resource_missing":
                    raise

    def charge(self, payment: Payment, card: Card) -> Report:
        """Make and confirm a Payment Intent, under the payment's id as idempotency key."""
        params: Any = {
            "amount": payment.amount_cents,
            "currency": payment.currency,
            "customer": card.customer_id,
            "payment_method": card.method_id,
            "payment_method_types": ["card"],
            "confirm": True,
            "off_session": True,
            "error_on_requires_action": True,  # else the intent would wait for a payer who is not there
            "metadata": {"payment": str(payment.pk)},
            "description": f"Automatic top-up of {dollars.format_cents(payment.amount_cents)}",
            "expand": _EXPANDED_INTENT,
        }
        with _translated():
            try:
                intent = self._client.v1.payment_intents.create(params, {"idempotency_key": f"charge-{payment.pk}"})
            except stripe.CardError as error:
                details: Any = error.error
                codes, advice = {error.code, getattr(details, "decline_code", None)}, getattr(details, "advice_code", None)
                raise Declined(
                    error.user_message or "Your card was declined.",
                    is_final=advice == "do_not_try_again" or not codes.isdisjoint(_FINAL_DECLINES),
                    needs_payer="authentication_required" in codes,
                ) from error
            except stripe.InvalidRequestError as error:  # such as a card that Stripe no longer keeps
                raise Declined("The card can no longer be charged.", is_final=True, needs_payer=False) from error
            return self._report_intent(intent)

    def refund(self, payment: Payment, amount_cents: int, *, reference: str) -> None:
        """Make a Refund, under the reference as idempotency key."""
        params: Any = {"payment_intent": payment.intent_id, "amount": amount_cents}
        with _translated():
            try:
                self._client.v1.refunds.create(params, {"idempotency_key": reference})
            except stripe.InvalidRequestError as error:
                raise processor.RefundRefused(str(error.user_message or error)) from error

    def report(self, session_id: str | None, intent_id: str | None) -> Report:
        with _translated():
            if session_id:
                expanded = ["payment_intent.latest_charge"]
                return self._report_session(self._client.v1.checkout.sessions.retrieve(session_id, {"expand": expanded}))
            return self._report_intent(self._client.v1.payment_intents.retrieve(intent_id or "", {"expand": _EXPANDED_INTENT}))

    def parse_event(self, body: bytes, headers: Mapping[str, str]) -> Event:
        signature, age_seconds_max = headers.get(processor.SIGNATURE_HEADER, ""), processor.SIGNATURE_AGE_SECONDS_MAX
        try:
            event: Any = stripe.Webhook.construct_event(body, signature, self.webhook_secret, age_seconds_max)
            processor.require_recent(signature)
            is_known, about = event.type in EVENT_TYPES, event.data.object
            is_session, is_intent = about.object == "checkout.session", about.object == "payment_intent"
            intent_id = about.id if is_intent else getattr(about, "payment_intent", None)
            return Event(
                id=event.id,
                type=event.type,
                is_live=event.livemode,
                session_id=about.id if is_known and is_session else None,
                intent_id=intent_id if is_known and not is_session else None,
            )
        except (stripe.SignatureVerificationError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise processor.InvalidEvent(type(error).__name__) from error

    def list_paid(self, since: datetime) -> Iterator[Report]:
        with _translated():
            params: Any = {"created": {"gte": int(since.timestamp())}, "limit": 100, "expand": ["data.latest_charge"]}
            for intent in self._client.v1.payment_intents.list(params).auto_paging_iter():
                if intent.status == "succeeded" and _ours(intent):
                    yield self._report_intent(intent)

    def _report_session(self, session: Any) -> Report:
        """Report the payment as its page says it, and what only the intent says, if there is one."""
        intent = session.payment_intent
        of_page = Report(
            payment_id=session.client_reference_id or "",
            session_id=session.id,
            intent_id=None,
            status=_session_status(session),
            amount_cents=session.amount_total or 0,
            currency=session.currency or "",
            is_live=session.livemode,
        )
        if not intent:
            return of_page
        contradiction = _session_contradiction(session, intent)
        return replace(of_page, **self._facts(intent), card=_card(intent), contradiction=contradiction)

    def _report_intent(self, intent: Any) -> Report:
        return Report(
            payment_id=_ours(intent),
            session_id=None,
            status=_INTENT_STATUS.get(intent.status, Payment.Status.OPEN),
            amount_cents=intent.amount,
            currency=intent.currency,
            is_live=intent.livemode,
            contradiction=_charge_contradiction(intent),
            **self._facts(intent),
        )

    def _facts(self, intent: Any) -> dict[str, Any]:
        charge, disputed_cents = intent.latest_charge, 0
        refunded_cents = _whole(charge.amount_refunded) if charge else 0
        if charge and charge.disputed:
            params: Any = {"payment_intent": intent.id, "limit": 100}
            disputed_cents = sum(map(_withdrawn_cents, self._client.v1.disputes.list(params).auto_paging_iter()))
        error = intent.last_payment_error
        failure = printable(error.message or error.code) if error else ""
        return {"intent_id": intent.id, "refunded_cents": refunded_cents, "disputed_cents": disputed_cents, "failure": failure}


def _ours(intent: Any) -> str:
    """Return our id of a payment, or '' if another program takes payments with the same Stripe account."""
    return str(getattr(intent.metadata, "payment", ""))


def _session_contradiction(session: Any, intent: Any) -> str:
    """Return how a page differs from its payment, or ''."""
    statuses = {
        "amount in cents": (session.amount_total, intent.amount),
        "currency": (session.currency, intent.currency),
        "live mode": (session.livemode, intent.livemode),
        "payment": (session.client_reference_id, _ours(intent)),
        "state": (session.payment_status == "paid", intent.status == "succeeded"),
    }
    differing = {name: (page, paid) for name, (page, paid) in statuses.items() if page != paid}
    found = [
        f"the {name} of the page is {page!r}, and that of its payment {paid!r}" for name, (page, paid) in differing.items()
    ]
    return "; ".join([*found, *filter(None, [_charge_contradiction(intent)])])


def _charge_contradiction(intent: Any) -> str:
    charge = intent.latest_charge
    if not charge or intent.status != "succeeded" or charge.amount == intent.amount:
        return ""
    return f"the amount of the payment is {intent.amount!r}, and that of its charge {charge.amount!r}"


def _whole(cents: Any) -> int:
    if type(cents) is not int:
        raise TypeError(f"{cents!r:.40} is no whole number of cents")
    return cents


def _session_status(session: Any) -> Payment.Status:
    """A page that is complete is not yet paid: banks may take days, and may refuse in the end."""
    if session.payment_status == "paid":
        return Payment.Status.PAID
    if session.status == "expired":
        return Payment.Status.EXPIRED
    if session.status == "open" or session.payment_intent is None:
        return Payment.Status.OPEN
    return _INTENT_STATUS.get(session.payment_intent.status, Payment.Status.PROCESSING)


_INTENT_STATUS = {
    "succeeded": Payment.Status.PAID,
    "processing": Payment.Status.PROCESSING,
    "requires_payment_method": Payment.Status.FAILED,
    "canceled": Payment.Status.FAILED,
}


def _withdrawn_cents(dispute: Any) -> int:
    """Return what the bank has withdrawn for a dispute and not reinstated.

    Transactions in another currency, that of the seller's bank account, say only whether the money is withdrawn.
    """
    net = -sum(_whole(transaction.amount) for transaction in dispute.balance_transactions)
    if net <= 0:
        return 0
    is_same_currency = all(transaction.currency == dispute.currency for transaction in dispute.balance_transactions)
    return int(min(net, dispute.amount) if is_same_currency else dispute.amount)


# Declines after which no attempt with the same card can succeed, and those of cards that should not be tried again.
_FINAL_DECLINES = frozenset({
    "authentication_not_handled", "card_not_supported", "currency_not_supported", "expired_card", "fraudulent",
    "incorrect_number", "invalid_account", "lost_card", "merchant_blacklist", "new_account_information_available",
    "pickup_card", "restricted_card", "revocation_of_all_authorizations", "revocation_of_authorization", "stolen_card",
    "stop_payment_order", "transaction_not_allowed",
})  # fmt: skip


def _card(intent: Any) -> Card | None:
    """Return the card that Stripe keeps for further payments, if it is to keep one."""
    if not (intent.setup_future_usage and intent.customer and intent.payment_method):
        return None
    used = intent.latest_charge.payment_method_details.card if intent.latest_charge else None
    words = f"{used.brand.capitalize()} ending in {used.last4}" if used else "card"
    return Card(printable(intent.customer, 255), printable(intent.payment_method, 255), printable(words, 100))


@contextmanager
def _translated() -> Iterator[None]:
    """Give the database connection back while Stripe answers. Any error, also of what it answers, is ProcessorUnavailable."""
    pool.release_connection()
    try:
        yield
    except stripe.InvalidRequestError as error:
        kind = processor.UnknownToProcessor if error.code == "resource_missing" else ProcessorUnavailable
        raise kind(f"{type(error).__name__}: {error.user_message or error}") from error
    except stripe.StripeError as error:
        raise ProcessorUnavailable(f"{type(error).__name__}: {error.user_message or error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProcessorUnavailable(f"its answer is not as documented: {type(error).__name__}: {error}") from error
