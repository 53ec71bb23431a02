"""Idempotency keys: a retry under the same Idempotency-Key gets the same reply, and is charged once.

The bytes of the replies that an account has stored are counted on its row, and bounded: a settlement that stores one more than
fits deletes the oldest, as retries come within minutes. A retry whose reply is not stored, or no longer, is refused: it never
runs. A request that is answered before it runs stores that answer then.

A key is stored from the admission of its request until RETENTION after. The key of a request that was refused, cost nothing or
broke off is deleted: a retry runs. After the death of a process the key stays without a reply: a retry runs, and pays only what
exceeds what was charged, so that all runs cost together what the dearest of them costs (``recovery.corrections``). The rows are
read and written under the lock of the account: of two concurrent requests with one key, one is refused as a conflict.
"""

import hashlib
import json
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from rest_framework.request import Request

from billing import locks
from billing.models import Account
from completions.charging.records import CompletionRecord
from completions.charging.recovery import checkpoints
from completions.charging.stored_rows import Counted
from completions.models import IdempotentRequest
from gateway_project import errors, large_work, secretbox
from gateway_project.cells import directory
from gateway_project.db import cell, pipelined_transaction, pool
from gateway_project.db.pipelined_transaction import Statement

logger = logging.getLogger("gateway.idempotency")

HEADER = "Idempotency-Key"
NOT_STORED_HEADER = "Idempotent-Stored"  # "false": the reply is not stored, or no longer
RETENTION = timedelta(hours=24)
CHARACTERS_MAX = 255
_PURPOSE = "idempotent-reply-bytes"
_SILENT_AFTER = 5 * timedelta(seconds=checkpoints.INTERVAL_SECONDS)  # a live process writes a checkpoint in each interval
_counted = Counted("completions_idempotentrequest", "id", "reply_bytes", "stored_reply_bytes", "expired keys")


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    value: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Replay:
    body: bytes
    is_stream: bool


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """The latest run under a stored idempotency key, and whether there is a reply of it."""

    fingerprint: str
    completion_id: str
    is_stream: bool
    expires_at: datetime
    last_sign_at: datetime  # of the life of the process that runs it
    is_running: bool = True
    has_reply: bool = False
    reply_bytes: int = 0
    is_too_large: bool = False
    charged_nanos: int = 0  # for this run and all before it

    def open(self) -> Replay:
        """Read and decrypt the reply. Raises ReplyUnreadable: to run the request again would charge it twice.

        Call it after the batch, whose locks a megabyte must not prolong.
        """
        rows = IdempotentRequest.objects.filter(completion_id=self.completion_id)
        sealed_reply = pool.read(rows.values_list("sealed_reply", flat=True).first)
        pool.release_connection()
        if sealed_reply is None:
            raise errors.ServiceUnavailable("The reply that was stored has just been deleted. Try again.")
        try:
            with large_work.turn(self.reply_bytes):
                return Replay(secretbox.decrypt_bytes(sealed_reply, purpose=_PURPOSE), self.is_stream)
        except secretbox.Unreadable as error:
            facts = {"completion": self.completion_id}
            logger.error("the reply stored for retries of %s cannot be read: %s", self.completion_id, error, extra=facts)
            raise errors.ReplyUnreadable(
                f"The request with this {HEADER} ran as {self.completion_id} and was charged once. Its reply is stored, but the"
                f" gateway can no longer decrypt it. To run and pay for the request again, send another {HEADER}.",
                param=HEADER,
            ) from None


def read_key(request: Request, fields: dict[str, Any]) -> IdempotencyKey | None:
    """Return the key in the request's header, or None without one. Raises InvalidRequest for a malformed one."""
    value = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if value is None:
        return None
    if not (0 < len(value) <= CHARACTERS_MAX and value.isascii() and value.isprintable()):
        raise errors.wrong(HEADER, f"must have 1 to {CHARACTERS_MAX} printable ASCII characters")
    canonical_body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return IdempotencyKey(value, hashlib.sha256(canonical_body).hexdigest())


def check(idempotency_key: IdempotencyKey, stored: StoredRequest | None, now: datetime) -> StoredRequest | None:
    """Return the run whose reply is repeated; else the request may run, after the one whose process died, or None.

    Raises InvalidRequest when the key was used for another body or its reply is not stored, or RequestInProgress.
    """
    if stored is None or stored.expires_at <= now:
        return None
    if stored.fingerprint != idempotency_key.fingerprint:
        raise errors.InvalidRequest(f"This {HEADER} was used for another request body.", param=HEADER)
    if stored.is_too_large:
        raise errors.InvalidRequest(
            f"The request with this {HEADER} ran as {stored.completion_id} and was charged once. Its reply was not kept,"
            " because it was too large, zdr was demanded, or the account has stored many since, and cannot be repeated. To run"
            f" and pay for the request again, send another {HEADER}.",
            param=HEADER,
            headers={NOT_STORED_HEADER: "false"},
        )
    if stored.is_running and not stored.has_reply:
        raise _in_progress(now - stored.last_sign_at)
    return stored


