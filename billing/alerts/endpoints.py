"""Webhook endpoints of an account: made, changed and tested under its lock. Secrets are encrypted, and shown once.

Webhooks are signed as Standard Webhooks does (https://www.standardwebhooks.com), so that its libraries verify them.
"""

import base64
import hmac
import secrets
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from billing import locks
from billing.models import Account, AccountAlert, AlertDelivery, WebhookEndpoint
from gateway_project import secretbox
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from gateway_project.net import addresses
from gateway_project.text import web_addresses

_PREFIX = "whsec_"
GRACE = timedelta(hours=24)  # for which the secret before a rotation signs, too
TESTS_MAX = 10  # in an hour, of an account
REPEATS_MAX = 30  # in an hour, of an account: one that deletes and makes endpoints gets no more
REPEAT_PAUSE = timedelta(seconds=1)
_ENDED = AlertDelivery.State.DELIVERED


class EndpointRefused(Exception):
    """Nothing was done; says why, as a sentence."""


def check_url(url: str) -> None:
    """Raises EndpointRefused for an address that nothing may be sent to. The address of its name is checked at each attempt."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise EndpointRefused("The address must be ASCII, without spaces.")
    parts = web_addresses.parse(url)
    schemes = ("https", "http") if settings.GATEWAY_DEVELOPMENT else ("https",)
    if parts.scheme not in schemes or not parts.hostname:
        raise EndpointRefused(f"The address must begin with {' or '.join(f'{scheme}://' for scheme in schemes)} and a host.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise EndpointRefused("Remove the user, password or fragment. Deliveries are signed instead.")
    try:
        addresses.check_host(parts.hostname, settings.PRIVATE_WEBHOOKS)
    except ValueError:
        raise EndpointRefused("The host must be public.") from None


def make_secret() -> str:
    """Return a new secret, as receivers configure it."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def make(request: HttpRequest, account: Account, url: str) -> tuple[WebhookEndpoint, str]:
    """Return a new endpoint and its secret. Raises EndpointRefused."""
    check_url(url)
    secret = make_secret()
    with transaction.atomic():
        locks.lock_account(account.pk)
        if account.webhook_endpoints.count() >= settings.ACCOUNT_WEBHOOKS_MAX:
            raise EndpointRefused(f"An account has at most {settings.ACCOUNT_WEBHOOKS_MAX} webhooks. Delete one first.")
        endpoint = WebhookEndpoint(account=account, url=url)
        endpoint.sealed_secret = secretbox.encrypt(secret, purpose=_purpose(endpoint))
        endpoint.save(force_insert=True)
        log.record(request, log.Act.ENDPOINT_MADE, endpoint, f"Created the webhook {endpoint}.")
    return endpoint, secret


