"""Ends completions: charges the usage of each, or releases its hold, once.

Every function here may be called again, and by two callers at once: the second finds the hold resolved and changes nothing.
When the database is unavailable, or has forgotten an admission, the settlements of running replies are stored in the outbox.
"""

import logging
import time
from typing import Any

import gevent
from django.conf import settings
from django.db import DataError, IntegrityError

from completions.charging import batch, idempotency
from completions.charging.batch import AdmissionLost
from completions.charging.idempotency import IdempotencyKey
from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.recovery import corrections, journal, outbox
from completions.charging.resolution import ReplyRetention, Resolution
from completions.charging.stored_responses import ResponseRecord
from completions.estimates import cost
from completions.models import Completion
from completions.pricing.rates import RateSheet
from completions.pricing.usage import Usage
from gateway_project import errors, logs, metrics
from gateway_project.db import pool
from gateway_project.db.group_commit import Skipped, WaitTimedOut
from gateway_project.monitoring.steps import step

logger = logging.getLogger("gateway.settlement")

# After the last text of a reply, its client waits so long for [DONE]; each try may wait for a connection or a lock besides. A
# restart of the database takes about as long. In a longer outage the outbox takes over.
_RETRY_SECONDS = 3


@step("settlement")
def settle(
    completion: CompletionRecord,
    served_by: ServedBy,
    usage: Usage,
    price: RateSheet,
    settlement: Completion.Settlement,
    *,
    idempotency_key: IdempotencyKey | None = None,
    reply: bytes | None = None,
    stores_reply: bool = True,
    unpaid_nanos: int = 0,
    disowned_nanos: int = 0,
    response: ResponseRecord | None = None,
) -> int | None:
    """Charge ``usage`` at ``price``, at most what was held. Return the nanodollars charged.

    Of what it costs above that, ``disowned_nanos`` do not count against the account: their loss is counted already.

    Return None when the hold was resolved before, and correct what was charged then. Return None, too, when the database is
    unavailable or has forgotten the admission: the settlement is charged from the outbox. ``reply`` is what the client gets,
    and gets again for the same Idempotency-Key. Without a reply, a retry under that key runs again; with one that is not
    stored, it is refused. ``response`` is stored for later requests. Raises the database's error when the disk refuses, too.
    """
    cost_nanos = price.cost_nanos(usage, completion.images) - disowned_nanos
    reply_retention = None
    if idempotency_key:
        sealed_reply = idempotency.seal(reply) if reply is not None and stores_reply else None
        reply_retention = ReplyRetention(sealed_reply, reply is not None, idempotency_key)
    return _resolve_or_store(
        Resolution(completion, served_by, settlement, usage, cost_nanos, reply_retention, unpaid_nanos, response)
    )


@step("release")
def release(completion: CompletionRecord, served_by: ServedBy, *, unpaid_nanos: int = 0) -> bool:
    """Release the hold: nothing is charged, whatever providers charge for it (``unpaid_nanos``). Waits like ``settle``.

    Return False when the hold was resolved before, or when the release is stored in the outbox.
    """
    released = Resolution(completion, served_by, Completion.Settlement.RELEASED, unpaid_nanos=unpaid_nanos)
    return _resolve_or_store(released) is not None


def recover(completion: Completion, relayed_bytes: int) -> bool:
    """Charge what a process had relayed by its last checkpoint before it died: an estimate of the prompt and of the text.

    Does not wait. ``completion`` has its price loaded. Return False when the hold was resolved before.
    """
    usage = Usage(completion.prompt_estimate, cost.estimate_tokens(relayed_bytes), tier=completion.service_tier or "")
    cost_nanos = completion.price.sheet.cost_nanos(usage, completion.images)
    return _resolve_row(completion, Completion.Settlement.RECOVERED, usage, cost_nanos, ReplyRetention(None, is_kept=False))


def expire(completion: Completion) -> bool:
    """Release a hold that was not resolved in time. Does not wait: the sweeper tries again in its next run.

    Return False when the hold was resolved before.
    """
    return _resolve_row(completion, Completion.Settlement.EXPIRED)


def _resolve_row(completion: Completion, settlement: Completion.Settlement, *charge: Any) -> bool:
    record, served_by = CompletionRecord.from_row(completion), ServedBy.from_row(completion)
    return resolve(Resolution(record, served_by, settlement, *charge)) is not None


def resolve(resolution: Resolution) -> int | None:
    """Commit a resolution. Return the nanodollars charged; None when the hold was resolved before.

    Does not wait for the database to come back. Raises AdmissionLost.
    """
    charged_nanos: int | None = batch.commit(resolution)
    if charged_nanos is not None and resolution.cost_nanos is not None:
        _report(resolution, resolution.cost_nanos, charged_nanos)
    return charged_nanos