def find_reply(account_id: UUID, idempotency_key: IdempotencyKey) -> StoredRequest | None:
    read = partial(pipelined_transaction.within_django().read, select_keys_statement([(account_id, idempotency_key)]))
    now, [found] = pool.read(read)
    earlier = check(idempotency_key, build_stored(found).get((account_id, idempotency_key.value)), now)
    return earlier if earlier and earlier.has_reply else None


def _in_progress(silence: timedelta) -> errors.RequestInProgress:
    """Return the refusal of a retry while its request runs. After a long silence its process may be dead."""
    if silence < _SILENT_AFTER:
        return errors.RequestInProgress(f"A request with this {HEADER} is still running.")
    wait = max(checkpoints.SETTLED_AFTER - silence, timedelta(seconds=1))
    return errors.RequestInProgress(
        f"A request with this {HEADER} is running, but its process has not been heard of for {silence.total_seconds():.0f}"
        f" seconds. If it has died, the request may run again in about {math.ceil(wait.total_seconds())} seconds.",
        headers=errors.retry_after(min(wait, timedelta(seconds=errors.RETRY_AFTER_SECONDS_MAX))),
    )


def is_storable(reply: bytes) -> bool:
    return len(reply) <= settings.IDEMPOTENT_REPLY_BYTES_MAX


def sealed_bytes_max() -> int:
    """Return a bound of what the largest reply takes when it is encrypted: 4/3 of its size, and less than 200 bytes."""
    return settings.IDEMPOTENT_REPLY_BYTES_MAX * 3 // 2 + 200


def count_stored_bytes(account: Account, sealed_reply: str | None) -> str | None:
    """Count a reply on the given row, perhaps beyond its room. Return it, or None when it is not stored."""
    if sealed_reply is None or len(sealed_reply) > settings.IDEMPOTENT_ACCOUNT_BYTES_MAX:
        return None
    account.stored_reply_bytes += len(sealed_reply)
    return sealed_reply


def excess_bytes(account: Account) -> int:
    return max(account.stored_reply_bytes - settings.IDEMPOTENT_ACCOUNT_BYTES_MAX, 0)


def seal(reply: bytes) -> str:
    """Return the reply encrypted for storage. It is not compressed: that would take longer than it saves."""
    return secretbox.encrypt_bytes(reply, purpose=_PURPOSE)


def store_reply(completion: CompletionRecord, reply: bytes) -> None:
    """Store the reply of a request that is answered before it runs. Its settlement stores none."""
    sealed_reply = seal(reply) if is_storable(reply) else None
    number = directory.find_again(completion.account_id)
    with cell.use(number), pool.time_limit(), transaction.atomic():
        account = locks.lock_account(completion.account_id)
        sealed_reply = count_stored_bytes(account, sealed_reply)
        request = IdempotentRequest.objects.filter(completion_id=completion.id)
        reply_bytes, is_too_large = len(sealed_reply or ""), sealed_reply is None
        if not request.update(sealed_reply=sealed_reply, reply_bytes=reply_bytes, is_too_large=is_too_large):
            return
        account.save(update_fields=["stored_reply_bytes"])
        if bytes_to_free := excess_bytes(account):
            pipelined_transaction.execute(evict_replies_statement({account.pk: bytes_to_free}))


def delete_expired(now: datetime) -> int:
    return _counted.delete_all(IdempotentRequest.objects.filter(expires_at__lt=now))


def select_keys_statement(keys: Collection[tuple[UUID, IdempotencyKey]]) -> Statement:
    """SQL that reads the stored ones of these accounts' keys, for ``build_stored``. Run it with the accounts locked."""
    return Statement(
        """
        SELECT row_to_json(found) FROM (
            SELECT request.account_id, request.key, fingerprint, completion_id, request.is_stream, reply_bytes,
                sealed_reply IS NOT NULL AS has_reply, is_too_large, expires_at, settlement IS NULL AS is_running,
                coalesce(checkpointed_at, created_at) AS last_sign_at,
                charged_before_nanos + coalesce(cost_nanos, 0) AS charged_nanos
            FROM completions_idempotentrequest AS request
            JOIN completions_completion AS completion ON completion.id = completion_id
            WHERE (request.account_id, request.key) IN (
                SELECT account_id, key FROM json_to_recordset($1::json) AS given (account_id uuid, key text)
            )
        ) AS found
        """,
        [{"account_id": account_id, "key": key.value} for account_id, key in keys],
    )


