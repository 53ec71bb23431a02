"""Stored responses: later requests of the account may continue from them, and read them again.

A response is sealed for its account, and stored in the transaction that settles it: a request that comes right after the reply
finds it. A large one is written before, by itself, and is only made readable there.

The bytes that an account has stored are counted on its row, and bounded: the oldest make room. Responses in the background that
ended without a reply have a bound of their own: most cost nothing, and must not displace what was paid.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, transaction
from django.db.models import Func, IntegerField, Q, QuerySet
from django.db.models.functions import Now

from billing import locks
from billing.models import Account
from completions.charging.stored_rows import Counted
from completions.models import StoredResponse
from gateway_project import errors, large_work, secretbox
from gateway_project.cells import directory
from gateway_project.db import cell, pool
from gateway_project.db.pipelined_transaction import Statement

logger = logging.getLogger("gateway.stored_responses")

_EVICTED_SHARE = 20  # an account that is full frees one part of so many, so that not every settlement looks for the oldest
_counted = Counted("completions_storedresponse", "completion_id", "stored_bytes", "stored_response_bytes", "expired responses")
_UNFINISHED_RETENTION = timedelta(hours=1)
# Of an account, in the background: those that failed or were cancelled. One that runs has a hold, and is among those in flight.
_UNREPLIED_ROWS_MAX, _UNREPLIED_BYTES_MAX = 1_000, 10_000_000

SEAL_BYTES_MAX = 200  # that sealing adds to a text, beside a third
TEXTS = ("sealed_input", "sealed_output", "sealed_reply")  # columns, and what a record has


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """A response to store, sealed. Its texts are None when they are written. A background one has a row, unless deleted."""

    previous_id: str | None
    sealed_input: str | None
    sealed_output: str | None
    sealed_reply: str | None
    stored_bytes: int
    is_background: bool = False

    @property
    def is_written(self) -> bool:
        return self.sealed_reply is None


def seal(account_id: UUID, plain: bytes) -> str:
    """Return what is stored of a response, encrypted. It is useless when it is copied to another account."""
    return secretbox.encrypt_bytes(plain, purpose=_purpose(account_id))


def unseal(account_id: UUID, sealed: str | None) -> bytes:
    try:
        return secretbox.decrypt_bytes(sealed or "", purpose=_purpose(account_id))
    except secretbox.Unreadable as error:
        logger.error("a stored response cannot be read: %s", error, extra={"account": str(account_id)})
        raise errors.ReplyUnreadable("The response is stored, but the gateway can no longer decrypt it.") from None


def _purpose(account_id: UUID) -> str:
    return f"response:{account_id}"


def are_kept() -> bool:
    return bool(settings.STORED_RESPONSE_DAYS)


def retention() -> timedelta:
    return timedelta(days=settings.STORED_RESPONSE_DAYS)


def sealed_bytes_max() -> int:
    return settings.STORED_RESPONSE_BYTES_MAX * 3 // 2 + SEAL_BYTES_MAX * len(TEXTS)


def build_record(
    account_id: UUID, previous_id: str | None, *, sealed_input: str, output: bytes, reply: bytes, is_background: bool
) -> ResponseRecord:
    """Return what is to be stored. ``output`` has the items of the output, and ``reply`` the rest of the reply."""
    sealed_output, sealed_reply = seal(account_id, output), seal(account_id, reply)
    stored_bytes = len(sealed_input) + len(sealed_output) + len(sealed_reply)
    return ResponseRecord(previous_id, sealed_input, sealed_output, sealed_reply, stored_bytes, is_background)


def write_ahead(record: ResponseRecord, completion_id: str, account_id: UUID) -> ResponseRecord | None:
    """Write a large response before its batch, where it would hold up others. Return what is left to write there.

    If the database is unavailable, one in the background is left to its settlement, as its caller has no reply yet. Others are
    not stored: return None.
    """
    if record.stored_bytes <= large_work.LARGE_BYTES:
        return record
    try:
        with cell.use(directory.find_again(account_id)), pool.time_limit():
            _write(record, completion_id, account_id)
    except pool.DATABASE_ERRORS as error:
        facts = {"completion": completion_id, "account": str(account_id)}
        if record.is_background:
            logger.warning("the response %s is stored with its charge: %s", completion_id, errors.reason(error), extra=facts)
            return record
        logger.error("the response %s is not stored: %s", completion_id, errors.reason(error), extra=facts)
        return None
    finally:
        pool.release_connection()
    return replace(record, sealed_input=None, sealed_output=None, sealed_reply=None)


def _write(record: ResponseRecord, completion_id: str, account_id: UUID) -> None:
    texts = {name: getattr(record, name) for name in TEXTS}
    if record.is_background:
        is_written = StoredResponse.objects.filter(pk=completion_id, cancelled_at=None).update(**texts)
        if not is_written and directory.has_moved(account_id, cell.current()):
            raise OperationalError("the account has just moved")
        return
    StoredResponse.objects.create(
        completion_id=completion_id,
        account_id=account_id,
        previous_id=record.previous_id,
        expires_at=Now() + _UNFINISHED_RETENTION,
        **texts,
    )


def begin(completion_id: str, account_id: UUID, previous_id: str | None, reply: bytes) -> None:
    """Store that a response runs in the background, with its reply so far. Those that ended without a reply make room."""
    with pool.time_limit():
        cell.execute(EVICT_UNREPLIED_SQL, unreplied_bounds(account_id))
        StoredResponse.objects.create(
            completion_id=completion_id,
            account_id=account_id,
            previous_id=previous_id,
            sealed_reply=seal(account_id, reply),
            is_background=True,
            expires_at=Now() + _UNFINISHED_RETENTION,
        )


# One that is stored at this moment stays. Whoever deletes the same rows at the same time is not waited for.
EVICT_UNREPLIED_SQL = """
    DELETE FROM completions_storedresponse WHERE completion_id IN (
        SELECT completion_id FROM completions_storedresponse WHERE stored_bytes = 0 AND completion_id IN (
            SELECT completion_id FROM (
                SELECT completion_id, row_number() OVER newest AS rows, sum(
                    coalesce(octet_length(sealed_input), 0) + coalesce(octet_length(sealed_output), 0)
                    + coalesce(octet_length(sealed_reply), 0)
                ) OVER newest AS bytes
                FROM completions_storedresponse AS response JOIN completions_completion AS completion ON id = completion_id
                WHERE response.account_id = %(account)s AND stored_bytes = 0
                    AND (cancelled_at IS NOT NULL OR settlement IS NOT NULL)
                WINDOW newest AS (ORDER BY expires_at DESC, completion_id DESC)
            ) AS ended
            WHERE rows > %(rows)s OR bytes > %(bytes)s
        )
        FOR UPDATE SKIP LOCKED
    )
    """


def unreplied_bounds(account_id: UUID) -> dict[str, UUID | int]:
    return {"account": account_id, "rows": _UNREPLIED_ROWS_MAX, "bytes": _UNREPLIED_BYTES_MAX}


def end(completion_id: str, account_id: UUID, reply: bytes) -> None:
    """Store the reply of a response in the background that failed."""
    with cell.use(directory.find_again(account_id)), pool.time_limit():
        rows = StoredResponse.objects.filter(pk=completion_id, stored_bytes=0)
        rows.update(sealed_reply=seal(account_id, reply), sealed_input=None, sealed_output=None)


def cancel(response: StoredResponse) -> None:
    """Cancel a response that runs in the background: what it says is not stored. Its completion continues, and is charged."""
    running = StoredResponse.objects.filter(pk=response.pk, stored_bytes=0, cancelled_at=None, completion__settlement=None)
    with pool.time_limit(), transaction.atomic():
        locks.lock_account(response.account_id)  # as settlements do: the update below sees all of one, or nothing
        running.update(cancelled_at=Now(), sealed_input=None, sealed_output=None)


def count_stored_bytes(account: Account, record: ResponseRecord) -> bool:
    """Count a response on the given row (``store_responses_statement`` writes it). Return False when it is not stored."""
    if not account.keeps_responses or record.stored_bytes > settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX:
        return False
    account.stored_response_bytes += record.stored_bytes
    return True


def may_exceed(account: Account) -> bool:
    """Return whether the account may have stored too much, so that ``evict_responses_statement`` must look."""
    return account.stored_response_bytes > settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX


def of_account(account_id: UUID) -> QuerySet[StoredResponse]:
    if not are_kept():
        return StoredResponse.objects.none()
    settled = Q(stored_bytes__gt=0) | Q(is_background=True)
    return StoredResponse.objects.filter(settled, account_id=account_id, expires_at__gt=Now(), account__keeps_responses=True)


def find(response_id: str, account_id: UUID, *columns: str) -> StoredResponse | None:
    if "\x00" in response_id:  # no id contains one, and PostgreSQL rejects a comparison with one
        return None
    unread = set(TEXTS).difference(columns)
    rows = of_account(account_id).filter(pk=response_id).select_related("completion").defer(*unread)
    return pool.read(rows.first)


@dataclass(frozen=True, slots=True)
class Link:
    id: str
    previous_id: str | None
    sealed_bytes: int


def read_chain(response_id: str, account_id: UUID, *, length_max: int) -> list[Link]:
    """Return the responses that lead to one, and that one, the oldest first; of a longer chain the newest.

    Where one was deleted, the first link has a ``previous_id``. There are no cycles: a response follows what was there before.
    """
    if not are_kept() or "\x00" in response_id:
        return []
    values = {"id": response_id, "account": account_id, "length_max": length_max}
    return [Link(*link) for link in reversed(pool.read(lambda: cell.execute(CHAIN_SQL, values)))]


CHAIN_SQL = """
    WITH RECURSIVE readable AS NOT MATERIALIZED (
        SELECT completion_id, previous_id, octet_length(sealed_input) + octet_length(sealed_output) AS sealed_bytes
        FROM completions_storedresponse
        WHERE account_id = %(account)s AND stored_bytes > 0 AND expires_at > statement_timestamp()
    ), chain AS (
        SELECT readable.*, 1 AS length FROM readable
        WHERE completion_id = %(id)s AND EXISTS (SELECT FROM billing_account WHERE id = %(account)s AND keeps_responses)
        UNION ALL
        SELECT readable.*, length + 1 FROM chain JOIN readable ON readable.completion_id = chain.previous_id
        WHERE length < %(length_max)s
    )
    SELECT completion_id, previous_id, sealed_bytes FROM chain ORDER BY length
    """


def measure_outputs(response_ids: Collection[str], account_id: UUID) -> int:
    rows = of_account(account_id).filter(pk__in=response_ids, stored_bytes__gt=0)
    sizes = rows.annotate(size=Func("sealed_output", function="octet_length", output_field=IntegerField()))
    return sum(pool.read(lambda: list(sizes.values_list("size", flat=True))))


def read(response_ids: Collection[str], account_id: UUID, *columns: str) -> dict[str, StoredResponse]:
    """Return these responses by id, as far as they are there, with some of their texts."""
    if not response_ids:
        return {}
    rows = of_account(account_id).filter(pk__in=response_ids, stored_bytes__gt=0).only("account_id", *columns)
    return {row.pk: row for row in pool.read(lambda: list(rows))}


def delete(response: StoredResponse) -> None:
    """Delete a response. Those that follow it stay, and cannot be continued."""
    _counted.delete(response.account_id, StoredResponse.objects.filter(pk=response.pk))


def delete_expired(now: datetime) -> int:
    rows = StoredResponse.objects.all()
    if are_kept():
        keepless = Account.objects.filter(keeps_responses=False)
        rows = rows.filter(Q(expires_at__lt=now) | Q(account__in=keepless))
    return _counted.delete_all(rows)


_STORE_RESPONSES = f"""
    WITH given AS (
        SELECT * FROM json_to_recordset($1::json) AS given (completion_id text, account_id uuid, expires_at timestamptz,
            previous_id text, sealed_input text, sealed_output text, sealed_reply text, stored_bytes integer,
            is_written boolean, is_background boolean)
    ), inserted AS (
        INSERT INTO completions_storedresponse
            (completion_id, account_id, previous_id, sealed_input, sealed_output, sealed_reply, stored_bytes, expires_at)
        SELECT completion_id, account_id, previous_id, sealed_input, sealed_output, sealed_reply, stored_bytes, expires_at
        FROM given WHERE NOT (is_written OR is_background)
        RETURNING account_id, stored_bytes
    ), updated AS (
        UPDATE completions_storedresponse AS response SET stored_bytes = given.stored_bytes, expires_at = given.expires_at,
            sealed_input = coalesce(given.sealed_input, response.sealed_input),
            sealed_output = coalesce(given.sealed_output, response.sealed_output),
            sealed_reply = CASE WHEN is_written THEN response.sealed_reply ELSE given.sealed_reply END
        FROM given WHERE response.completion_id = given.completion_id AND (is_written OR given.is_background)
            AND cancelled_at IS NULL
        RETURNING response.account_id, response.stored_bytes
    )
    {_counted.count_sql("(TABLE inserted UNION ALL TABLE updated) AS stored", "+")}
    """  # noqa: S608  constants of this module
_EVICT_RESPONSES = f"""
    WITH excess AS (
        SELECT account.id AS account_id, stored_response_bytes - room_bytes + room_bytes / {_EVICTED_SHARE} AS bytes
        FROM json_to_recordset($1::json) AS given (id uuid, room_bytes bigint) JOIN billing_account AS account USING (id)
        WHERE stored_response_bytes > room_bytes
    ), oldest AS ({_counted.oldest_sql()}), evicted AS (
        DELETE FROM completions_storedresponse AS response USING oldest
        WHERE response.completion_id = oldest.completion_id
        RETURNING account_id, response.stored_bytes
    )
    {_counted.count_sql("evicted", "-")}
    """  # noqa: S608  constants of this module


def store_responses_statement(responses: Sequence[tuple[str, UUID, datetime, ResponseRecord]]) -> Statement:
    """SQL that stores responses of completions, or makes readable those that are written, unless they were cancelled.

    Each is given with the ids of its completion and its account, and the time until which it is kept.
    """
    return Statement(
        _STORE_RESPONSES,
        [
            {
                "completion_id": completion_id,
                "account_id": account_id,
                "expires_at": expires_at,
                "is_written": record.is_written,
                **{name: getattr(record, name) for name in ("previous_id", *TEXTS, "stored_bytes", "is_background")},
            }
            for completion_id, account_id, expires_at, record in responses
        ],
    )


def evict_responses_statement(account_ids: Collection[UUID]) -> Statement:
    """SQL that deletes the oldest responses of each account that has stored too much, by what is stored."""
    room_bytes = settings.STORED_RESPONSE_ACCOUNT_BYTES_MAX
    return Statement(_EVICT_RESPONSES, [{"id": account_id, "room_bytes": room_bytes} for account_id in account_ids])
