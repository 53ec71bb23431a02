"""Changes by management keys, one at a time for each account; and under an Idempotency-Key, each once.

The account is locked from before the stored reply is looked for until the new one is stored. So a repetition waits for the
first request, and gets its reply, also the secret of a key that it made. A refusal is not kept: it changed nothing.
"""

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from rest_framework.request import Request
from rest_framework.response import Response

from billing import locks as account_locks
from gateway_project import errors, secretbox
from keys.key_api.authentication import require_active
from keys.models import ManagementKey, ManagementReply

HEADER = "Idempotency-Key"
CHARACTERS_MAX = 255
RETENTION = timedelta(hours=1)
_PURPOSE = "management-reply"

Act = Callable[[], tuple[int, dict[str, Any]]]  # returns the status and the body of the reply


def once(request: Request, act: Act) -> Response:
    """Act, with the account locked, or repeat the reply to the first request with the same Idempotency-Key."""
    value, fingerprint = _read_key(request), _fingerprint(request)
    assert isinstance(request.auth, ManagementKey)
    with transaction.atomic():
        account_locks.lock_account(request.auth.account_id)
        key = ManagementKey.objects.select_related("account").get(pk=request.auth.pk)
        require_active(key)  # it may have been revoked while this waited
        if value:
            stored = key.replies.filter(idempotency_key=value, at__gte=Now() - RETENTION).first()
            if stored:
                return _replay(stored, fingerprint)
            _require_room(key)
        status, body = act()
        if value:
            key.replies.filter(idempotency_key=value).delete()  # one that is too old
            sealed = secretbox.encrypt(json.dumps(body), purpose=_PURPOSE)
            key.replies.create(idempotency_key=value, fingerprint=fingerprint, status=status, sealed_body=sealed)
    return Response(body, status=status)


def delete_old() -> int:
    """Delete the replies that are kept no longer. Return how many."""
    return ManagementReply.objects.filter(at__lt=Now() - RETENTION).delete()[0]


def _read_key(request: Request) -> str | None:
    value: str | None = request.META.get("HTTP_IDEMPOTENCY_KEY") if request.method == "POST" else None
    if value is not None and not (0 < len(value) <= CHARACTERS_MAX and value.isascii() and value.isprintable()):
        raise errors.wrong(HEADER, f"must have 1 to {CHARACTERS_MAX} printable ASCII characters")
    return value


def _fingerprint(request: Request) -> str:
    asked = [request.method, request.path, request.data]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _require_room(key: ManagementKey) -> None:
    maximum = settings.ACCOUNT_KEY_REPLIES_MAX
    stored = ManagementReply.objects.filter(management_key__account=key.account_id, at__gte=Now() - RETENTION)
    if stored.count() >= maximum:
        raise errors.RateLimitExceeded(
            f"{maximum:,} replies to requests with an {HEADER} are stored for the account, which is the maximum."
            " Each is kept for an hour. Try again later, or send the request without one.",
            headers=errors.retry_after(timedelta(seconds=errors.RETRY_AFTER_SECONDS_MAX)),
        )


def _replay(stored: ManagementReply, fingerprint: str) -> Response:
    if stored.fingerprint != fingerprint:
        raise errors.wrong(HEADER, "was used for another request")
    try:
        body = json.loads(secretbox.decrypt(stored.sealed_body, purpose=_PURPOSE))
    except secretbox.Unreadable:
        message = f"The request with this {HEADER} was carried out, but its reply can no longer be decrypted. List the keys."
        raise errors.ReplyUnreadable(message, param=HEADER) from None
    return Response(body, status=stored.status, headers={"Idempotent-Replayed": "true"})
