"""A retry with the same Idempotency-Key gets the same reply, and pays once.

A key is known from the admission of its request until RETENTION after. What was refused, cost nothing or broke off is
forgotten: it may be tried again. LockedRows are read and written in the transactions of admission and settlement, under the
account's lock; so of two requests with one key, one runs and the other is told so.
"""

import base64
import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from rest_framework.request import Request

from completions.charging.records import CompletionRecord
from completions.models import IdempotentRequest
from gateway_project import errors, secretbox
from gateway_project.db.pipelined_transaction import Statement

HEADER = "Idempotency-Key"
RETENTION = timedelta(hours=24)
_CHARACTERS_MAX = 255
_PURPOSE = "idempotent-reply"


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """What a caller says makes two requests the same, and a digest of what it asked for."""

    value: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Replay:
    """The reply that the request had the first time."""

    body: bytes
    is_stream: bool


def read_key(request: Request, fields: dict[str, Any]) -> IdempotencyKey | None:
    """From the request's header, if it has one. Raises InvalidRequest."""
    value = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if value is None:
        return None
    if not (0 < len(value) <= _CHARACTERS_MAX and value.isascii() and value.isprintable()):
        raise errors.wrong(HEADER, f"must have 1 to {_CHARACTERS_MAX} printable ASCII characters")
    asked = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return IdempotencyKey(value, hashlib.sha256(asked).hexdigest())


def check(idempotency_key: IdempotencyKey, known: IdempotentRequest | None, now: datetime) -> Replay | None:
    """What to do with an attempt: None lets it run. Raises InvalidRequest or RequestInProgress."""
    if known is None or known.expires_at <= now:
        return None
    if known.fingerprint != idempotency_key.fingerprint:
        raise errors.InvalidRequest(f"This {HEADER} was used for another request body.", param=HEADER)
    if known.is_too_large:
        raise errors.InvalidRequest(
            f"The reply to this {HEADER} was too large to keep. It was charged once and cannot be repeated.", param=HEADER
        )
    if known.sealed_reply is None:
        raise errors.RequestInProgress(f"A request with this {HEADER} is still running.")
    return Replay(_unseal(known.sealed_reply), known.is_stream)


def seal(reply: bytes) -> str | None:
    """The reply, encrypted at rest; None when it is too large to keep."""
    if len(reply) > settings.IDEMPOTENT_REPLY_BYTES_MAX:
        return None
    return secretbox.encrypt(base64.b64encode(reply).decode(), purpose=_PURPOSE)


def _unseal(sealed: str) -> bytes:
    return base64.b64decode(secretbox.decrypt(sealed, purpose=_PURPOSE))


# --- Statements --------------------------------------------------------------------------------------------------


def select_keys_statement(keys: Collection[tuple[UUID, IdempotencyKey]]) -> Statement:
    """What is known of these accounts' keys; ``made`` makes objects of it. Ask with the accounts locked."""
    columns = ", ".join(str(field.column) for field in IdempotentRequest._meta.concrete_fields)
    return Statement(
        # Names of our own model; what callers send is a parameter.
        f"SELECT row_to_json(known) FROM (SELECT {columns} FROM completions_idempotentrequest WHERE (account_id, key)"  # noqa: S608
        " IN (SELECT account_id, key FROM json_to_recordset($1::json) AS asked (account_id uuid, key text))) AS known",
        [{"account_id": account_id, "key": key.value} for account_id, key in keys],
    )


def insert_keys_statement(keys: Sequence[tuple[CompletionRecord, IdempotencyKey]]) -> Statement:
    """Remember that these run. What was known of an expired key is replaced."""
    return Statement(
        """
        INSERT INTO completions_idempotentrequest
            (account_id, key, fingerprint, completion_id, is_stream, sealed_reply, is_too_large, expires_at)
        SELECT account_id, key, fingerprint, completion_id, is_stream, NULL, false, expires_at
        FROM json_to_recordset($1::json) AS begun (account_id uuid, key text, fingerprint text, completion_id text,
            is_stream boolean, expires_at timestamptz)
        ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = EXCLUDED.fingerprint,
            completion_id = EXCLUDED.completion_id, is_stream = EXCLUDED.is_stream, sealed_reply = NULL,
            is_too_large = false, expires_at = EXCLUDED.expires_at
        """,
        [
            {
                "account_id": completion.account_id,
                "key": key.value,
                "fingerprint": key.fingerprint,
                "completion_id": completion.id,
                "is_stream": completion.is_stream,
                "expires_at": completion.created_at + RETENTION,
            }
            for completion, key in keys
        ],
    )


def store_replies_statement(replies: Sequence[tuple[str, str | None]]) -> Statement:
    """Keep the sealed replies of these completions; None says that it was too large."""
    return Statement(
        """
        UPDATE completions_idempotentrequest SET sealed_reply = reply.sealed, is_too_large = reply.sealed IS NULL
        FROM json_to_recordset($1::json) AS reply (completion_id text, sealed text)
        WHERE completions_idempotentrequest.completion_id = reply.completion_id
        """,
        [{"completion_id": completion_id, "sealed": sealed} for completion_id, sealed in replies],
    )


def delete_keys_statement(completion_ids: Sequence[str]) -> Statement:
    """These cost nothing: their keys may be used again."""
    return Statement(
        "DELETE FROM completions_idempotentrequest"
        " WHERE completion_id = ANY (ARRAY(SELECT json_array_elements_text($1::json)))",
        list(completion_ids),
    )
