"""Authenticates ``Authorization: Bearer <management key>``, and counts its requests per minute.

Its status is read with each request, and again under the lock of the account before a change (``idempotency.once``).
"""

from typing import Any

from django.conf import settings
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from gateway_project import errors
from gateway_project.cache import TTLCache
from gateway_project.db import pool
from gateway_project.web.request_notes import notes_of_api
from keys import authentication, management_keys, secret
from keys.limits import reads
from keys.models import ManagementKey

INVALID_MESSAGE = (
    "Incorrect API key provided: this is not an active management key. An owner creates one on the dashboard's Management keys"
    " page. Send it as Authorization: Bearer <MANAGEMENT_KEY>."
)
COMPLETION_KEY_MESSAGE = (
    "Incorrect API key provided: this is an API key, which cannot manage keys. Send a management key, which an owner creates on"
    " the dashboard's Management keys page."
)

requests = reads.ReadLimit("managing keys")
# Digests of secrets that no management key has: a flood of one costs no query.
_unknown: TTLCache[str, bool] = TTLCache(seconds=10, entries_max=10_000)


class ManagementAuthentication(BaseAuthentication):
    """``request.user`` is the Account and ``request.auth`` the ManagementKey, just read."""

    def authenticate(self, request: Request) -> Any:
        given = authentication.given_secret(request)
        if secret.key_id(given) is not None:
            raise errors.InvalidApiKey(COMPLETION_KEY_MESSAGE)
        key = _find(given)
        require_active(key)
        notes = notes_of_api(request)
        notes.management_key_id, notes.program = key.pk, f"management key {key}"
        requests.count(key.pk)
        management_keys.note_use(key)
        return key.account, key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class ReaderAuthentication(ManagementAuthentication):
    """By an API key, or by a management key for its whole account: ``request.auth`` is either. Counts a read in flight."""

    def authenticate(self, request: Request) -> Any:
        if secret.key_id(authentication.given_secret(request), secret.MANAGEMENT_PREFIX) is None:
            return authentication.BearerKeyAuthentication().authenticate(request)
        account, key = super().authenticate(request)
        reads.in_flight.begin(request._request, account.pk)
        return account, key


def require_active(key: ManagementKey) -> None:
    """Raises InvalidApiKey if the key is revoked or its account closed."""
    if key.revoked_at is not None:
        raise errors.InvalidApiKey(INVALID_MESSAGE)
    if not key.account.is_active:
        raise errors.InvalidApiKey(authentication.CLOSED_ACCOUNT_MESSAGE)


def _find(given: str) -> ManagementKey:
    if secret.key_id(given, secret.MANAGEMENT_PREFIX) is None:
        raise errors.InvalidApiKey(INVALID_MESSAGE)  # the checksum decides: no query
    digest = secret.digest(given, settings.KEY_PEPPERS[0])
    if _unknown.get(digest):
        raise errors.InvalidApiKey(INVALID_MESSAGE)
    key = pool.read(lambda: management_keys.find(given))
    if key is None:
        _unknown.put(digest, True)
        raise errors.InvalidApiKey(INVALID_MESSAGE)
    return key
