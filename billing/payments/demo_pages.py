"""The demo processor's own page, for payer, bank and seller. Each button sends the gateway a signed event over HTTP."""

from dataclasses import dataclass
from typing import Any

import requests
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from billing.accounts.member_pages import form_page
from billing.accounts.roles import Permission
from billing.models import Account, Payment
from billing.payments import configuration, demo_processor
from billing.payments.processor import ProcessorUnavailable
from gateway_project.db import pool
from gateway_project.text import dollars
from gateway_project.web import hosts

EVENT_SECONDS_MAX = 20


@dataclass(frozen=True)
class Action:
    """A button: its changes, the type of the event about them, and whether the payer is done afterwards."""

    label: str
    event: str
    changes: dict[str, Any]
    returns: bool = False


@form_page(Permission.PAY)
def show(request: HttpRequest, account: Account, demo_id: str) -> HttpResponse:
    """Show the buttons that are possible now; a POST does one of them."""
    processor = configuration.processor()
    payment = account.payments.filter(session_id=demo_id, processor="demo").first()
    if processor is None or processor.name != "demo" or payment is None:
        raise Http404
    try:
        demo = demo_processor.read(demo_id)
    except ProcessorUnavailable:
        raise Http404 from None
    actions = _actions(demo)
    action = actions.get(request.POST.get("action", "")) if request.method == "POST" else None
    if action is None:
        amounts = {"amount": demo.amount_cents, "refunded": demo.refunded_cents, "disputed": demo.disputed_cents}
        usd = {name: dollars.format_cents(cents) for name, cents in amounts.items()}
        return render(request, "billing/demo.html", {"demo": demo, "actions": actions, **usd})
    _send(request, demo_processor.change(demo, **action.changes), action.event)
    return redirect(demo.return_url if action.returns else request.path)


def _actions(demo: demo_processor.DemoPayment) -> dict[str, Action]:
    paid, processing, expired = Payment.Status.PAID, Payment.Status.PROCESSING, Payment.Status.EXPIRED
    if demo.status == Payment.Status.OPEN and demo.keeps_card:
        cards = {
            "pay": ("Pay with a card that works", demo_processor.WORKING),
            "confirm": ("Pay with a card whose bank will ask you to confirm", demo_processor.CONFIRMED),
            "lose": ("Pay with a card that you will report lost", demo_processor.LOST),
        }
        return {
            name: Action(label, "checkout.session.completed", {"status": paid, "method": method}, returns=True)
            for name, (label, method) in cards.items()
        }
    if demo.status == Payment.Status.OPEN:
        return {
            "pay": Action("Pay with a card", "checkout.session.completed", {"status": paid}, returns=True),
            "bank": Action("Pay by bank transfer", "checkout.session.completed", {"status": processing}, returns=True),
            "leave": Action("Let the page expire", "checkout.session.expired", {"status": expired}, returns=True),
        }
    if demo.status == processing:
        refusal = {"status": Payment.Status.FAILED, "failure": "The bank refused the transfer."}
        return {
            "confirm": Action("As the bank: confirm", "checkout.session.async_payment_succeeded", {"status": paid}),
            "refuse": Action("As the bank: refuse", "checkout.session.async_payment_failed", refusal),
        }
    return _actions_of_paid(demo) if demo.status == paid else {}


def _actions_of_paid(demo: demo_processor.DemoPayment) -> dict[str, Action]:
    left_cents = demo.amount_cents - demo.refunded_cents - demo.disputed_cents
    actions = {}
    if left_cents > 0:
        half = {"refunded_cents": demo.refunded_cents + (left_cents + 1) // 2}
        rest = {"refunded_cents": demo.refunded_cents + left_cents}
        disputed = {"disputed_cents": demo.disputed_cents + left_cents}
        actions["half"] = Action("As the seller: refund half", "charge.refunded", half)
        actions["refund"] = Action("As the seller: refund", "charge.refunded", rest)
        actions["dispute"] = Action("As the bank: dispute", "charge.dispute.funds_withdrawn", disputed)
    if demo.disputed_cents:
        actions["win"] = Action("As the bank: reinstate", "charge.dispute.funds_reinstated", {"disputed_cents": 0})
    return actions


def _send(request: HttpRequest, demo: demo_processor.DemoPayment, type: str) -> None:
    """Send the event to the webhook. Pages need it not: they ask the processor themselves."""
    body, headers = demo_processor.sign_event(demo, type)
    url = hosts.base_url(request) + reverse("payment-webhook", args=["demo"])
    pool.release_connection()
    try:
        reply = requests.post(url, data=body, headers=headers, timeout=EVENT_SECONDS_MAX)
        reply.raise_for_status()
    except requests.RequestException as error:
        messages.warning(request, f"The event was not delivered: {error}")
