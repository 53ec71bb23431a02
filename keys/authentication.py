"""Authenticates ``Authorization: Bearer <API key>``, or ``x-api-key: <API key>``, as clients of Anthropic's API send it.

Settings name these classes by path, so that billing, which imports no app, can use them.
"""

import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import gevent
from django.conf import settings
from django.db.models.functions import Now
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

from billing.models import Account
from gateway_project import errors, identifiers
from gateway_project.cache import TTLCache
from gateway_project.cells import directory
from gateway_project.db import cell, pool
from gateway_project.db.group_commit import GroupCommit
from gateway_project.web.request_notes import notes_of_api
from keys import secret
from keys.limits import limit_state_cache, reads, refusal_cache, requests_in_flight
from keys.models import ApiKey

HEADER_CHARACTERS_MAX = 200
# The same for all, so that it says nothing about a key to a client that does not have its secret.
INVALID_KEY_MESSAGE = (
    "Incorrect API key provided: it is unknown, revoked or expired. "
    "Send a key from the dashboard's Keys page as Authorization: Bearer <API_KEY>."
)

# Only who has the secret of a key that would work otherwise gets these.
PAUSED_MESSAGE = "Incorrect API key provided: it is paused. Resume it on the dashboard's Keys page."
CLOSED_ACCOUNT_MESSAGE = "Incorrect API key provided: its account is closed. Ask support to reopen it."

# It is told by its format alone, which is public.
MANAGEMENT_KEY_MESSAGE = (
    "Incorrect API key provided: this is a management key, which can only manage keys at /api/keys and export usage"
    " at /v1/usage/export. Send a key from the dashboard's Keys page."
)


@dataclass(frozen=True)
class Caller:
    """The key and account of a secret, which never change. ``digest`` is the stored one; "" where no secret was presented."""

    key_id: str
    account_id: UUID
    digest: str = ""
    cached_under: str = ""  # its key in the cache

    is_authenticated = True

    def enter_cell(self) -> None:
        """Enter the cell of the account, as far as this process knows."""
        cell.enter(directory.cell_of(self.account_id))

    def follow(self) -> bool:
        """Enter the cell to which the account has moved, which was not found in this one. Return False if it has not."""
        if has_moved := directory.has_moved(self.account_id, cell.current()):
            self.enter_cell()
        return has_moved


class CallerAuthentication(BaseAuthentication):
    """Identifies the caller, for views that read the key's status in their own transaction: ``request.user`` is a Caller."""

    def authenticate(self, request: Request) -> Any:
        presented = given_secret(request)
        # The format and the checksum decide: malformed secrets cost no query.
        if secret.key_id(presented, secret.MANAGEMENT_PREFIX) is not None:
            raise errors.InvalidApiKey(MANAGEMENT_KEY_MESSAGE)
        if secret.key_id(presented) is None:
            raise errors.InvalidApiKey(INVALID_KEY_MESSAGE)
        caller = _identify(presented)
        if cell.added:
            caller.enter_cell()
        notes_of_api(request).key_id = caller.key_id
        return caller, caller

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class AnyCallerAuthentication(CallerAuthentication):
    """Identifies the caller if possible, for public views: without a valid key ``request.user`` is None."""

    def authenticate(self, request: Request) -> Any:
        try:
            return super().authenticate(request)
        except (NotAuthenticated, errors.InvalidApiKey):
            return None


class BearerKeyAuthentication(CallerAuthentication):
    """Identifies the caller and checks the key: ``request.user`` is the Account and ``request.auth`` the ApiKey, just read.

    Counts the request as a read in flight of the account, and against the key's reads per minute. A refused key is not counted.
    """

    def authenticate(self, request: Request) -> tuple[Account, ApiKey]:
        caller, _ = super().authenticate(request)
        reads.reads.require_allowed(caller.key_id)
        reads.in_flight.begin(request._request, caller.account_id)
        with refusal_cache.replay_or_record_before_admission(caller.key_id):
            key = read_key(caller, running=requests_in_flight.OPEN_HOLDS)
            require_active(key, key.account, key.now, caller)
            key.open_holds = key.running
            limit_state_cache.store(key, key.account, key.now)
        reads.reads.count(caller.key_id)
        return key.account, key


def read_key(caller: Caller, **annotations: Any) -> Any:
    """Return the caller's key with its account and the database's time, from where the account is now. Raises InvalidApiKey."""
    rows = ApiKey.objects.select_related("account").annotate(now=Now(), **annotations)
    key = pool.read(rows.filter(pk=caller.key_id).first)
    if key is None and caller.follow():
        return read_key(caller, **annotations)
    if key is None:
        raise errors.InvalidApiKey(INVALID_KEY_MESSAGE)
    return key


def require_active(key: ApiKey, account: Account, now: datetime, caller: Caller) -> None:
    """Raises InvalidApiKey if the key is revoked, expired or paused, the secret has ended, or the account is closed."""
    expired = key.expires_at is not None and key.expires_at <= now
    if key.revoked_at is not None or expired:
        raise errors.InvalidApiKey(INVALID_KEY_MESSAGE)
    if caller.digest and not key.accepts(caller.digest, now):
        if _callers.pop(caller.cached_under, None):  # from now on it is unknown, so that a flood of it costs no query
            _unknown_secrets.put(caller.cached_under, True)
        raise errors.SecretEnded(INVALID_KEY_MESSAGE)
    if key.paused_at is not None:
        raise errors.InvalidApiKey(PAUSED_MESSAGE)
    if not account.is_active:
        raise errors.InvalidApiKey(CLOSED_ACCOUNT_MESSAGE)