def rotate(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    """Return a new secret. The one before signs, too, for GRACE; one before that no more."""
    secret = make_secret()
    with transaction.atomic():
        endpoint = _lock(endpoint)
        endpoint.sealed_previous_secret, endpoint.previous_until = endpoint.sealed_secret, pool.database_time() + GRACE
        endpoint.sealed_secret = secretbox.encrypt(secret, purpose=_purpose(endpoint))
        endpoint.save(update_fields=["sealed_secret", "sealed_previous_secret", "previous_until"])
        log.record(request, log.Act.ENDPOINT_CHANGED, endpoint, f"Rotated the secret of the webhook {endpoint}.")
    return secret


def set_paused(request: HttpRequest, endpoint: WebhookEndpoint, *, is_paused: bool) -> None:
    """Pause or resume the endpoint. During a pause, waiting deliveries wait, and new alerts are not stored for it."""
    with transaction.atomic():
        endpoint = _lock(endpoint)
        endpoint.is_paused, endpoint.disabled_at, endpoint.failing_since = is_paused, None, None
        endpoint.save(update_fields=["is_paused", "disabled_at", "failing_since"])
        verb = "Paused" if is_paused else "Resumed"
        log.record(request, log.Act.ENDPOINT_CHANGED, endpoint, f"{verb} the webhook {endpoint}.")


def delete(request: HttpRequest, endpoint: WebhookEndpoint) -> None:
    """Delete the endpoint, with its deliveries."""
    with transaction.atomic():
        endpoint = _lock(endpoint)
        log.record(request, log.Act.ENDPOINT_DELETED, endpoint, f"Deleted the webhook {endpoint}.")
        endpoint.delete()


def send_test(request: HttpRequest, endpoint: WebhookEndpoint) -> None:
    """Let an alert of no meaning be sent to this endpoint alone. Raises EndpointRefused."""
    with transaction.atomic():
        endpoint = _lock(endpoint)
        now = pool.database_time()
        tests = AccountAlert.objects.filter(account_id=endpoint.account_id, kind=AccountAlert.Kind.TEST)
        if tests.filter(created_at__gt=now - timedelta(hours=1)).count() >= TESTS_MAX:
            raise EndpointRefused(f"At most {TESTS_MAX} tests are sent in an hour. Try again later.")
        kind = AccountAlert.Kind.TEST
        alert = AccountAlert.objects.create(account_id=endpoint.account_id, kind=kind, data={}, prepared_at=now)
        AlertDelivery.objects.create(alert=alert, endpoint=endpoint, next_try_at=now)
        log.record(request, log.Act.ENDPOINT_TESTED, endpoint, f"Sent a test to the webhook {endpoint}.")


def send_again(request: HttpRequest, endpoint: WebhookEndpoint, alerts: Sequence[AccountAlert]) -> int:
    """Let alerts be sent to an endpoint again, also those that it never got, one a second. Return how many wait now.

    They are sent after those that wait for a first attempt, with their id and body, and are tried from the first attempt on.
    Those that wait already are not among them. An alert must be ``prepared``. Raises EndpointRefused.
    """
    with transaction.atomic():
        endpoint = _lock(endpoint)
        now = pool.database_time()
        acts = Activity.objects.filter(act=log.Act.WARNING_REPEATED, account_id=endpoint.account_id)
        if acts.filter(at__gt=now - timedelta(hours=1)).count() >= REPEATS_MAX:
            raise EndpointRefused(f"We send alerts of an account again at most {REPEATS_MAX} times in an hour. Try later.")
        queued = endpoint.deliveries.filter(state=AlertDelivery.State.WAITING, tries=0).aggregate(last=Max("next_try_at"))[
            "last"
        ]
        begin = max(now, queued + REPEAT_PAUSE) if queued else now
        known = {each.alert_id: each for each in endpoint.deliveries.filter(alert__in=alerts)}
        rows = [known.get(each.pk) or AlertDelivery(alert=each, endpoint=endpoint, state=_ENDED) for each in alerts]
        due = [each for each in rows if each.state != AlertDelivery.State.WAITING]
        for place, each in enumerate(due):
            each.state, each.tries, each.next_try_at = AlertDelivery.State.WAITING, 0, begin + place * REPEAT_PAUSE
        fields = ["state", "tries", "next_try_at"]
        AlertDelivery.objects.bulk_create(due, update_conflicts=True, unique_fields=["id"], update_fields=fields)
        if due:
            number = "an alert" if len(due) == 1 else f"{len(due)} alerts"
            log.record(request, log.Act.WARNING_REPEATED, endpoint, f"Sent {number} to the webhook {endpoint} again.")
    return len(due)


def read_secrets(endpoint: WebhookEndpoint) -> list[str]:
    """Return the secrets that sign now, the newest first. Raises secretbox.Unreadable."""
    sealed = [endpoint.sealed_secret]
    if endpoint.previous_until and endpoint.previous_until > pool.database_time():
        sealed.append(endpoint.sealed_previous_secret)
    return [secretbox.decrypt(each, purpose=_purpose(endpoint)) for each in sealed]


def build_headers(secrets_in_use: Sequence[str], *, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of an attempt at ``timestamp``, in seconds. Each secret signs: a receiver knows one of them."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{_sign(secret, signed)}" for secret in secrets_in_use),
    }


def _sign(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return base64.b64encode(hmac.digest(key, signed, sha256)).decode()


def _purpose(endpoint: WebhookEndpoint) -> str:
    return f"webhook:{endpoint.pk}"


def _lock(endpoint: WebhookEndpoint) -> WebhookEndpoint:
    """Lock the account, then the endpoint, as deliveries do. Raises Http404 if it was deleted meanwhile."""
    locks.lock_account(endpoint.account_id)
    return get_object_or_404(WebhookEndpoint.objects.select_for_update(), pk=endpoint.pk)