def resolve_all(resolutions: list[Resolution]) -> list[int | Exception | None]:
    """Commit resolutions together, or correct what the sweeper charged instead. Return one result for each:

    - the charge in nanodollars;
    - None if the hold was resolved before, and nothing needs a correction;
    - Skipped if another session locks the account;
    - the error if the resolution can never be committed.

    Does not wait for locked accounts, nor for the database. Raises the database's errors.
    """
    if not resolutions:
        return []
    try:
        outcomes: list[int | Exception | None] = batch.commit_together(resolutions)
    except (DataError, IntegrityError) as error:  # a value that the database refuses
        return _resolve_each(resolutions, error)
    except (*pool.DATABASE_ERRORS, *outbox.UNAVAILABLE):
        raise
    except Exception as error:  # a bug of the gateway
        return _resolve_each(resolutions, error)
    for resolution, charged_nanos in zip(resolutions, outcomes, strict=True):
        if isinstance(charged_nanos, int) and resolution.cost_nanos is not None:
            _report(resolution, resolution.cost_nanos, charged_nanos)
    return [
        _correct_or_refuse(resolution) if outcome is None else outcome
        for resolution, outcome in zip(resolutions, outcomes, strict=True)
    ]


def _correct_or_refuse(resolution: Resolution) -> int | Exception | None:
    """Correct what the sweeper charged. Return the error because of which that is impossible: it holds up no other file."""
    try:
        return _correct(resolution)
    except (DataError, IntegrityError) as error:
        return error
    except (*pool.DATABASE_ERRORS, *outbox.UNAVAILABLE):
        raise
    except Exception as error:  # a bug of the gateway
        return error


def _correct(resolution: Resolution) -> int | Skipped | None:
    with resolution.in_its_cell():
        corrected = corrections.correct(resolution)
    # None: our own commit charged it, whose answer was lost. Then it is in no journal yet.
    is_charged = isinstance(corrected, int) or corrected is None and resolution.cost_nanos is not None
    if is_charged and settings.SETTLEMENT_JOURNAL_MINUTES:
        journal.record(resolution)
    return corrected


def _resolve_each(resolutions: list[Resolution], error: Exception) -> list[int | Exception | None]:
    """Commit them one by one, because of an error of one of them."""
    return [error] if len(resolutions) == 1 else [outcome for each in resolutions for outcome in resolve_all([each])]


def _resolve_or_store(resolution: Resolution) -> int | None:
    """Retry while the database is unavailable, then store the resolution in the outbox and return None.

    A resolution whose admission the database has forgotten is stored at once, and admitted again from there.

    Raises the database's error when the disk refuses, too. A retry is safe when only the answer to a COMMIT was lost: a hold
    is resolved once.
    """
    deadline, pause_seconds = time.monotonic() + _RETRY_SECONDS, 0.1
    while True:
        try:
            return _resolve_or_correct(resolution)
        except AdmissionLost as error:
            outbox.store_forgotten(resolution, error)
            return None
        except outbox.UNAVAILABLE as error:
            if time.monotonic() + pause_seconds > deadline or outbox.has_waiting():  # others have waited without success
                outbox.store(resolution, error)
                return None
            facts = {"completion": resolution.completion.id}
            logger.warning("cannot settle yet, trying again in %.1f s: %s", pause_seconds, errors.reason(error), extra=facts)
        gevent.sleep(pause_seconds)
        pause_seconds *= 3


def _resolve_or_correct(resolution: Resolution) -> int | None:
    charged_nanos = resolve(resolution)
    # Resolved before: by a sweeper, or by our own commit whose answer was lost (then there is nothing to correct).
    if charged_nanos is None and isinstance(_correct(resolution), Skipped):
        raise WaitTimedOut("what the sweeper charged cannot be corrected yet")
    return charged_nanos


def _report(resolution: Resolution, cost_nanos: int, charged_nanos: int) -> None:
    """Count, log and record what was charged."""
    if settings.SETTLEMENT_JOURNAL_MINUTES:
        journal.record(resolution)
    completion_id, model_id = resolution.completion.id, resolution.served_by.model_id
    metrics.count_completion(model_id, resolution.settlement)
    if cost_nanos > charged_nanos:
        metrics.operator_loss_nanos.inc(cost_nanos - charged_nanos)
    if resolution.settlement == Completion.Settlement.REPORTED and not resolution.completion.is_stream:
        return  # the log line of its request says the same
    logs.write(
        logger,
        logging.INFO,
        "settled %s: %s, %s nanodollars",
        (completion_id, resolution.settlement, charged_nanos),
        {"completion": completion_id, "model": model_id, "cost_nanos": charged_nanos},
    )
