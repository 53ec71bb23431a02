"""An HTTP server on loopback with the part of Stripe's API that the gateway uses, and with Stripe's state.

It keeps Checkout Sessions, Payment Intents with their charges, disputes and idempotency keys, and signs events as Stripe does.
A test plays payers, banks and the seller by its methods; each returns the event that Stripe would send.
"""

import copy
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import stripe

SECRET_KEY = "sk_test_example"
WEBHOOK_SECRET = "whsec_example"
SETTINGS = {"PAYMENT_PROCESSOR": "stripe", "STRIPE_SECRET_KEY": SECRET_KEY, "STRIPE_WEBHOOK_SECRET": WEBHOOK_SECRET}
Json = dict[str, Any]
DECLINES = {
    "pm_confirm": {"code": "authentication_required", "decline_code": "authentication_required"},
    "pm_expired": {"code": "expired_card", "decline_code": "expired_card"},
    "pm_lost": {"code": "card_declined", "decline_code": "lost_card"},
    "pm_poor": {"code": "card_declined", "decline_code": "insufficient_funds"},
    "pm_never": {"code": "card_declined", "decline_code": "generic_decline", "advice_code": "do_not_try_again"},
}
_numbers = count(1)  # of all servers: no two payments have one id


@dataclass(frozen=True)
class SignedEvent:
    """An event as Stripe delivers it."""

    id: str
    body: str
    signature: str


