"""Runs one source: fetch, check, store, publish. A run is stored whole or not at all; if it fails, the last snapshot stays.

A run that can be read, but would change too much of what is published, is held back: stored, and not published before staff
release it, or a later run replaces it.

One process at a time runs a source, by an advisory lock of the session, which ends with a process that dies. INTERNAL is
published again after every snapshot. Before that, its next run is set to soon: it publishes whatever this one could not.
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
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from django.db import OperationalError, connection, transaction
from django.db.models import QuerySet

from completions.models import Category
from gateway_project.db import cell, pool
from gateway_project.net.background_http import AccessDenied, FetchFailed
from rankings.identity import mapping
from rankings.models import Entry, Snapshot, Source, SourceState, Standing
from rankings.publishing import doubts, publication
from rankings.sources import registry
from rankings.sources.base import FetchedSnapshot, FetchedSourceSpec, SourceAccess, SourceRun, Unchanged
from rankings.sources.documents import ImplausibleData, SourceClient, SourceFailed

logger = logging.getLogger("gateway.rankings")

JITTER = 0.1  # of the cadence, early or late, so that many gateways do not come at once
PUBLISH_AGAIN_WAIT = timedelta(minutes=1)  # after a publication that another one kept waiting for too long
FAILURE_WAIT = timedelta(minutes=15)  # after the first failure; doubled by each one more, up to the cadence
SHARE_MIN = 0.5  # of the last good snapshot's rows, on each board
KEPT_WHOLE = timedelta(days=60)  # older snapshots: one a week
_COLUMNS = ("board", "external_key", "key_kind", "name", "organization", "rank", "value", "facts")  # of a standing, by sources


class RefreshResult(StrEnum):
    STORED = "stored"
    HELD = "held back"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    OFF = "off"
    BUSY = "busy"
    NOT_DUE = "not due"


@dataclass(frozen=True)
class RefreshOutcome:
    source: Source
    result: RefreshResult
    detail: str = ""  # without secrets
    standings: int = 0
    ours: int = 0  # of our models in the snapshot


@dataclass(frozen=True)
class RunOptions:
    say: Callable[[str], object] = lambda line: None  # reports progress
    pause: Callable[[float], object] = time.sleep
    accepts_fewer: bool = False  # store far fewer rows than the last ones, and publish what would be held back


def refresh(source: Source, options: RunOptions | None = None, *, only_if_due: bool = False) -> RefreshOutcome:
    """Run a source, or compute INTERNAL. Never raises for what a source does."""
    if obstacle := registry.spec(source).access().obstacle:
        return RefreshOutcome(source, RefreshResult.OFF, obstacle)
    with _lock(source) as is_locked:
        if not is_locked:
            return RefreshOutcome(source, RefreshResult.BUSY, "another process runs it")
        state, _ = SourceState.objects.get_or_create(pk=source)
        if only_if_due and not is_due(state, pool.database_time()):
            return RefreshOutcome(source, RefreshResult.NOT_DUE)
        return _compute() if source is Source.INTERNAL else _run(state, options or RunOptions())


def is_due(state: SourceState, now: datetime) -> bool:
    """Whether the next run is due. After a refused access that is when the configuration has changed."""
    mark = registry.spec(state.source).access().mark
    if state.validators.get("mark", mark) != mark:
        return True
    return not state.is_refused and (state.next_attempt_at is None or state.next_attempt_at <= now)


@contextmanager
def _lock(source: Source) -> Iterator[bool]:
    """Try to lock the source for the block; yield whether that worked. INTERNAL needs no lock: two may compute it at once."""
    if source is Source.INTERNAL:
        yield True
        return
    key = [zlib.crc32(b"rankings.refresh") - 2**31, list(Source).index(source)]
    [(is_ours,)] = cell.execute("SELECT pg_try_advisory_lock(%s, %s)", key)
    try:
        yield is_ours
    finally:
        # Where the connection broke meanwhile, the lock went with it.
        if is_ours and connection.connection is not None and not connection.connection.closed:
            cell.execute("SELECT pg_advisory_unlock(%s, %s)", key)


def _run(state: SourceState, options: RunOptions) -> RefreshOutcome:
    spec = registry.fetched_spec(state.source)
    access, last = spec.access(), mapping.latest_snapshot(spec.source)
    previous_validators = state.validators if last and state.validators.get("mark") == access.mark else {}
    with ExitStack() as stack:

        def open_client(access: SourceAccess) -> SourceClient:
            client = SourceClient(access.base_url, access.headers, pause=options.pause, say=options.say)
            stack.callback(client.close)
            return client

        run = SourceRun(open_client(access), str(previous_validators.get("revision") or ""), open_client)
        try:
            if spec.is_conditional and run.client.is_unchanged(previous_validators.get("urls") or {}):
                raise Unchanged
            fetched = _complete(spec, spec.read(run), last)
            if doubt := _doubt(spec, fetched, last, options):
                return _hold(state, fetched, access.mark, doubt)
            validators: dict[str, object] = {"mark": access.mark, "revision": fetched.revision}
            validators["urls"] = {} if fetched.stopped else run.client.validators  # ask the refused boards again
            fingerprint = _fingerprint(fetched)
            if last and last.fingerprint == fingerprint:
                _succeeded(state, validators, fetched)
                return RefreshOutcome(spec.source, RefreshResult.UNCHANGED)
            with transaction.atomic():
                snapshot = _create(spec.source, fetched, fingerprint)
                _delete_old(snapshot)
                _succeeded(state, validators, fetched)
        except Unchanged:
            _succeeded(state, previous_validators)
            return RefreshOutcome(spec.source, RefreshResult.UNCHANGED)
        except pool.UNAVAILABLE:
            raise
        except Exception as error:
            if not isinstance(error, (SourceFailed, FetchFailed)):  # the data led to it, and it was not foreseen
                logger.exception("what a source sent could not be read or stored")
                error = ImplausibleData(f"it cannot be read or stored: {type(error).__name__}")
            state.refresh_from_db()  # it may say what was rolled back
            return _failed(state, access.mark, error)
    for note in fetched.notes:
        options.say(note)
    return _publish(snapshot, len(fetched.standings))


def _complete(spec: FetchedSourceSpec, fetched: FetchedSnapshot, last: Snapshot | None) -> FetchedSnapshot:
    """Add the versions of the boards, and the standings that those had which the source refuses now."""
    kept = last.standings.filter(board__in=fetched.stopped).values(*_COLUMNS) if last else []
    boards = {str(board): {"version": fetched.version or spec.board(board).version} for board in spec.boards}
    if last:
        boards |= {str(board): {"as_of": last.as_of.isoformat(), **last.boards.get(board, {})} for board in fetched.stopped}
    standings, notes = [*fetched.standings, *(Standing(**row) for row in kept)], [*fetched.notes, *_stopped(fetched)]
    return replace(fetched, standings=standings, notes=notes, boards=boards)


def _stopped(fetched: FetchedSnapshot) -> list[str]:
    return [f"{board} stays as it was: {refusal}" for board, refusal in fetched.stopped.items()]


def _fingerprint(fetched: FetchedSnapshot) -> str:
    """Return the SHA-256 of the standings, in whatever order they came, with version and date."""
    rows = sorted(json.dumps({name: getattr(row, name) for name in _COLUMNS}, sort_keys=True) for row in fetched.standings)
    versions = sorted((board, about.get("version")) for board, about in fetched.boards.items())
    content = json.dumps([rows, versions, fetched.as_of and fetched.as_of.isoformat()])
    return hashlib.sha256(content.encode()).hexdigest()


def _doubt(spec: FetchedSourceSpec, fetched: FetchedSnapshot, last: Snapshot | None, options: RunOptions) -> str:
    """Return why the run must be held back, or an empty text. Raises ImplausibleData for what can never be published.

    Half a list is worse than yesterday's list.
    """
    if fetched.doubt and not options.accepts_fewer:
        return fetched.doubt
    counts = Counter(row.board for row in fetched.standings)
    if counts[Category.GENERAL] < spec.rows_min and Category.GENERAL not in fetched.stopped:
        raise ImplausibleData(f"{counts[Category.GENERAL]} rows are fewer than {spec.rows_min}")
    keys = {(row.board, row.external_key) for row in fetched.standings}
    if len(keys) < len(fetched.standings):
        raise ImplausibleData("a model is twice on a board")
    if fetched.as_of and fetched.as_of > pool.database_time() + timedelta(days=1):
        raise ImplausibleData(f"it is of {fetched.as_of:%Y-%m-%d}, which is in the future")
    if last is None or options.accepts_fewer:
        return ""
    for board, before in Counter(last.standings.exclude(board__in=fetched.unread).values_list("board", flat=True)).items():
        if counts[Category(board)] < before * SHARE_MIN:
            raise ImplausibleData(f"{board} has {counts[Category(board)]} rows, and had {before}")
    if fetched.as_of and fetched.as_of < last.as_of:
        raise ImplausibleData(f"it is of {fetched.as_of:%Y-%m-%d}, older than what we have")
    return doubts.find(last, fetched)


def _create(source: Source, fetched: FetchedSnapshot, fingerprint: str, held_because: str = "") -> Snapshot:
    snapshot = Snapshot.objects.create(
        source=source,
        as_of=fetched.as_of or pool.database_time(),
        fingerprint=fingerprint,
        version=fetched.version,
        attribution=fetched.attribution,
        boards=fetched.boards,
        notes="\n".join(fetched.notes),
        held_because=held_because,
    )
    for standing in fetched.standings:
        standing.snapshot = snapshot
    Standing.objects.bulk_create(fetched.standings, batch_size=1_000)
    return snapshot


@transaction.atomic
def _hold(state: SourceState, fetched: FetchedSnapshot, mark: str, doubt: str) -> RefreshOutcome:
    """Store the run for staff, in place of an earlier one that waits for them. The next run comes as after a failure."""
    fingerprint = _fingerprint(fetched)
    waiting = _held(state.source)
    if not waiting.filter(fingerprint=fingerprint, held_because=doubt).exists():
        waiting.delete()
        _create(Source(state.source), fetched, fingerprint, held_because=doubt)
    _failed(state, mark, ImplausibleData(f"held back: {doubt}"))
    return RefreshOutcome(Source(state.source), RefreshResult.HELD, doubt, standings=len(fetched.standings))


def _held(source: Source | str) -> QuerySet[Snapshot]:
    return Snapshot.objects.filter(source=source).exclude(held_because="")


@transaction.atomic
def release(snapshot: Snapshot) -> bool:
    """Let a run that was held back be published, and count as the source's last success. Return False if it no longer waits."""
    if not _held(snapshot.source).filter(pk=snapshot.pk).update(held_because=""):
        return False
    SourceState.objects.filter(pk=snapshot.source).update(last_success_at=snapshot.taken_at, failures=0, error="")
    return True