def build_stored(found: Sequence[dict[str, Any]]) -> dict[tuple[UUID, str], StoredRequest]:
    stored = {}
    for row in found:
        place = UUID(row.pop("account_id")), row.pop("key")
        times = {name: datetime.fromisoformat(row[name]) for name in ("expires_at", "last_sign_at")}
        stored[place] = StoredRequest(**{**row, **times})
    return stored


_INSERT_KEYS = f"""
    WITH begun AS (
        SELECT * FROM json_to_recordset($1::json) AS begun (account_id uuid, key text, fingerprint text,
            completion_id text, is_stream boolean, expires_at timestamptz)
    ), freed AS ({_counted.count_sql("begun JOIN completions_idempotentrequest USING (account_id, key)", "-")})
    INSERT INTO completions_idempotentrequest
        (account_id, key, fingerprint, completion_id, is_stream, sealed_reply, reply_bytes, is_too_large, expires_at)
    SELECT account_id, key, fingerprint, completion_id, is_stream, NULL, 0, false, expires_at FROM begun
    ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = EXCLUDED.fingerprint,
        completion_id = EXCLUDED.completion_id, is_stream = EXCLUDED.is_stream, sealed_reply = NULL,
        reply_bytes = 0, is_too_large = false, expires_at = EXCLUDED.expires_at
    """  # noqa: S608  constants of this module
_STORE_REPLIES = f"""
    WITH stored AS (
        UPDATE completions_idempotentrequest SET sealed_reply = reply.sealed, is_too_large = reply.sealed IS NULL,
            reply_bytes = coalesce(octet_length(reply.sealed), 0)
        FROM json_to_recordset($1::json) AS reply (completion_id text, sealed text)
        WHERE completions_idempotentrequest.completion_id = reply.completion_id
        RETURNING account_id, reply_bytes
    )
    {_counted.count_sql("stored", "+")}
    """  # noqa: S608  constants of this module
_EVICT_REPLIES = f"""
    WITH excess AS (
        SELECT * FROM json_to_recordset($1::json) AS given (account_id uuid, bytes bigint)
    ), oldest AS ({_counted.oldest_sql()}), evicted AS (
        UPDATE completions_idempotentrequest AS request SET sealed_reply = NULL, reply_bytes = 0, is_too_large = true
        FROM oldest WHERE request.id = oldest.id
        RETURNING account_id, oldest.reply_bytes
    )
    {_counted.count_sql("evicted", "-")}
    """  # noqa: S608  constants of this module


def insert_keys_statement(keys: Sequence[tuple[CompletionRecord, IdempotencyKey]]) -> Statement:
    """SQL that stores the keys of admitted completions. It replaces the row of an expired key, and its reply."""
    return Statement(
        _INSERT_KEYS,
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
    """SQL that stores the sealed replies of completions, given by completion id; None stands for one that is not kept."""
    return Statement(_STORE_REPLIES, [{"completion_id": completion_id, "sealed": sealed} for completion_id, sealed in replies])


def evict_replies_statement(bytes_to_free: Mapping[UUID, int]) -> Statement:
    """SQL that deletes the oldest replies of each account, until so many bytes are free. A retry of theirs is refused."""
    excess = [{"account_id": str(account_id), "bytes": size} for account_id, size in bytes_to_free.items()]
    return Statement(_EVICT_REPLIES, excess)


def follow_runs_statement(runs: Sequence[tuple[str, str]]) -> Statement:
    """SQL that lets the keys of completions lead to those that follow them, by both ids, unless a reply is stored."""
    return Statement(
        """
        UPDATE completions_idempotentrequest AS request SET completion_id = run.following_id
        FROM json_to_recordset($1::json) AS run (completion_id text, following_id text)
        WHERE request.completion_id = run.completion_id AND sealed_reply IS NULL AND NOT is_too_large
        """,
        [{"completion_id": completion_id, "following_id": following_id} for completion_id, following_id in runs],
    )


def delete_keys_statement(completion_ids: Sequence[str], *, with_reply: bool = False) -> Statement:
    """SQL that deletes the keys of completions whose requests may run again; or of those that were replied before they ran."""
    condition = "AND sealed_reply IS NOT NULL" if with_reply else ""
    return Statement(
        f"""
        WITH deleted AS (
            DELETE FROM completions_idempotentrequest
            WHERE completion_id = ANY (ARRAY(SELECT json_array_elements_text($1::json))) {condition}
            RETURNING account_id, reply_bytes
        )
        {_counted.count_sql("deleted", "-")}
        """,  # noqa: S608  constants of this module
        list(completion_ids),
    )
