"""Decides what becomes of a completion whose end the database may not know, and counts every charge.

    its hold is open                                 it is settled
    the sweeper resolved its hold                    the sweeper's charge is corrected
    its hold was resolved otherwise                  nothing: it was settled before
    the database does not know it                    it is admitted again, and settled
    its account is locked, or cannot pay yet         it waits
    it was repeated, or the database refuses it      it is a dead letter

Each function may be called again, and by two callers at once: the second finds the hold resolved, and changes nothing.

An admission does not wait for the disk, and a standby may lack the last commits of the primary that it replaces. So a crash or
a failover can forget a completion whose caller has its reply. When it is admitted again, its key's limits are not asked again,
but its cost counts in them. If its caller has sent the request again under its Idempotency-Key, and paid for that, it is not
admitted. Else its key is stored again, so that a later repetition gets the reply.
"""

import logging
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from django.conf import settings
from django.db import DataError, IntegrityError
from msgspec import structs

from billing.models import Account
from completions.charging import batch, idempotency
from completions.charging.batch import Admission, AdmissionLost, LockedRows
from completions.charging.idempotency import IdempotencyKey
from completions.charging.records import CompletionRecord
from completions.charging.recovery import corrections, journal, outbox
from completions.charging.resolution import Resolution
from completions.models import Completion
from gateway_project import errors, logs, metrics
from gateway_project.db import pool
from gateway_project.db.group_commit import Skipped, WaitTimedOut
from keys.models import ApiKey

logger = logging.getLogger("gateway.settlement")

REPEATABLE = "the database forgot its admission, and its caller may have repeated it under its Idempotency-Key"
# The key of a repetition is in the database for longer than this after the first run, however two servers' clocks differ.
_REPETITION_IS_KNOWN_FOR = idempotency.RETENTION - timedelta(hours=1)
_HOLD_LIFETIME = timedelta(minutes=5)  # it is settled at once; if that fails, the sweeper releases it, and that is corrected


def find_rows(completion_ids: Sequence[str]) -> dict[str, Completion]:
    with pool.time_limit():
        return Completion.objects.in_bulk(completion_ids)


def settle_all(resolutions: Sequence[Resolution], *, known_ids: Container[str]) -> list[int | Exception | None]:
    """Settle what the database knows; admit again and settle the others. Return results like ``resolve_all``, or TiedUp."""
    results: dict[str, int | Exception | None] = {}
    ready = [each for each in resolutions if each.completion.id in known_ids]
    forgotten = [each for each in resolutions if each.completion.id not in known_ids]
    for each, admitted in zip(forgotten, _readmit_all(forgotten), strict=True):
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


def _is_its_own(error: Exception) -> bool:
    """Return whether the error is that of one resolution: a value that the database refuses, or a bug of the gateway."""
    return isinstance(error, (DataError, IntegrityError)) or not isinstance(error, (*pool.DATABASE_ERRORS, *outbox.UNAVAILABLE))


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
    said = completion_id, resolution.settlement, charged_nanos
    facts = {"completion": completion_id, "model": model_id, "cost_nanos": charged_nanos}
    logs.write(logger, logging.INFO, "settled %s: %s, %s nanodollars", said, facts)


def _readmit_all(forgotten: Sequence[Resolution]) -> list[CompletionRecord | Exception]:
    """Admit the completions of these resolutions again, as of now, in one transaction, each with a hold of what it costs.

    Return for each the completion as it is admitted now, Skipped when its account is locked, TiedUp when running requests hold
    the money, or the error that rules it out. Raises the database's errors: a standby may come to know what it does not know
    now.
    """
    if not forgotten:
        return []
    operations = [Readmission(each.completion, each.cost_nanos or 0, each) for each in forgotten]
    try:
        outcomes: list[CompletionRecord | Exception] = batch.commit_together(operations)
    except (DataError, IntegrityError) as error:  # a value that the database refuses, such as a price that it does not know
        return [error] if len(forgotten) == 1 else [outcome for each in forgotten for outcome in _readmit_all([each])]
    return [
        _wait(operation) if isinstance(outcome, Skipped) else outcome
        for operation, outcome in zip(operations, outcomes, strict=True)
    ]


def _wait(operation: "Readmission") -> CompletionRecord | Exception:
    """Decide about a completion of which a row is locked, or unknown. Return Skipped when it stays locked."""
    with pool.time_limit():
        is_locked = (
            Account.objects.filter(pk=operation.account_id).exists() and ApiKey.objects.filter(pk=operation.key_id).exists()
        )
    if is_locked:
        return Skipped()
    try:
        # In another cell the completion may be known. This waits for locks, and so finds out what there is.
        readmitted: CompletionRecord = batch.commit_here(operation)
    except (errors.ApiError, AdmissionLost) as refusal:
        return Skipped() if operation.has_moved() else refusal
    except WaitTimedOut:
        return Skipped()
    return readmitted


@dataclass(frozen=True, slots=True)
class Readmission(Admission):
    """Admits a forgotten completion again, as of now, with a hold of what it costs. ``ended`` is how it ended."""

    completion: CompletionRecord
    amount_nanos: int
    ended: Resolution

    @property
    def idempotency_key(self) -> IdempotencyKey | None:
        return self.ended.reply_retention.key if self.ended.reply_retention else None

    def apply(self, rows: LockedRows) -> CompletionRecord:
        if self.completion_id in rows.holds:  # in a rerun
            return CompletionRecord.from_row(rows.completions[self.completion_id])
        if self.account_id not in rows.accounts or self.key_id not in rows.keys:
            raise AdmissionLost(
                f"the database knows no such completion, account or key; it was to cost {self.amount_nanos} nanodollars"
            )
        if self.ended.reply_retention:
            self._require_unrepeated(rows)
        ended, usage = self.ended, self.ended.usage
        run = rows.run_of(self.completion)  # if it was forgotten, too, another request may have begun it since
        # No limit, because none was asked; and the tokens that it used, so that its settlement corrects nothing.
        completion = structs.replace(
            self.completion,
            spending_day=rows.now.date(),
            counted_tokens=usage.prompt_tokens + usage.completion_tokens if usage else 0,
            limit_nanos=None,
            limit_since=None,
            run_budget_nanos=run.limit_nanos if run else self.completion.run_budget_nanos,
            budgets=self.completion.budgets and dict.fromkeys(self.completion.budgets),
            created_at=rows.now,
            provider_held_nanos=(ended.provider_nanos or 0) if ended.served_by.counts_price else 0,
        )
        completion, amount_nanos = rows.within_run(completion, self.amount_nanos)
        rows.begin(completion, amount_nanos, _HOLD_LIFETIME)
        if self.idempotency_key:
            rows.store_idempotency_key(completion, self.idempotency_key)
        return completion

    def _require_unrepeated(self, rows: LockedRows) -> None:
        """Raises AdmissionLost if the request was sent again under its Idempotency-Key, or if that is unknown."""
        key = self.idempotency_key
        if key is None or rows.now > self.completion.created_at + _REPETITION_IS_KNOWN_FOR:
            raise AdmissionLost(f"{REPEATABLE}; it was to cost {self.amount_nanos} nanodollars")
        stored = rows.idempotency_keys.get((self.account_id, key.value))
        # The key leads again to the completion that this one repeats: the database forgot that it led to the completion.
        if stored and stored.expires_at > rows.now and stored.completion_id != self.completion.repeats:
            raise AdmissionLost(f"its caller has repeated it as {stored.completion_id}; it was to cost {self.amount_nanos}")