def given_secret(request: Request) -> str:
    """Return the secret in a header. Where both are sent, ``Authorization`` counts."""
    meta = request._request.META  # REST framework's request looks for each attribute in itself first
    header: str = meta.get("HTTP_AUTHORIZATION", "")
    if not header and (api_key := meta.get("HTTP_X_API_KEY", "")):
        header = f"Bearer {api_key}"
    if not header:
        raise NotAuthenticated
    scheme, _, presented = header.replace("\t", " ").partition(" ")
    if scheme.lower() != "bearer" or len(header) > HEADER_CHARACTERS_MAX:
        raise errors.InvalidApiKey(INVALID_KEY_MESSAGE)
    return presented.strip(" ")


_CALLERS_MAX = 65_536
_callers: dict[str, Caller] = {}  # by digest under the first pepper
# Secrets that no key has, by the same digest. A key made later cannot have such a digest either; the entries expire all the
# same, because an operator may restore rows of the table.
_unknown_secrets: TTLCache[str, bool] = TTLCache(seconds=10, entries_max=10_000)
_failed_lookup_times: deque[float] = deque(maxlen=20)  # monotonic times of the latest lookups of unknown secrets
_PACE_SECONDS = 0.05


def _identify(presented: str) -> Caller:
    """Return the caller of a secret, from the cache or the database: a new key works at once. Raises InvalidApiKey."""
    digest = secret.digest(presented, settings.KEY_PEPPERS[0])
    caller = _callers.get(digest)
    if caller is None:
        if _unknown_secrets.get(digest):
            raise errors.InvalidApiKey(INVALID_KEY_MESSAGE)
        caller = _look_up_and_cache(presented, digest)
    return caller


def _look_up_and_cache(presented: str, digest: str) -> Caller:
    found = _lookups[_likely_cell(secret.key_id(presented) or "")].submit(presented)
    if found is None:
        _unknown_secrets.put(digest, True)
        raise errors.InvalidApiKey(INVALID_KEY_MESSAGE)
    if len(_callers) >= _CALLERS_MAX:
        _callers.pop(next(iter(_callers)), None)
    caller = _callers[digest] = replace(found, cached_under=digest)
    return caller


def _look_up_batch(secrets: list[str], is_rerun: bool) -> list[Caller | None | Exception]:
    """Look up all secrets of one moment in one query."""
    # In a flood of unknown secrets, wait: then few, larger queries look them up. A valid key that is new here waits, too.
    if len(_failed_lookup_times) == _failed_lookup_times.maxlen and time.monotonic() - _failed_lookup_times[0] < 1:
        gevent.sleep(_PACE_SECONDS)
    ids = [secret.key_id(presented) for presented in secrets]
    try:
        found = _find(set(filter(None, ids)))
    except pool.UNAVAILABLE as error:
        return [error] * len(secrets)  # trying each of them alone would only take longer
    # The request bodies are yet to arrive, perhaps slowly; meanwhile others need the connection.
    pool.release_connection()
    callers = [_caller_for(presented, found.get(key_id or "")) for presented, key_id in zip(secrets, ids, strict=True)]
    _failed_lookup_times.extend(time.monotonic() for caller in callers if caller is None)
    return list(callers)


def _find(ids: set[str]) -> dict[str, Any]:
    """Return the keys with these ids: by the cells in which they were made, else by the directory.

    If a cell is unavailable and there are others, its keys are errors.
    """
    hinted: dict[int, set[str]] = {}
    for id in ids:
        hinted.setdefault(_likely_cell(id), set()).add(id)
    found = _read_where(hinted)
    missing = ids - found.keys()
    if missing and cell.are_several():
        found |= _read_where(ApiKey.by_cell(missing))
    return found


def _read_where(by_cell: dict[int, set[str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, ids in by_cell.items():
        rows = ApiKey.objects.filter(pk__in=ids).annotate(now=Now()).only("pk", "digest", "former_digests", "account_id")
        try:
            with cell.use(number):
                keys: list[Any] = pool.read(partial(list, rows))
        except pool.UNAVAILABLE as error:
            if not cell.are_several():
                raise
            found |= dict.fromkeys(ids, error)
            continue
        for key in keys:
            found[key.pk] = key
            directory.remember(identifiers.parse_uuid(str(key.account_id)), number)
    return found


def _likely_cell(id: str) -> int:
    return cell.or_first(secret.cell_number(id))


def _caller_for(presented: str, key: Any) -> Caller | Exception | None:
    if isinstance(key, Exception):
        return key
    for digest in [key.digest, *key.working_former_digests(key.now)] if key else []:
        if secret.matches(presented, digest, settings.KEY_PEPPERS):
            return Caller(key.pk, identifiers.parse_uuid(str(key.account_id)), digest)  # as in rows of batches
    return None


# By cell, so that an unavailable one delays no other.
_lookups: cell.ByCell[GroupCommit[str, Caller | None]] = cell.ByCell(lambda number: GroupCommit(_look_up_batch))
