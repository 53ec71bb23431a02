"""Collects the refusals of this process in memory, and writes them to the database every few seconds.

DRF's exception handler is here: every error reply to a known key passes it. The log counts all others.

The memory is bounded, also while the database is unavailable: the oldest are dropped, and the log says how many. The times are
those of this host's clock: nothing is decided by them.
"""

import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import gevent
from django.db import DataError, IntegrityError
from django.http import HttpResponse

from gateway_project import errors
from gateway_project.db import cell, pipelined_transaction, pool, repetition
from gateway_project.web import error_replies
from gateway_project.web.request_notes import notes_of
from keys.models import ApiKey
from keys.refusal_history import tables
from keys.refusal_history.tables import Kind, Reached, Refusal

logger = logging.getLogger("gateway.refusals")

WRITE_SECONDS = 5
KEYS_MAX = 2_000
LATEST_MAX = 10  # refusals of one key that are kept one by one between two writes
KINDS_MAX = 24  # counts of one key: in an outage of many hours, each hour has its own
_FAILURE = "cannot write the history of refusals"
_LAST_WRITE_SECONDS = 2  # of a process that ends


@dataclass(slots=True)
class RefusalsOfKey:
    """How often a key was refused, by kind, and its last refusals, the oldest first."""

    counts: dict[Kind, int] = field(default_factory=dict)
    latest: deque[Refusal] = field(default_factory=lambda: deque(maxlen=LATEST_MAX))
    reached: deque[Reached] = field(default_factory=lambda: deque(maxlen=tables.LATEST_MAX))

    def count(self, kind: Kind, number: int) -> int:
        """Return how many counted refusals were dropped for want of room."""
        dropped = 0
        if kind not in self.counts and len(self.counts) >= KINDS_MAX:
            dropped = self.counts.pop(next(iter(self.counts)))
        self.counts[kind] = self.counts.get(kind, 0) + number
        return dropped


@dataclass(slots=True)
class RefusalCollector:
    """The refusals since the last write, by key id in the order of their first one, and how many were dropped."""

    by_key: dict[str, RefusalsOfKey] = field(default_factory=dict)
    dropped: int = 0

    def record(self, key_id: str, refusal: Refusal, reached: Reached | None = None) -> None:
        of_key = self._of_key(key_id)
        self.dropped += of_key.count(refusal.kind, 1)
        of_key.latest.append(refusal)
        if reached and reached not in of_key.reached:
            of_key.reached.append(reached)

    def take(self) -> "RefusalCollector":
        """Return what was collected, and begin anew."""
        taken = RefusalCollector(self.by_key, self.dropped)
        self.by_key, self.dropped = {}, 0
        return taken

    def put_back(self, taken: "RefusalCollector") -> None:
        """Take back what could not be written, as older than what was collected meanwhile."""
        newer = self.take()
        self.by_key, self.dropped = taken.by_key, taken.dropped + newer.dropped
        for key_id, refusals in newer.by_key.items():
            of_key = self._of_key(key_id)
            self.dropped += sum(of_key.count(kind, number) for kind, number in refusals.counts.items())
            of_key.latest.extend(refusals.latest)
            of_key.reached.extend(refusals.reached)

    def _of_key(self, key_id: str) -> RefusalsOfKey:
        of_key = self.by_key.get(key_id)
        if of_key is None:
            if len(self.by_key) >= KEYS_MAX:
                oldest = self.by_key.pop(next(iter(self.by_key)))
                self.dropped += sum(oldest.counts.values())
            of_key = self.by_key[key_id] = RefusalsOfKey()
        return of_key


process_collector = RefusalCollector()
_writing = threading.Lock()  # one write at a time: the last one of a process waits for the one that runs


def write() -> None:
    """Write the refusals. Raises the database's errors: then they wait for the next write, if it can ever accept them."""
    with _writing:
        taken = process_collector.take()
        if not taken.by_key:
            return
        _write_cells(taken)
        if taken.dropped:
            logger.warning("%s refusals are not in the history: there were more than could be kept until now", taken.dropped)


def _write_cells(taken: RefusalCollector) -> None:
    """Write those of keys in each cell. The others are put back, and their error is raised after the last cell."""
    failures: list[Exception] = []
    try:
        by_cell = ApiKey.by_cell(taken.by_key)
    except pool.DATABASE_ERRORS:
        process_collector.put_back(taken)
        raise
    for number, key_ids in by_cell.items():
        of_cell = RefusalCollector({key_id: taken.by_key[key_id] for key_id in key_ids})
        try:
            with cell.use(number), pool.time_limit():
                reached = [{**each, "key_id": id} for id, of_key in of_cell.by_key.items() for each in of_key.reached]
                for statement in (*tables.tell_statements(reached), tables.write_statement(_of_each_key(of_cell))):
                    pipelined_transaction.execute(statement)
        except (DataError, IntegrityError) as error:
            failures.append(error)
        except pool.DATABASE_ERRORS as error:
            process_collector.put_back(of_cell)
            failures.append(error)
    if failures:
        raise failures[0]


def _of_each_key(taken: RefusalCollector) -> tables.OfEachKey:
    return [(key_id, of_key.counts, of_key.latest) for key_id, of_key in taken.by_key.items()]


def write_regularly() -> None:
    """Write every few seconds for the life of this worker."""
    repetition.repeat(write, WRITE_SECONDS, logger=logger, failure=_FAILURE)


def write_last() -> None:
    """Write what is left as this process ends, within a moment."""
    with gevent.Timeout(_LAST_WRITE_SECONDS, False):
        repetition.attempt(write, logger=logger, failure=_FAILURE)


def handle_exception(exception: Exception, context: dict[str, Any]) -> HttpResponse:
    """Return the reply to an exception of a view."""
    error, request = error_replies.translate(exception), context["request"]._request
    response = error_replies.as_json(error, request)
    notes = notes_of(request)
    took_nothing = getattr(context["view"], "takes_when_admitted", False) and not notes.completion_id
    is_refused = not error_replies.hand_on(error, request, response, took_nothing=took_nothing)
    if is_refused and notes.key_id:
        refusal = _new_refusal(error, datetime.now(UTC), notes.id, notes.model_id)
        process_collector.record(notes.key_id, refusal, getattr(error, "reached", None))
    return response


def _new_refusal(error: errors.ApiError, at: datetime, request_id: str, model: object) -> Refusal:
    """Return what is kept of a refusal: of the caller's words, the model's name alone."""
    message = "" if error.quotes_request else error.message[: tables.MESSAGE_CHARACTERS_MAX]
    asked = model[: tables.MODEL_CHARACTERS_MAX] if isinstance(model, str) else ""
    return Refusal(at, request_id, error.status, error.code, type(error).__name__, message, asked)
