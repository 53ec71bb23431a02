"""Sends what is due: webhooks side by side, and mails one after another. The tasks of Celery call it.

Each request of a round ends within seconds, and none waits for another, so a slow endpoint delays only its own alerts.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from gevent.pool import Pool

from billing.alerts import deliveries, endpoints, payload
from billing.alerts.deliveries import Attempt
from billing.models import AccountAlert, AlertDelivery
from billing.sign_in import mails
from gateway_project import secretbox
from gateway_project.net import addresses, http
from gateway_project.text import web_addresses
from gateway_project.web import hosts

logger = logging.getLogger("gateway.warnings")

WEBHOOKS_AT_ONCE = 100
MAILS_AT_ONCE = 1  # a mail server may take long: a claim must not end before its mail is sent
RUN_SECONDS_MAX = 30  # then a run begins no further round: the next run is due

_BILLING = "the page Billing of the dashboard"
_DEADLINES = http.Deadlines(connect_seconds=5, first_byte_seconds=10, idle_seconds=10, total_seconds=10)
_UNREADABLE = Attempt(0, "its secret cannot be read: create a new one", is_final=True)
_UNWRITABLE = Attempt(0, "it cannot be written: the gateway's log says why", is_final=True, is_ours=True)


@dataclass(frozen=True)
class _Request:
    """All data for sending a webhook, read before: while servers answer there are no queries."""

    url: str
    headers: dict[str, str]
    body: bytes


def send_webhooks() -> int:
    """Send what is due to endpoints, side by side. Return how many attempts were made."""

    def send(claimed: list[AlertDelivery]) -> Iterable[Attempt]:
        requests = [_build_or_refuse(each) for each in claimed]
        attempts: Iterable[Attempt] = Pool(len(claimed)).imap(_send_webhook, requests)
        return attempts

    return _run(deliveries.claim_webhooks, WEBHOOKS_AT_ONCE, send)


def send_mails() -> int:
    """Send mails that are due. Return how many attempts were made."""
    return _run(deliveries.claim_mails, MAILS_AT_ONCE, partial(map, _send_mail))


def _run(
    claim: Callable[[int], list[AlertDelivery]], count_max: int, send: Callable[[list[AlertDelivery]], Iterable[Attempt]]
) -> int:
    deliveries.prepare()
    attempts, ends_at = 0, time.monotonic() + RUN_SECONDS_MAX
    while time.monotonic() < ends_at and (claimed := claim(count_max)):
        for delivery, attempt in zip(claimed, send(claimed), strict=True):
            deliveries.record(delivery, attempt)
        attempts += len(claimed)
    return attempts


# --- Webhooks -----------------------------------------------------------------------------------------------------


def _build_or_refuse(delivery: AlertDelivery) -> _Request | Attempt:
    """Return the signed request, or a failed attempt: an error of one webhook stops no other."""
    try:
        assert delivery.endpoint
        body, id = payload.encode(delivery.alert), payload.message_id(delivery.alert)
        keys = endpoints.read_secrets(delivery.endpoint)
        signed = endpoints.build_headers(keys, message_id=id, timestamp=int(time.time()), body=body)
        return _Request(delivery.endpoint.url, {"Content-Type": "application/json", **signed}, body)
    except secretbox.Unreadable:
        return _UNREADABLE
    except Exception:
        logger.exception("the webhook %s cannot be written", delivery.pk)
        return _UNWRITABLE


def _send_webhook(request: _Request | Attempt) -> Attempt:
    if isinstance(request, Attempt):
        return request
    begun_at = time.monotonic()
    reason, status = "", None
    try:
        if web_addresses.parse(request.url).scheme != "https" and not settings.GATEWAY_DEVELOPMENT:
            raise http.ConnectFailed("not https")
        status = http.post_alone(
            request.url,
            headers=request.headers,
            body=request.body,
            deadlines=_DEADLINES,
            private_networks=settings.PRIVATE_WEBHOOKS,
        )
        reason = "" if 200 <= status < 300 else f"it answered {status}"
    except http.OutboundError as error:
        reason = _describe(error)
    return Attempt(round((time.monotonic() - begun_at) * 1000), reason, status, is_final=status == 410)


def _describe(error: http.OutboundError) -> str:
    """Return the reason in words of our own: what a server sent may be anything."""
    match error:
        case http.LocalFault() if isinstance(error.__cause__, addresses.NotPermitted):
            return "its host name resolves to a private address, and we do not send there"
        case http.ConnectFailed():
            return "could not connect: host name not found, no answer, or an invalid certificate"
        case http.TimedOut():
            return f"no answer within {_DEADLINES.total_seconds} seconds"
    return "the connection broke off, or the answer was not HTTP"


# --- Mails --------------------------------------------------------------------------------------------------------


def _send_mail(delivery: AlertDelivery) -> Attempt:
    """Send it. One that is sent twice, after a crash, has the same Message-ID. One that cannot be written stops no other."""
    begun_at, alert = time.monotonic(), delivery.alert
    if not deliveries.payers(alert).filter(user__email=delivery.email).exists():
        return Attempt(0, "the recipient is no longer an owner or billing member", is_final=True)
    try:
        words = payload.describe(alert)
    except Exception:
        logger.exception("the mail %s cannot be written", delivery.pk)
        return _UNWRITABLE
    context: dict[str, Any] = {"account": alert.account.name, "at": alert.created_at, "words": words, **_link(alert)}
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip("> ")
    reason = ""
    try:
        mails.deliver(delivery.email, "alert", message_id=f"<{delivery.pk.hex}@{domain}>", **context)
    except mails.NotSent as error:
        reason = str(error)
    return Attempt(round((time.monotonic() - begun_at) * 1000), reason)


def _link(alert: AccountAlert) -> dict[str, str]:
    """Return where the mail leads, and what its button says if it is not the alerts."""
    match AccountAlert.Kind(alert.kind):
        case AccountAlert.Kind.BALANCE_LOW:
            return {"link": hosts.mailed_page("billing", _BILLING), "button": "Add credit"}
        case AccountAlert.Kind.KEY_HOUR_UNUSUAL if alert.data["key_url"]:
            more = {"more": "See its requests", "more_link": alert.data["requests_url"]}
            return {"link": alert.data["key_url"], "button": "Open the key, to pause it", **more}
        case AccountAlert.Kind.RUN_NEAR_BUDGET | AccountAlert.Kind.RUN_AT_BUDGET:
            run = (alert.data["key_id"], alert.data["run"])
            return {"link": hosts.mailed_page("run", "the Runs of your dashboard", *run), "button": "View the run"}
        case AccountAlert.Kind.MONTH_NEAR_BUDGET | AccountAlert.Kind.MONTH_AT_BUDGET:
            return {"link": hosts.mailed_page("budgets", "the Budgets of your dashboard"), "button": "View budgets"}
        case AccountAlert.Kind.TOP_UP_STOPPED:
            return {"link": hosts.mailed_page("top-up", _BILLING), "button": "Open automatic top-up"}
        case AccountAlert.Kind.PAYMENT_BOOKED if alert.data["payment_id"]:
            return {"link": hosts.mailed_page("receipt", _BILLING, alert.data["payment_id"]), "button": "View receipt"}
        case AccountAlert.Kind.PAYMENT_TAKEN_BACK:
            return {"link": hosts.mailed_page("receipt", _BILLING, alert.data["payment_id"]), "button": "View credit note"}
        case kind if kind in AccountAlert.NOTICES and kind != AccountAlert.Kind.CHANGES_SUMMED:
            return {"link": hosts.mailed_page("statement", "the Statement of your dashboard"), "button": "View statement"}
    return {"link": hosts.mailed_page("alerts", "the Alerts page of your dashboard")}