def _delete_old(newest: Snapshot) -> None:
    """Keep only the last snapshot of each week of those older than 60 days."""
    old = Snapshot.objects.filter(source=newest.source, taken_at__lt=pool.database_time() - KEPT_WHOLE).exclude(pk=newest.pk)
    weekly = {taken_at.isocalendar()[:2]: pk for pk, taken_at in old.order_by("pk").values_list("pk", "taken_at")}
    old.exclude(pk__in=weekly.values()).delete()


def _succeeded(state: SourceState, validators: dict[str, object], fetched: FetchedSnapshot | None = None) -> None:
    """Store the success. A run held back before is no longer the source's newest."""
    _held(state.source).delete()
    now = pool.database_time()
    state.last_success_at = state.last_attempt_at = now
    state.next_attempt_at = now + _jittered(registry.spec(state.source).cadence)
    state.failures, state.is_refused, state.validators = 0, False, validators
    state.error = "; ".join(_stopped(fetched)) if fetched else ""
    state.save()


def _failed(state: SourceState, mark: str, failure: SourceFailed | FetchFailed) -> RefreshOutcome:
    """Store the reason and the time of the next attempt. The published rankings stay."""
    now = pool.database_time()
    wait = min(FAILURE_WAIT * 2 ** min(state.failures, 10), registry.spec(state.source).cadence)
    if isinstance(failure, SourceFailed):
        retry_at = failure.retry_at
    else:
        retry_at = None if failure.retry_seconds is None else now + timedelta(seconds=failure.retry_seconds)
    state.last_attempt_at, state.next_attempt_at = now, retry_at or now + _jittered(wait)
    state.failures = min(state.failures + 1, 1_000)
    state.is_refused, state.error = isinstance(failure, AccessDenied), str(failure)
    # Validators are valid only for the access that they were given to. Without them the next run reads everything again.
    state.validators = state.validators if state.validators.get("mark") == mark else {"mark": mark}
    state.save()
    logger.warning("%s was not refreshed: %s", state.source, failure, extra={"source": str(state.source)})
    return RefreshOutcome(Source(state.source), RefreshResult.FAILED, str(failure))


