"""Decides what becomes of a completion whose end the database may not know, and counts every charge.

    its hold is open                                 it is settled
    the sweeper resolved its hold                    the sweeper's charge is corrected
    its hold was resolved otherwise                  nothing: it was settled before
    the database does not know it                    it is admitted again, and settled
    its account is locked, or cannot pay yet         it waits
    it was repeated, or the database refuses it      it is a dead letter

Each function may be called again, and by two callers at once: the second finds the hold resolved, and changes nothing.
"""

import logging
from collections.abc import Container, Sequence
from dataclasses import replace

from django.conf import settings
from django.db import DataError, IntegrityError

from completions.charging import batch
from completions.charging.recovery import corrections, journal, outbox, readmission
from completions.charging.resolution import Resolution
from completions.models import Completion
from gateway_project import logs, metrics
from gateway_project.db import pool
from gateway_project.db.group_commit import Skipped

logger = logging.getLogger("gateway.settlement")


def find_rows(completion_ids: Sequence[str]) -> dict[str, Completion]:
    with pool.time_limit():
        return Completion.objects.in_bulk(completion_ids)


def settle_all(resolutions: Sequence[Resolution], *, known_ids: Container[str]) -> list[int | Exception | None]:
    """Settle what the database knows; admit again and settle the others. Return results like ``resolve_all``, or TiedUp."""
    results: dict[str, int | Exception | None] = {}
    ready = [each for each in resolutions if each.completion.id in known_ids]
    forgotten = [each for each in resolutions if each.completion.id not in known_ids]
    for each, admitted in zip(forgotten, readmission.readmit_all(forgotten), strict=True):
        if isinstance(admitted, Exception):
            results[each.completion.id] = admitted
        else:
            ready.append(replace(each, completion=admitted))
    results |= zip([each.completion.id for each in ready], resolve_all(ready), strict=True)
    return [results[each.completion.id] for each in resolutions]


def resolve_all(resolutions: list[Resolution]) -> list[int | Exception | None]:
    """Commit resolutions together, or correct what the sweeper charged. Waits neither for locks nor for the database.

    Return for each the charge in nanodollars; None if the hold was resolved before, and nothing needs a correction; Skipped if
    its account is locked; or the error because of which it can never be committed.
    """
    try:
        outcomes: list[int | Exception | None] = batch.commit_together(resolutions) if resolutions else []
    except Exception as error:
        if not _is_its_own(error):
            raise
        return [error] if len(resolutions) == 1 else [outcome for each in resolutions for outcome in resolve_all([each])]
    return [_conclude(*each) for each in zip(resolutions, outcomes, strict=True)]


def _conclude(resolution: Resolution, outcome: int | Exception | None) -> int | Exception | None:
    if isinstance(outcome, int):
        report(resolution, outcome)
    if outcome is not None:
        return outcome
    try:
        return correct(resolution)
    except Exception as error:
        if not _is_its_own(error):
            raise
        return error


def _is_its_own(error: Exception) -> bool:
    """Return whether the error is that of one resolution: a value that the database refuses, or a bug of the gateway."""
    return isinstance(error, (DataError, IntegrityError)) or not isinstance(error, (*pool.DATABASE_ERRORS, *outbox.UNAVAILABLE))


def correct(resolution: Resolution) -> int | Skipped | None:
    """Correct what the sweeper charged, like ``corrections.correct``, in the cell of the account."""
    with resolution.in_its_cell():
        corrected = corrections.correct(resolution)
    # None: our own commit charged it, whose answer was lost. Then it is in no journal yet.
    is_charged = isinstance(corrected, int) or corrected is None and resolution.cost_nanos is not None
    if is_charged and settings.SETTLEMENT_JOURNAL_MINUTES:
        journal.append(resolution)
    return corrected


def report(resolution: Resolution, charged_nanos: int) -> None:
    """Count, log and record a charge that is committed. A release needs none of it."""
    if resolution.cost_nanos is None:
        return
    if settings.SETTLEMENT_JOURNAL_MINUTES:
        journal.append(resolution)
    completion_id, model_id = resolution.completion.id, resolution.served_by.model_id
    metrics.count_completion(model_id, resolution.settlement)
    if resolution.cost_nanos > charged_nanos:
        metrics.operator_loss_nanos.inc(resolution.cost_nanos - charged_nanos)
    if resolution.settlement == Completion.Settlement.REPORTED and not resolution.completion.is_stream:
        return  # the log line of its request says the same
    logs.write(
        logger,
        logging.INFO,
        "settled %s: %s, %s nanodollars",
        (completion_id, resolution.settlement, charged_nanos),
        {"completion": completion_id, "model": model_id, "cost_nanos": charged_nanos},
    )
