"""One run of one source: ask, look whether it can be true, keep it whole, publish. Fails alone, and leaves the last good one.

One process at a time runs a source; the session's advisory lock goes with the process that dies. What is published of INTERNAL
follows every snapshot, since it is made of them.
"""

import hashlib
import json
import logging
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db import connection, transaction

from completions.models import Category
from gateway_project.db import pool
from rankings.identity import mapping
from rankings.models import Entry, Snapshot, Source, SourceState, Standing
from rankings.publishing import publication
from rankings.sources import registry
from rankings.sources.base import Access, FetchedSnapshot, FetchedSourceSpec, Run, Unchanged
from rankings.sources.client import Client, Implausible, Refused, SourceFailed

logger = logging.getLogger("gateway.rankings")

JITTER = 0.1  # of the cadence, early or late: many gateways must not come at once
FAILURE_WAIT = timedelta(minutes=15)  # after the first failure; doubled by each one more, up to the cadence
SHARE_MIN = 0.5  # of the last good snapshot's rows, on each board
KEPT_WHOLE = timedelta(days=60)  # older snapshots: one a week


class Result(StrEnum):
    STORED = "stored"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    OFF = "off"
    BUSY = "busy"
    NOT_DUE = "not due"


@dataclass(frozen=True)
class Outcome:
    """What a run came to, for people and programs. ``detail`` holds no secret."""

    source: Source
    result: Result
    detail: str = ""
    standings: int = 0
    ours: int = 0


@dataclass(frozen=True)
class RunOptions:
    """How a run goes about it. ``accepts_fewer``: somebody looked, and the source really has shrunk."""

    say: Callable[[str], object] = lambda line: None
    pause: Callable[[float], object] = time.sleep
    accepts_fewer: bool = False


def refresh(source: Source, manner: RunOptions | None = None, *, only_if_due: bool = False) -> Outcome:
    """Run a source, or compute INTERNAL. Never raises for what a source does."""
    if obstacle := registry.spec(source).access().obstacle:
        return Outcome(source, Result.OFF, obstacle)
    with _alone(source) as is_alone:
        if not is_alone:
            return Outcome(source, Result.BUSY, "another process is at it")
        state, _ = SourceState.objects.get_or_create(pk=source)
        if only_if_due and not is_due(state, pool.database_time()):
            return Outcome(source, Result.NOT_DUE)
        return _compute() if source is Source.INTERNAL else _run(state, manner or RunOptions())


def is_due(state: SourceState, now: datetime) -> bool:
    """Whether its turn has come. What was refused waits for another configuration."""
    mark = registry.spec(state.source).access().mark
    if state.validators.get("mark", mark) != mark:
        return True
    return not state.is_refused and (state.next_attempt_at is None or state.next_attempt_at <= now)


