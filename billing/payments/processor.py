"""The interface of a processor of payments, and its reports. Amounts are whole cents."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from billing.models import Payment

# Of Stripe, and of the demo processor, which signs as Stripe does.
SIGNATURE_HEADER = "Stripe-Signature"
SIGNATURE_AGE_SECONDS_MAX = 300  # Stripe signs each delivery anew, so that one that is repeated later is young as well


class ProcessorUnavailable(Exception):
    """The processor did not answer, or not as it should. Trying again may help."""


class UnknownToProcessor(ProcessorUnavailable):
    """The processor has no such payment, or shows it to other keys only. Trying again does not help."""


class RefundRefused(Exception):
    """The processor does not pay this back. Trying again does not help."""


class InvalidEvent(Exception):
    """The body is no event of the processor, or its signature is wrong or too old."""


class Declined(Exception):
    """The charge of a kept card was declined; says why, to members. ``needs_payer``: to confirm (3-D Secure)."""

    def __init__(self, message: str, *, is_final: bool, needs_payer: bool) -> None:
        super().__init__(message)
        self.is_final, self.needs_payer = is_final, needs_payer


def printable(value: str | None, characters_max: int = 300) -> str:
    """Return what a processor said as text that can be stored and shown: no control characters, no half of a character."""
    return "".join(each if each.isprintable() else "?" for each in value or "")[:characters_max]


@dataclass(frozen=True)
class Card:
    """A card that the processor keeps for further payments. ``words`` are for people: "Visa ending in 4242"."""

    customer_id: str
    method_id: str
    words: str


@dataclass(frozen=True)
class Report:
    """The state of one payment at the processor at one moment.

    ``payment_id`` is the gateway's own id, and ``disputed_cents`` what banks have withdrawn and not reinstated.
    ``contradiction`` says where the processor's own objects contradict each other, else it is empty.
    """

    payment_id: str
    session_id: str | None
    intent_id: str | None
    status: Payment.Status
    amount_cents: int
    currency: str
    is_live: bool
    refunded_cents: int = 0
    disputed_cents: int = 0
    failure: str = ""
    card: Card | None = None
    contradiction: str = ""


@dataclass(frozen=True)
class Event:
    """A signed event, about a payment if it names one. Raises ValueError if one of its texts cannot be stored."""

    id: str
    type: str
    is_live: bool
    session_id: str | None = None
    intent_id: str | None = None

    def __post_init__(self) -> None:
        for text, length_max in ((self.id, 255), (self.type, 100), (self.session_id or "", 255), (self.intent_id or "", 255)):
            if not (isinstance(text, str) and text == printable(text, length_max)):
                raise ValueError("a text of the event cannot be stored")
        if not self.id:
            raise ValueError("the event has no id")


def require_recent(signature: str) -> None:
    """Raises ValueError if a signature is of the future: Stripe's own client refuses only old ones."""
    times = [part.partition("=")[2] for part in signature.split(",") if part.startswith("t=")]
    if any(int(each) > time.time() + SIGNATURE_AGE_SECONDS_MAX for each in times):
        raise ValueError("the signature is of the future")


def is_live_key(secret_key: str) -> bool:
    """Say whether a key of Stripe's moves real money."""
    return "_live_" in secret_key


class Processor(Protocol):
    """A processor. All methods but ``parse_event`` raise ProcessorUnavailable, and none is called within a transaction."""

    name: str
    is_live: bool
    page_origin: str

    @property
    def webhook_secret(self) -> str:
        """The secret with which the processor signs events, or ''."""

    def open_page(self, payment: Payment, *, return_url: str, email: str, keeps_card: bool) -> tuple[str, str]:
        """Open the page that takes this payment, and may keep the card: its id and URL. A payment gets the same page again."""

    def close_page(self, session_id: str) -> None:
        """Close a page, which then takes no payment. One that is paid or closed already stays as it is."""

    def charge(self, payment: Payment, card: Card) -> Report:
        """Charge a kept card without the payer. The same payment is charged once. Raises Declined."""

    def refund(self, payment: Payment, amount_cents: int, *, reference: str) -> None:
        """Pay back a part of a paid payment, once for each reference. Raises RefundRefused."""

    def report(self, session_id: str | None, intent_id: str | None) -> Report:
        """Report the payment of a page, or else that of the processor's own id."""

    def parse_event(self, body: bytes, headers: Mapping[str, str]) -> Event:
        """Verify the signature and its time, neither old nor in the future, then parse. Raises InvalidEvent."""

    def list_paid(self, since: datetime) -> Iterator[Report]:
        """List the payments of this gateway that were paid since then."""
