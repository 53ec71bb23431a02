"""Idempotency keys: a retry under the same Idempotency-Key gets the same reply, and is charged once.

A key is stored from the admission of its request until RETENTION after. The key of a request that was refused, cost nothing
or broke off is deleted: a retry runs. The rows are read and written in the transactions of admission and settlement, under the
lock of the account. So of two concurrent requests with one key, one runs and the other is refused as a conflict.
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
CHARACTERS_MAX = 255
_PURPOSE = "idempotent-reply"


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The value of the client's Idempotency-Key header, and a digest of the request body that it came with."""

    value: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Replay:
    """The reply to the first request with an idempotency key."""

    body: bytes
    is_stream: bool


def read_key(request: Request, fields: dict[str, Any]) -> IdempotencyKey | None:
    """Return the key in the request's header, or None without one. Raises InvalidRequest for a malformed one."""
    value = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if value is None:
        return None
    if not (0 < len(value) <= CHARACTERS_MAX and value.isascii() and value.isprintable()):
        raise errors.wrong(HEADER, f"must have 1 to {CHARACTERS_MAX} printable ASCII characters")
    canonical_body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return IdempotencyKey(value, hashlib.sha256(canonical_body).hexdigest())


def check(idempotency_key: IdempotencyKey, stored: IdempotentRequest | None, now: datetime) -> Replay | None:
    """Return the reply to replay, or None when the request may run.

    Raises InvalidRequest when the key was used for another body or its reply was too large to store, RequestInProgress while
    its request runs.
    """
    if stored is None or stored.expires_at <= now:
        return None
    if stored.fingerprint != idempotency_key.fingerprint:
        raise errors.InvalidRequest(f"This {HEADER} was used for another request body.", param=HEADER)
    if stored.is_too_large:
        raise errors.InvalidRequest(
            f"The reply to this {HEADER} was too large to keep. It was charged once and cannot be repeated.", param=HEADER
        )
    if stored.sealed_reply is None:
        raise errors.RequestInProgress(f"A request with this {HEADER} is still running.")
    return Replay(_unseal(stored.sealed_reply), stored.is_stream)


def seal(reply: bytes) -> str | None:
    """Return the reply encrypted for storage, or None when it is too large to store."""
    if len(reply) > settings.IDEMPOTENT_REPLY_BYTES_MAX:
        return None
    return secretbox.encrypt(base64.b64encode(reply).decode(), purpose=_PURPOSE)


def _unseal(sealed: str) -> bytes:
    return base64.b64decode(secretbox.decrypt(sealed, purpose=_PURPOSE))


# --- Statements --------------------------------------------------------------------------------------------------


def select_keys_statement(keys: Collection[tuple[UUID, IdempotencyKey]]) -> Statement:
    """SQL that reads the stored ones of these accounts' keys, for ``instances``. Run it with the accounts locked."""
    columns = ", ".join(str(field.column) for field in IdempotentRequest._meta.concrete_fields)
    return Statement(
        # Only names of our own model are put into the SQL; what clients send is a parameter.
        f"SELECT row_to_json(found) FROM (SELECT {columns} FROM completions_idempotentrequest WHERE (account_id, key)"  # noqa: S608
        " IN (SELECT account_id, key FROM json_to_recordset($1::json) AS given (account_id uuid, key text))) AS found",
        [{"account_id": account_id, "key": key.value} for account_id, key in keys],
    )


def insert_keys_statement(keys: Sequence[tuple[CompletionRecord, IdempotencyKey]]) -> Statement:
    """SQL that stores the keys of admitted completions. It replaces the row of an expired key."""
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
    """SQL that stores the sealed replies of completions, given by completion id; None stands for one that was too large."""
    return Statement(
        """
        UPDATE completions_idempotentrequest SET sealed_reply = reply.sealed, is_too_large = reply.sealed IS NULL
        FROM json_to_recordset($1::json) AS reply (completion_id text, sealed text)
        WHERE completions_idempotentrequest.completion_id = reply.completion_id
        """,
        [{"completion_id": completion_id, "sealed": sealed} for completion_id, sealed in replies],
    )


def delete_keys_statement(completion_ids: Sequence[str]) -> Statement:
    """SQL that deletes the keys of completions whose requests may run again."""
    return Statement(
        "DELETE FROM completions_idempotentrequest"
        " WHERE completion_id = ANY (ARRAY(SELECT json_array_elements_text($1::json)))",
        list(completion_ids),
    )
