"""Checkpoints: how far each running completion has come, written to its row every few seconds, for all of a worker together.

A checkpoint that has grown old tells the sweeper that no process will settle this completion, and how much of it was relayed. A
settlement that waits in the outbox is kept alive in the same way, for as long as a worker of its host runs: else the sweeper of
another host would estimate what the outbox knows.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Protocol

import msgspec

from completions.charging.records import CompletionRecord, ServedBy
from gateway_project.db import everywhere, pipelined_transaction, pool, repetition
from gateway_project.db.pipelined_transaction import Statement

logger = logging.getLogger("gateway.checkpoints")

INTERVAL_SECONDS = 2
_ANNOUNCED_EVERY_SECONDS = 15  # a settlement that waits: all workers of its host see its file, and one of them writes
# The sweeper runs this often; before it resolves what looks abandoned, it waits for this long, and looks again.
SWEEP_INTERVAL = timedelta(seconds=60)
RECHECK_TIME = timedelta(seconds=2 * INTERVAL_SECONDS + 1)
ABANDONED_AFTER = timedelta(seconds=60)  # many times the interval: a busy worker is not dead, nor one that lost the database

SETTLED_AFTER = ABANDONED_AFTER + SWEEP_INTERVAL + RECHECK_TIME  # after the last sign of life of a process, at the latest


class Served(Protocol):
    """A completion that was sent to a provider. It is asked when a checkpoint is written, and not at each event."""

    @property
    def served_by(self) -> ServedBy: ...


class Checkpoint(msgspec.Struct, eq=False):
    """Bytes of text relayed so far, and what tells the route that serves them; both None until a provider has begun."""

    relayed_bytes: int | None = None
    served: Served | None = None


_running: dict[str, Checkpoint] = {}  # by completion id


class track:  # noqa: N801  a context manager
    """Writes the completion's checkpoint with the others while the block runs."""

    __slots__ = ("_completion_id",)

    def __init__(self, completion: CompletionRecord) -> None:
        self._completion_id = completion.id

    def __enter__(self) -> Checkpoint:
        checkpoint = _running[self._completion_id] = Checkpoint()
        return checkpoint

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        del _running[self._completion_id]


def write_regularly() -> None:
    repetition.repeat(write, INTERVAL_SECONDS, logger=logger, failure="cannot write checkpoints")


def write() -> None:
    """Write the checkpoints of what runs now. Locked rows are skipped: they are being settled, and waiting could deadlock."""
    if not _running:
        return
    running = dict(_running)
    sql = """
        UPDATE completions_completion SET relayed_bytes = checkpoint.relayed_bytes,
            model_id = coalesce(checkpoint.model_id, completions_completion.model_id),
            price_id = coalesce(checkpoint.price_id, completions_completion.price_id),
            provider_id = coalesce(checkpoint.provider_id, completions_completion.provider_id),
            own_key_fee = CASE WHEN checkpoint.provider_id IS NULL THEN completions_completion.own_key_fee
                ELSE checkpoint.own_key_fee END,
            counts_price = CASE WHEN checkpoint.provider_id IS NULL THEN completions_completion.counts_price
                ELSE checkpoint.counts_price END,
            attempts = checkpoint.attempts, checkpointed_at = statement_timestamp()
        FROM (
            SELECT relayed.*
            FROM json_to_recordset($1::json) AS relayed (id text, relayed_bytes bigint, model_id text, price_id bigint,
                provider_id text, attempts smallint, own_key_fee integer, counts_price boolean)
            JOIN completions_completion AS completion ON completion.id = relayed.id
            WHERE completion.settlement IS NULL ORDER BY completion.id FOR NO KEY UPDATE OF completion SKIP LOCKED
        ) AS checkpoint
        WHERE completions_completion.id = checkpoint.id
        """
    relayed = [
        {"id": id, "relayed_bytes": each.relayed_bytes, **(each.served.served_by._asdict() if each.served else {})}
        for id, each in running.items()
    ]
    everywhere.run(partial(_execute, Statement(sql, relayed)))


def announce(waiting_ids: Sequence[str]) -> None:
    """Write a checkpoint for completions whose settlements wait on disk, and prolong their holds. Locked rows are skipped."""
    if not waiting_ids:
        return
    sql = f"""
        WITH waiting AS (
            UPDATE billing_hold SET expires_at = greatest(expires_at, statement_timestamp() + interval '{SETTLED_AFTER}')
            FROM (
                SELECT hold.reference FROM billing_hold AS hold JOIN completions_completion AS completion ON id = hold.reference
                WHERE hold.reference IN (SELECT json_array_elements_text($1::json)) AND hold.state = 'HELD'
                    AND coalesce(checkpointed_at, completion.created_at)
                        < statement_timestamp() - interval '{_ANNOUNCED_EVERY_SECONDS} seconds'
                ORDER BY hold.reference FOR NO KEY UPDATE OF hold SKIP LOCKED
            ) AS found
            WHERE billing_hold.reference = found.reference
            RETURNING billing_hold.reference
        )
        UPDATE completions_completion SET checkpointed_at = statement_timestamp() FROM waiting WHERE id = waiting.reference
        """  # noqa: S608  constants of this module
    everywhere.run(partial(_execute, Statement(sql, waiting_ids)))


def _execute(statement: Statement) -> None:
    with pool.time_limit():
        pipelined_transaction.execute(statement)
