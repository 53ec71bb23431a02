"""Authorization: Bearer <API key>. Settings name these classes by path, so billing's views need not import keys."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Now
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

from billing.models import Account
from gateway_project import database, errors
from keys import secret, standings
from keys.models import ApiKey

HEADER_CHARACTERS_MAX = 200
REFUSED = "The API key is invalid: it is unknown, revoked or expired."


@dataclass(frozen=True)
class Caller:
    """Whose secret it is. This never changes, so it may be cached; whether the key may still be used is not in it."""

    key_id: str
    account_id: UUID

    is_authenticated = True


class CallerAuthentication(BaseAuthentication):
    """Identity only, for views whose own transaction reads the key's status: ``request.user`` is a Caller."""

    def authenticate(self, request: Request) -> tuple[Any, Any]:
        caller = _identify(_bearer(request))
        request._request.key_id = caller.key_id  # type: ignore[attr-defined]  # for the log
        return caller, caller

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class BearerKeyAuthentication(CallerAuthentication):
    """Identity and status: ``request.user`` is the Account and ``request.auth`` the ApiKey, both as they are now."""

    def authenticate(self, request: Request) -> tuple[Account, ApiKey]:
        caller, _ = super().authenticate(request)
        with database.patience():
            key = ApiKey.objects.select_related("account").annotate(now=Now()).filter(pk=caller.key_id).first()
        if key is None:
            raise errors.InvalidApiKey(REFUSED)
        require_active(key, key.account, key.now)
        standings.see(key, key.account, key.now)
        return key.account, key


def require_active(key: ApiKey, account: Account, now: datetime) -> None:
    """Raises InvalidApiKey for a key that is revoked or expired, or of an account that is closed."""
    expired = key.expires_at is not None and key.expires_at <= now
    if key.revoked_at is not None or expired or not account.is_active:
        raise errors.InvalidApiKey(REFUSED)


def _bearer(request: Request) -> str:
    header = request.META.get("HTTP_AUTHORIZATION", "")
    if not header:
        raise NotAuthenticated
    scheme, _, given = header.partition(" ")
    if scheme.lower() != "bearer" or len(header) > HEADER_CHARACTERS_MAX or secret.key_id(given) is None:
        # Decided by shape and checksum alone: a flood of junk costs no query.
        raise errors.InvalidApiKey(REFUSED)
    return given


_CALLERS_MAX = 65_536
_callers: dict[str, Caller] = {}  # by digest under the first pepper


def _identify(given: str) -> Caller:
    """Whose secret this is, from the cache or the database. Only successes are kept: a key made a moment ago works at once."""
    digest = secret.digest(given, settings.KEY_PEPPERS[0])
    caller = _callers.get(digest)
    if caller is None:
        with database.patience():
            caller = _look_up(given)
        # The body is still to come, at whatever pace; it must not keep a connection that others wait for.
        database.give_back_connection()
        if len(_callers) >= _CALLERS_MAX:
            _callers.pop(next(iter(_callers)), None)
        _callers[digest] = caller
    return caller


def _look_up(given: str) -> Caller:
    key_id = secret.key_id(given)
    found = ApiKey.objects.filter(pk=key_id).values("pk", "digest", "account_id").first()
    if found is None or not secret.matches(given, found["digest"], settings.KEY_PEPPERS):
        raise errors.InvalidApiKey(REFUSED)
    return Caller(key_id=found["pk"], account_id=found["account_id"])