@contextmanager
def _alone(source: Source) -> Iterator[bool]:
    """Whether nobody else runs this source, until the end of the block. INTERNAL may be computed twice at once."""
    if source is Source.INTERNAL:
        yield True
        return
    key = [zlib.crc32(b"rankings.refresh") - 2**31, list(Source).index(source)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", key)
        is_ours = bool(cursor.fetchone()[0])
    try:
        yield is_ours
    finally:
        # Where the connection broke meanwhile, the lock went with it.
        if is_ours and connection.connection is not None and not connection.connection.closed:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", key)


# --- Asking ----------------------------------------------------------------------------------------------------------


def _run(state: SourceState, manner: RunOptions) -> Outcome:
    spec = registry.fetched_spec(state.source)
    access, last = spec.access(), mapping.latest_snapshot(spec.source)
    known = state.validators if last and state.validators.get("mark") == access.mark else {}
    with ExitStack() as stack:

        def open_client(access: Access) -> Client:
            client = Client(access.base_url, access.headers, pause=manner.pause, say=manner.say)
            stack.callback(client.close)
            return client

        run = Run(open_client(access), str(known.get("revision") or ""), open_client)
        try:
            fetched = _read(spec, run, known)
            _require_plausible(spec, fetched, last, manner)
        except Unchanged:
            _succeeded(state, known)
            return Outcome(spec.source, Result.UNCHANGED)
        except SourceFailed as failure:
            return _failed(state, access.mark, failure)
        validators: dict[str, object] = {"mark": access.mark, "revision": fetched.revision, "urls": run.client.validators}
    fingerprint = _fingerprint(fetched)
    if last and last.fingerprint == fingerprint:
        _succeeded(state, validators)
        return Outcome(spec.source, Result.UNCHANGED)
    snapshot = _store(state, fetched, fingerprint, validators)
    for note in fetched.notes:
        manner.say(note)
    return _publish(snapshot, len(fetched.standings))


def _read(spec: FetchedSourceSpec, run: Run, known: dict[str, object]) -> FetchedSnapshot:
    conditions = known.get("urls")
    if spec.is_conditional and isinstance(conditions, dict) and run.client.is_unchanged(conditions):
        raise Unchanged
    return spec.read(run)


def _fingerprint(fetched: FetchedSnapshot) -> str:
    """SHA-256 of what was read, whatever the order it came in."""
    rows = sorted(json.dumps(asdict(row), sort_keys=True) for row in fetched.standings)
    said = json.dumps([rows, fetched.version, fetched.as_of and fetched.as_of.isoformat()])
    return hashlib.sha256(said.encode()).hexdigest()


# --- Whether it can be true ------------------------------------------------------------------------------------------


def _require_plausible(spec: FetchedSourceSpec, fetched: FetchedSnapshot, last: Snapshot | None, manner: RunOptions) -> None:
    """Raises Implausible: half a list is worse than yesterday's."""
    counts = Counter(row.board for row in fetched.standings)
    if counts[Category.GENERAL] < spec.rows_min:
        raise Implausible(f"{counts[Category.GENERAL]} rows are fewer than {spec.rows_min}")
    keys = {(row.board, row.external_key) for row in fetched.standings}
    if len(keys) < len(fetched.standings):
        raise Implausible("a model is twice on a board")
    if fetched.as_of and fetched.as_of > pool.database_time() + timedelta(days=1):
        raise Implausible(f"it is of {fetched.as_of:%Y-%m-%d}, which is to come")
    if last is None or manner.accepts_fewer:
        return
    for board, before in Counter(last.standings.values_list("board", flat=True)).items():
        if counts[Category(board)] < before * SHARE_MIN:
            raise Implausible(f"{board} has {counts[Category(board)]} rows, and had {before}")
    if fetched.as_of and fetched.as_of < last.as_of:
        raise Implausible(f"it is of {fetched.as_of:%Y-%m-%d}, older than what we have")


# --- Keeping it ------------------------------------------------------------------------------------------------------


@transaction.atomic
def _store(state: SourceState, fetched: FetchedSnapshot, fingerprint: str, validators: dict[str, object]) -> Snapshot:
    """The snapshot, its standings and the success, all or nothing; what has grown old goes."""
    snapshot = Snapshot.objects.create(
        source=state.source,
        as_of=fetched.as_of or pool.database_time(),
        fingerprint=fingerprint,
        version=fetched.version,
        attribution=fetched.attribution,
    )
    rows = [Standing(snapshot=snapshot, **asdict(row)) for row in fetched.standings]
    Standing.objects.bulk_create(rows, batch_size=1_000)
    _thin(snapshot)
    _succeeded(state, validators)
    return snapshot


def _thin(newest: Snapshot) -> None:
    """Of those that are older than 60 days, keep the last one of each week."""
    old = Snapshot.objects.filter(source=newest.source, taken_at__lt=pool.database_time() - KEPT_WHOLE).exclude(pk=newest.pk)
    weekly = {taken_at.isocalendar()[:2]: pk for pk, taken_at in old.order_by("pk").values_list("pk", "taken_at")}
    old.exclude(pk__in=weekly.values()).delete()


def _succeeded(state: SourceState, validators: dict[str, object]) -> None:
    now = pool.database_time()
    state.last_success_at = state.last_attempt_at = now
    state.next_attempt_at = now + _jittered(registry.spec(state.source).cadence)
    state.failures, state.error, state.is_refused, state.validators = 0, "", False, validators
    state.save()


def _failed(state: SourceState, mark: str, failure: SourceFailed) -> Outcome:
    """Write down why, and when it is tried again. What is published stays."""
    now = pool.database_time()
    wait = min(FAILURE_WAIT * 2 ** min(state.failures, 10), registry.spec(state.source).cadence)
    state.last_attempt_at, state.next_attempt_at = now, failure.retry_at or now + _jittered(wait)
    state.failures = min(state.failures + 1, 1_000)
    state.is_refused, state.error = isinstance(failure, Refused), str(failure)
    # Under another mark the validators would be believed; without them everything is read again, which is only slower.
    state.validators = state.validators if state.validators.get("mark") == mark else {"mark": mark}
    state.save()
    logger.warning("%s was not refreshed: %s", state.source, failure)
    return Outcome(Source(state.source), Result.FAILED, str(failure))


def _jittered(wait: timedelta) -> timedelta:
    return wait * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  no secret


# --- Publishing ------------------------------------------------------------------------------------------------------


def _publish(snapshot: Snapshot, standings: int) -> Outcome:
    source = Source(snapshot.source)
    mapping.load_curated()
    mapping.map_by_rules(snapshot)
    publication.publish(source)
    ours = {model_id for board in mapping.chosen_standings(snapshot).values() for model_id in board}
    logger.info("%s: %s standings, %s of our models", source, standings, len(ours))
    return Outcome(source, Result.STORED, standings=standings, ours=len(ours))


def _compute() -> Outcome:
    """Publish anew all we have: names, prices and what is served may have changed. INTERNAL is the one that always has."""
    SourceState.objects.bulk_create([SourceState(source=source) for source in Source], ignore_conflicts=True)
    state = SourceState.objects.filter(pk=Source.INTERNAL)
    state.update(next_attempt_at=pool.database_time() + FAILURE_WAIT)  # should it raise
    mapping.load_curated()
    shown = []
    for spec in registry.fetched_specs():
        snapshot = mapping.latest_snapshot(spec.source)
        if snapshot is not None:
            mapping.map_by_rules(snapshot)
        if snapshot is not None or Entry.objects.filter(source=spec.source).exists():
            shown.append(spec.source)
    publication.publish(*shown, Source.INTERNAL)
    state.update(next_attempt_at=pool.database_time() + _jittered(registry.spec(Source.INTERNAL).cadence))
    return Outcome(Source.INTERNAL, Result.STORED)