def _jittered(wait: timedelta) -> timedelta:
    return wait * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  no secret


def _publish(snapshot: Snapshot, standings: int) -> RefreshOutcome:
    source = Source(snapshot.source)
    if not _publish_or_postpone([source], [snapshot]):
        detail = "it is published with the next run of INTERNAL"
        return RefreshOutcome(source, RefreshResult.STORED, detail, standings=standings)
    ours = {model_id for board in mapping.chosen_standings(snapshot).values() for model_id in board}
    logger.info("%s: %s standings, %s of our models", source, standings, len(ours))
    return RefreshOutcome(source, RefreshResult.STORED, standings=standings, ours=len(ours))


def _compute() -> RefreshOutcome:
    """Publish all sources again, INTERNAL last: names, prices and the served models may have changed since."""
    snapshots = [each for spec in registry.fetched_specs() if (each := mapping.latest_snapshot(spec.source))]
    shown = {Source(each.source) for each in snapshots}
    shown |= {spec.source for spec in registry.fetched_specs() if Entry.objects.filter(source=spec.source).exists()}
    if not _publish_or_postpone([source for source in Source if source in shown], snapshots):
        return RefreshOutcome(Source.INTERNAL, RefreshResult.BUSY, "another process publishes; it is tried again in a minute")
    return RefreshOutcome(Source.INTERNAL, RefreshResult.STORED)


def _publish_or_postpone(sources: list[Source], snapshots: list[Snapshot]) -> bool:
    """Map the snapshots and publish the sources, INTERNAL last. Return False if another process kept the locks for too long."""
    SourceState.objects.bulk_create([SourceState(source=source) for source in Source], ignore_conflicts=True)
    internal = SourceState.objects.filter(pk=Source.INTERNAL)
    internal.update(next_attempt_at=pool.database_time() + FAILURE_WAIT)
    try:
        mapping.load_curated()
        for snapshot in snapshots:
            mapping.map_by_rules(snapshot)
        publication.publish(*sources, Source.INTERNAL)
    except OperationalError as error:
        if not pool.is_lock_timeout(error):
            raise
        logger.warning("not published, because another process publishes: it is tried again in a minute")
        internal.update(next_attempt_at=pool.database_time() + PUBLISH_AGAIN_WAIT)
        return False
    internal.update(next_attempt_at=pool.database_time() + _jittered(registry.spec(Source.INTERNAL).cadence))
    return True
