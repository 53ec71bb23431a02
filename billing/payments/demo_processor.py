"""A processor for a developer's machine: it moves no money and needs no network. Its payments are files in GATEWAY_VAR."""

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.crypto import salted_hmac

from billing.models import Payment
from billing.payments import processor
from billing.payments.processor import Card, Declined, Event, InvalidEvent, ProcessorUnavailable, Report
from gateway_project import identifiers

WORKING, CONFIRMED, LOST = "works", "needs you", "is lost"  # cards of the demo, by what their bank does later
_ID = re.compile(r"demo_[0-9A-Za-z]{22}")


@dataclass(frozen=True)
class DemoPayment:
    """One payment at the demo processor. ``return_url`` is where its page leads when the payer is done."""

    id: str
    payment_id: str
    amount_cents: int
    currency: str
    return_url: str
    created_at: int
    status: str = Payment.Status.OPEN
    refunded_cents: int = 0
    disputed_cents: int = 0
    failure: str = ""
    keeps_card: bool = False
    method: str = ""
    last_refund: str = ""


class DemoProcessor:
    name = "demo"
    is_live = False
    page_origin = "'self'"

    @property
    def webhook_secret(self) -> str:
        """A secret of this machine, which need not be set."""
        return salted_hmac("billing.payments.demo_processor", "webhook", algorithm="sha256").hexdigest()

    def open_page(self, payment: Payment, *, return_url: str, email: str, keeps_card: bool) -> tuple[str, str]:
        opened_id = f"demo_{identifiers.short_uuid7()}"
        _begin(opened_id, payment, return_url=return_url, keeps_card=keeps_card)
        return opened_id, reverse("demo-payment", args=[opened_id])

    def close_page(self, session_id: str) -> None:
        found = read(session_id)
        if found.status == Payment.Status.OPEN:
            change(found, status=Payment.Status.EXPIRED)

    def charge(self, payment: Payment, card: Card) -> Report:
        """Charge a card, which is what its id says: of a bank that pays, declines, or wants the payer to confirm."""
        if card.method_id != WORKING:
            message = "Your bank asks you to confirm payments." if card.method_id == CONFIRMED else "Your card was declined."
            raise Declined(message, is_final=card.method_id == LOST, needs_payer=card.method_id == CONFIRMED)
        charged_id = f"demo_{payment.pk.hex[:22]}"
        if not (_directory() / f"{charged_id}.json").exists():
            _begin(charged_id, payment, status=Payment.Status.PAID)
        return self.report(charged_id, None)

    def refund(self, payment: Payment, amount_cents: int, *, reference: str) -> None:
        found = read(payment.intent_id or "")
        if found.last_refund != reference:
            change(found, refunded_cents=found.refunded_cents + amount_cents, last_refund=reference)

    def report(self, session_id: str | None, intent_id: str | None) -> Report:
        found = read(session_id or intent_id or "")
        same = ("payment_id", "amount_cents", "currency", "refunded_cents", "disputed_cents", "failure")
        facts: dict[str, Any] = {name: getattr(found, name) for name in same}
        card = Card("demo", found.method, f"Demo card ({found.method})") if found.keeps_card and found.method else None
        status = Payment.Status(found.status)
        return Report(session_id=found.id, intent_id=found.id, status=status, is_live=False, card=card, **facts)

    def parse_event(self, body: bytes, headers: Mapping[str, str]) -> Event:
        import stripe  # here, because it is large, and only payments need it

        signature, age_seconds_max = headers.get(processor.SIGNATURE_HEADER, ""), processor.SIGNATURE_AGE_SECONDS_MAX
        try:
            stripe.WebhookSignature.verify_header(body, signature, self.webhook_secret, age_seconds_max)
            processor.require_recent(signature)
            event = json.loads(body)
            return Event(id=event["id"], type=event["type"], is_live=event["livemode"], session_id=event["session"])
        except (stripe.SignatureVerificationError, ValueError, KeyError, TypeError) as error:
            raise InvalidEvent(type(error).__name__) from error

    def list_paid(self, since: datetime) -> Iterator[Report]:
        for path in sorted(_directory().glob("demo_*.json")):
            found = read(path.stem)
            if found.status == Payment.Status.PAID and found.created_at >= since.timestamp():
                yield self.report(found.id, None)


def sign_event(payment: DemoPayment, type: str) -> tuple[str, dict[str, str]]:
    import stripe

    body = json.dumps({"id": f"evt_{identifiers.short_uuid7()}", "type": type, "livemode": False, "session": payment.id})
    signature = stripe.WebhookSignature.generate_signature_header(body, DemoProcessor().webhook_secret)
    return body, {"Content-Type": "application/json", processor.SIGNATURE_HEADER: signature}


def _begin(id: str, payment: Payment, *, return_url: str = "", **facts: Any) -> None:
    created_at = int(datetime.now(UTC).timestamp())
    write(DemoPayment(id, str(payment.pk), payment.amount_cents, payment.currency, return_url, created_at, **facts))


def read(payment_id: str) -> DemoPayment:
    """Return the payment. Raises ProcessorUnavailable if there is none with this id."""
    try:
        if not _ID.fullmatch(payment_id):
            raise FileNotFoundError(payment_id)
        return DemoPayment(**json.loads((_directory() / f"{payment_id}.json").read_text()))
    except OSError as error:
        raise ProcessorUnavailable(f"there is no demo payment {payment_id}") from error


def change(payment: DemoPayment, **changes: str | int) -> DemoPayment:
    write(changed := replace(payment, **changes))  # type: ignore[arg-type]
    return changed


def write(payment: DemoPayment) -> None:
    descriptor, draft = tempfile.mkstemp(dir=_directory(), prefix=".draft-")
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(payment), file)
    os.replace(draft, _directory() / f"{payment.id}.json")


def _directory() -> Path:
    path: Path = settings.GATEWAY_VAR / "demo-payments"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
