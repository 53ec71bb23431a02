"""What running completions have done so far, written down every few seconds: all that a process that dies leaves behind.

A worker writes one statement for all that it runs. Who finds a checkpoint that has grown old knows that nobody will settle
this completion any more, and what of it had been relayed.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import gevent
from django.db import DatabaseError, InterfaceError

from completions.models import Completion
from gateway_project import database
from gateway_project.database import Statement

logger = logging.getLogger("gateway.checkpoints")

INTERVAL_SECONDS = 2
ABANDONED_AFTER = timedelta(seconds=60)  # many times the interval: a busy worker, or a database that was away, is not dead


@dataclass(slots=True)
class Checkpoint:
    """Bytes of text relayed so far; None until the upstream has begun."""

    relayed_bytes: int | None = None


_running: dict[str, Checkpoint] = {}  # by completion id


@contextmanager
def kept(completion: Completion) -> Iterator[Checkpoint]:
    """While it runs, the completion's checkpoint is written with the others."""
    checkpoint = _running[completion.pk] = Checkpoint()
    try:
        yield checkpoint
    finally:
        del _running[completion.pk]


def write_regularly() -> None:
    """In each worker, as long as it lives."""
    gevent.spawn(_write_regularly)


def _write_regularly() -> None:
    while True:
        gevent.sleep(INTERVAL_SECONDS)
        try:
            write()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("cannot write checkpoints: %s", error)
        finally:
            database.give_back_connection()


def write() -> None:
    """Write down what runs now. Rows that somebody has locked are being settled: they need no checkpoint, and no deadlock."""
    if not _running:
        return
    running = dict(_running)
    sql = """
        UPDATE completions_completion SET relayed_bytes = checkpoint.relayed_bytes, checkpointed_at = statement_timestamp()
        FROM unnest(%s::text[], %s::bigint[]) AS checkpoint (id, relayed_bytes)
        WHERE completions_completion.id = checkpoint.id AND completions_completion.id IN (
            SELECT id FROM completions_completion WHERE id = ANY(%s) AND settlement IS NULL
            ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
        )
        """
    ids, relayed = list(running), [checkpoint.relayed_bytes for checkpoint in running.values()]
    with database.patience():
        database.execute(Statement(sql, (ids, relayed, ids)))