class Refusal(Exception):
    def __init__(self, status: int, type: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.status, self.error = status, {"type": type, "message": message, **facts}


class StripeServer:
    """The state of the fake. ``requests`` are the requests that it received, as method and path."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.key, self.is_live = SECRET_KEY, False
        self.is_down = False
        self.loses_answers = False  # does what is asked, and does not say so
        self.next_session_id = ""  # instead of a new one
        self.currency = "usd"  # of new sessions, whatever was asked for
        self.intents_currency = ""  # of new charges of kept cards, where it is not what was asked for
        self.method = "pm_works"  # of the next payer who lets a card be kept; its name says what its bank does later
        self.requests: list[tuple[str, str]] = []
        self.sessions: dict[str, Json] = {}
        self.intents: dict[str, Json] = {}
        self.disputes: dict[str, Json] = {}
        self._replies_by_key: dict[str, tuple[Json, Json]] = {}
        self.lock = Lock()

    # --- What payers, banks and the seller do -----------------------------------------------------------------------

    def pay(self, session_id: str) -> SignedEvent:
        """The payer pays by card."""
        self._intend(session_id, "succeeded")
        return self._tell("checkout.session.completed", self.sessions[session_id])

    def order(self, session_id: str) -> SignedEvent:
        """The payer orders a transfer, which takes days."""
        self._intend(session_id, "processing")
        return self._tell("checkout.session.completed", self.sessions[session_id])

    def confirm(self, session_id: str) -> SignedEvent:
        """The bank confirms the transfer."""
        self._intend(session_id, "succeeded")
        return self._tell("checkout.session.async_payment_succeeded", self.sessions[session_id])

    def refuse(self, session_id: str) -> SignedEvent:
        """The bank refuses the transfer."""
        self._intend(session_id, "requires_payment_method")
        self.intent_of(session_id)["last_payment_error"] = {"code": "debit_not_authorized", "message": "The bank refused."}
        return self._tell("checkout.session.async_payment_failed", self.sessions[session_id])

    def expire(self, session_id: str) -> SignedEvent:
        self.sessions[session_id]["status"] = "expired"
        return self._tell("checkout.session.expired", self.sessions[session_id])

    def refund(self, session_id: str, cents: int) -> SignedEvent:
        """The seller refunds ``cents`` more."""
        charge = self.intent_of(session_id)["latest_charge"]
        charge["amount_refunded"] += cents
        return self._tell("charge.refunded", charge)

    def fail_refund(self, session_id: str, cents: int) -> SignedEvent:
        """A refund did not reach the payer: the money is back."""
        charge = self.intent_of(session_id)["latest_charge"]
        charge["amount_refunded"] -= cents
        refund = {"id": self._id("re"), "object": "refund", "payment_intent": charge["payment_intent"], "status": "failed"}
        return self._tell("refund.failed", refund)

    def dispute(self, session_id: str, cents: int, *, currency: str = "usd", withdrawn: int | None = None) -> SignedEvent:
        """The payer's bank withdraws a payment. ``withdrawn`` is in ``currency``, the one of the seller's bank account."""
        intent = self.intent_of(session_id)
        intent["latest_charge"]["disputed"] = True
        dispute = {
            "id": self._id("du"),
            "object": "dispute",
            "amount": cents,
            "currency": "usd",
            "payment_intent": intent["id"],
            "charge": intent["latest_charge"]["id"],
            "balance_transactions": [{"amount": -(cents if withdrawn is None else withdrawn), "currency": currency}],
        }
        self.disputes[dispute["id"]] = dispute
        return self._tell("charge.dispute.funds_withdrawn", dispute)

    def warn(self, session_id: str, cents: int) -> SignedEvent:
        """The payer's bank asks about a payment, and withdraws nothing."""
        self.dispute(session_id, cents)
        dispute = list(self.disputes.values())[-1]
        dispute["balance_transactions"] = []
        return self._tell("charge.dispute.created", dispute)

    def reinstate(self, session_id: str) -> SignedEvent:
        """The bank reinstates the latest dispute of the payment."""
        dispute = [d for d in self.disputes.values() if d["payment_intent"] == self.sessions[session_id]["payment_intent"]][-1]
        back = {**dispute["balance_transactions"][0], "amount": -dispute["balance_transactions"][0]["amount"]}
        dispute["balance_transactions"].append(back)
        return self._tell("charge.dispute.funds_reinstated", dispute)

    def intent_of(self, session_id: str) -> Json:
        return self.intents[self.sessions[session_id]["payment_intent"]]

    def _intend(self, session_id: str, status: str) -> None:
        """Give the session an intent with this status, and a charge once it succeeds."""
        session = self.sessions[session_id]
        if session["payment_intent"] is None:
            intent = self._new_intent(session["amount_total"], session["currency"], session["payment_intent_data"]["metadata"])
            session["payment_intent"] = intent["id"]
            if session["payment_intent_data"].get("setup_future_usage"):
                intent |= {"setup_future_usage": "off_session", "customer": self._id("cus"), "payment_method": self.method}
        intent = self.intent_of(session_id)
        intent["status"], session["status"] = status, "complete"
        session["payment_status"] = "paid" if status == "succeeded" else "unpaid"
        if status == "succeeded":
            self._charge(intent)

    def _new_intent(self, cents: int, currency: str, metadata: Json) -> Json:
        intent: Json = {
            "id": self._id("pi"),
            "object": "payment_intent",
            "amount": cents,
            "currency": currency,
            "livemode": self.is_live,
            "metadata": metadata,
            "created": int(time.time()),
            "latest_charge": None,
            "last_payment_error": None,
            "status": "requires_payment_method",
            "setup_future_usage": None,
            "customer": None,
            "payment_method": None,
        }
        self.intents[intent["id"]] = intent
        return intent

    def _charge(self, intent: Json) -> None:
        intent["latest_charge"] = {
            "id": self._id("ch"),
            "object": "charge",
            "amount": intent["amount"],
            "amount_refunded": 0,
            "disputed": False,
            "payment_intent": intent["id"],
            "payment_method_details": {"card": {"brand": "visa", "last4": "4242"}},
        }

    # --- Events -----------------------------------------------------------------------------------------------------

    def _tell(self, type: str, about: Json) -> SignedEvent:
        return self.event(type, about)

    def event(self, type: str, about: Json, *, secret: str = WEBHOOK_SECRET, sent_at: float | None = None) -> SignedEvent:
        """Sign an event about an object as it is now. An object within it is its id, as in Stripe's events."""
        event_id = self._id("evt")
        data = {"object": {key: value for key, value in about.items() if key != "latest_charge"}}
        event = {"id": event_id, "object": "event", "type": type, "livemode": self.is_live, "data": data}
        body = json.dumps(event)
        header = stripe.WebhookSignature.generate_signature_header(body, secret, None if sent_at is None else int(sent_at))
        return SignedEvent(event_id, body, header)

    # --- The API ----------------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, params: Json, idempotency_key: str | None) -> Json:
        """Answer a request. Raises Refusal."""
        if self.is_down:
            raise Refusal(503, "api_error", "Stripe is down.")
        if method == "POST" and idempotency_key:
            reply = self._answer_once(path, params, idempotency_key)
        else:
            reply = self._route(method, path, params)
        if self.loses_answers:
            raise Refusal(500, "api_error", "The answer was lost on its way.")
        return reply

    def _answer_once(self, path: str, params: Json, key: str) -> Json:
        """Answer again what was answered to this key before; refuse the key for something else."""
        if key in self._replies_by_key:
            first, reply = self._replies_by_key[key]
            if first != {"path": path, **params}:
                raise Refusal(
                    400, "idempotency_error", "Keys for idempotent requests can only be used with the same parameters."
                )
            return self._replied(reply)
        try:
            reply = copy.deepcopy(self._route("POST", path, params))
        except Refusal as refusal:
            if refusal.status != 402:
                raise
            reply = {"refusal": refusal}
        self._replies_by_key[key] = {"path": path, **params}, reply
        return self._replied(reply)

    def _replied(self, reply: Json) -> Json:
        if "refusal" in reply:
            raise reply["refusal"]
        return reply

    def _route(self, method: str, path: str, params: Json) -> Json:
        match [method, *path.strip("/").split("/")]:
            case ["POST", "v1", "checkout", "sessions"]:
                return self._open_session(params)
            case ["GET", "v1", "checkout", "sessions", session_id]:
                session = self._found(self.sessions, session_id)
                intent = session["payment_intent"] and self.intents[session["payment_intent"]]
                return {**session, "payment_intent": intent} if params.get("expand") else session
            case ["POST", "v1", "checkout", "sessions", session_id, "expire"]:
                return self._expire_session(session_id)
            case ["POST", "v1", "payment_intents"]:
                return self._charge_kept_card(params)
            case ["POST", "v1", "refunds"]:
                return self._refund_intent(params)
            case ["GET", "v1", "payment_intents", intent_id]:
                return self._found(self.intents, intent_id)
            case ["GET", "v1", "payment_intents"]:
                since = int(params["created"]["gte"])
                return self._list(intent for intent in self.intents.values() if intent["created"] >= since)
            case ["GET", "v1", "disputes"]:
                return self._list(d for d in self.disputes.values() if d["payment_intent"] == params["payment_intent"])
        raise Refusal(404, "invalid_request_error", f"Unrecognized request URL ({method}: {path}).")

    def _open_session(self, params: Json) -> Json:
        [item] = params["line_items"]
        session_id = self.next_session_id or self._id("cs")
        self.sessions[session_id] = {
            "id": session_id,
            "object": "checkout.session",
            "url": f"{self.origin}/pay/{session_id}",
            "amount_total": int(item["price_data"]["unit_amount"]) * int(item["quantity"]),
            "currency": self.currency,
            "livemode": self.is_live,
            "client_reference_id": params["client_reference_id"],
            "metadata": params["metadata"],
            "payment_intent_data": params["payment_intent_data"],
            "payment_method_options": params.get("payment_method_options"),
            "payment_intent": None,
            "payment_status": "unpaid",
            "status": "open",
        }
        return self.sessions[session_id]

    def _refund_intent(self, params: Json) -> Json:
        charge, cents = self._found(self.intents, params["payment_intent"])["latest_charge"], int(params["amount"])
        if cents > charge["amount"] - charge["amount_refunded"] or charge["disputed"]:
            raise Refusal(400, "invalid_request_error", "The charge cannot be refunded by this amount.")
        charge["amount_refunded"] += cents
        return {"id": self._id("re"), "object": "refund", "amount": cents, "status": "succeeded"}

    def _expire_session(self, session_id: str) -> Json:
        session = self._found(self.sessions, session_id)
        if session["status"] != "open":
            raise Refusal(400, "invalid_request_error", "Only Checkout Sessions with a status of open can be expired.")
        session["status"] = "expired"
        return session

    def _charge_kept_card(self, params: Json) -> Json:
        """Confirm an intent without the payer. The name of the card says what its bank does."""
        assert (params["confirm"], params["off_session"], params["error_on_requires_action"]) == ("true", "true", "true")
        if params["payment_method"] == "pm_gone":
            raise Refusal(400, "invalid_request_error", "No such PaymentMethod: 'pm_gone'", code="resource_missing")
        intent = self._new_intent(int(params["amount"]), self.intents_currency or params["currency"], params["metadata"])
        intent |= {"customer": params["customer"], "payment_method": params["payment_method"]}
        if params["payment_method"] in DECLINES:
            facts = DECLINES[params["payment_method"]]
            intent["last_payment_error"] = {"message": "Your card was declined.", **facts}
            raise Refusal(402, "card_error", "Your card was declined.", **facts, payment_intent=intent)
        intent["status"] = "succeeded"
        self._charge(intent)
        return intent

    def _found(self, objects: dict[str, Json], object_id: str) -> Json:
        if object_id not in objects:
            raise Refusal(404, "invalid_request_error", f"No such object: '{object_id}'", code="resource_missing")
        return objects[object_id]

    def _list(self, items: Iterator[Json]) -> Json:
        return {"object": "list", "data": list(items), "has_more": False, "url": "/v1/list"}

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{next(_numbers):06d}"


def nested(pairs: list[tuple[str, str]]) -> Json:
    """Return what ``a[b][0][c]=value`` means."""
    root: Json = {}
    for name, value in pairs:
        *path, last = re.findall(r"[^\[\]]+", name)
        place = root
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return _with_lists(root)


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    items = {key: _with_lists(each) for key, each in value.items()}
    return list(items.values()) if items and all(key.isdigit() for key in items) else items


@contextmanager
def serving() -> Iterator[StripeServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", parse_qsl(urlsplit(self.path).query))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            self._answer("POST", parse_qsl(body, keep_blank_values=True))

        def _answer(self, method: str, pairs: list[tuple[str, str]]) -> None:
            path = urlsplit(self.path).path
            with server.lock:
                server.requests.append((method, path))
                try:
                    if self.headers["Authorization"] != f"Bearer {server.key}":
                        raise Refusal(401, "invalid_request_error", "Invalid API Key provided.")
                    status, reply = 200, server.answer(method, path, nested(pairs), self.headers.get("Idempotency-Key"))
                except Refusal as refusal:
                    status, reply = refusal.status, {"error": refusal.error}
                body = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = StripeServer(httpd.server_address[1])
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
