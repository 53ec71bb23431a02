"""Corrects what the sweeper charged, when the settlement comes in the end.

A process that is frozen, or cannot reach the database for a minute, looks dead: the sweeper of another host releases its hold,
or charges by its checkpoint. The late settlement knows the real cost. Entries, holds and completions never change, so a
correction is a completion of its own, which repeats the corrected one. It is charged what is missing of the dearest run under
the Idempotency-Key; an overcharge is credited in the same transaction.

A correction counts on the day of its request, and asks for no limits: the request was admitted within them. It takes no more
than the balance and the budget of its ``x-gateway-run`` have; the rest is the operator's loss. Of the provider's price it
counts what is missing, within that budget and what was held, and takes nothing back of an estimate that was too high.
"""

import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.db import IntegrityError
from msgspec import structs

from billing.ledger import writer
from billing.models import Account, Hold, LedgerEntry
from completions.charging import batch
from completions.charging.batch import Admission, AdmissionLost, LockedRows
from completions.charging.records import CompletionRecord
from completions.charging.resolution import SWEPT, Resolution
from completions.models import Completion
from completions.pricing.usage import Usage
from gateway_project import identifiers, metrics
from gateway_project.db import pool
from gateway_project.db.group_commit import Skipped
from keys.limits.spending import SpendingChange

logger = logging.getLogger("gateway.settlement")

_FOLLOWED_ONCE = "a_run_is_repeated_once"  # the constraint
_HOLD_LIFETIME = timedelta(minutes=5)  # it is settled at once, or by the next try, or by one after the sweeper released it


def correct(late: Resolution) -> int | Skipped | None:
    """Book the difference between a late settlement and what the sweeper charged. Return the nanodollars charged.

    Return None when there is nothing to correct, or no longer; Skipped when the account is locked, or the request runs again.
    """
    if late.settlement in SWEPT:  # an estimate corrects nothing
        return None
    runs = _runs(late.completion.id)
    [swept] = [run for run in runs if run.pk == late.completion.id]
    begun, last = None, runs[-1]
    if last.pk != swept.pk and last.settlement is None and last.request_id == swept.request_id:
        begun = runs.pop()  # its hold was placed by a try that a lock or its process's death ended
    if swept.settlement not in SWEPT or _find_correction(swept, runs):
        return None
    if late.usage is None and not swept.cost_nanos:
        return None
    if runs[-1].settlement is None:
        return Skipped()
    correction = _correction(late, swept, runs)
    if begun is None:
        charged_nanos = _begin_and_commit(correction)
    else:
        charged_nanos = _commit(replace(correction, completion=CompletionRecord.from_row(begun)))
    if charged_nanos is None:
        return Skipped()
    _report(swept, correction, charged_nanos)
    return charged_nanos


def _begin_and_commit(correction: "Correction") -> int | None:
    """Commit the correction. Return the nanodollars charged; None when another session locks the account, or was first."""
    try:
        [begun] = batch.commit_together([_Beginning(correction.completion, correction.payable_nanos)])
    except IntegrityError as error:
        if _FOLLOWED_ONCE not in str(error):
            raise
        return None  # it was repeated or corrected meanwhile: the next try finds that
    return _commit(replace(correction, completion=begun)) if isinstance(begun, CompletionRecord) else None


def _commit(correction: "Correction") -> int | None:
    [outcome] = batch.commit_together([correction])
    return outcome if isinstance(outcome, int) else None


def _runs(completion_id: str) -> list[Completion]:
    """Return all runs of the request under its Idempotency-Key, corrections too, in order. Raises AdmissionLost."""
    with pool.time_limit():
        rows = Completion.objects.select_related("price")
        runs = list(rows.filter(pk=completion_id))
        if not runs:
            raise AdmissionLost("the database knows no such completion any more")
        while runs[0].repeats and (earlier := rows.filter(pk=runs[0].repeats).first()):
            runs.insert(0, earlier)
        while following := rows.filter(repeats=runs[-1].pk).first():
            runs.append(following)
    return runs


def _find_correction(run: Completion, runs: list[Completion]) -> Completion | None:
    """Return the correction of a run. It has the id of the run's HTTP request, but repeats the last run before it."""
    corrections = [each for each in runs if each.settlement == Completion.Settlement.CORRECTED]
    return next((each for each in corrections if each.request_id == run.request_id), None)


def _correction(late: Resolution, swept: Completion, runs: list[Completion]) -> "Correction":
    charged_nanos = runs[0].charged_before_nanos + sum(run.cost_nanos or 0 for run in runs)
    references = {f"{writer.OVERCHARGE}{run.pk}": run.pk for run in runs}  # of what corrections gave back
    entries = LedgerEntry.objects.filter(account=runs[0].account_id, reference__in=references)
    returned = {references[reference]: nanos for reference, nanos in entries.values_list("reference", "amount_nanos")}
    held_nanos = Hold.objects.values_list("amount_nanos", flat=True).get(pk=swept.pk)  # it could be charged no more
    cost_nanos = min(late.cost_nanos or 0, swept.charged_before_nanos + held_nanos)
    others = [_find_correction(run, runs) or run for run in runs if run.pk != swept.pk]
    dearest_nanos = max(cost_nanos, *map(_cost_nanos, others), 0)
    overcharged_nanos = charged_nanos - sum(returned.values()) - dearest_nanos
    provider_nanos = None if late.provider_nanos is None else max(late.provider_nanos - (swept.provider_nanos or 0), 0)
    counted_nanos = cost_nanos - swept.charged_before_nanos + (swept.provider_nanos or 0)
    left_nanos = max(held_nanos + swept.provider_held_nanos - counted_nanos, 0)  # of what limits held for it
    usage = late.usage or Usage(0, 0)
    record = structs.replace(
        CompletionRecord.from_row(swept),
        id=f"chatcmpl-{identifiers.uuid7_hex()}",
        repeats=runs[-1].pk,
        charged_before_nanos=charged_nanos,
        counted_tokens=usage.prompt_tokens + usage.completion_tokens,  # so that its settlement corrects no rate limit
        images=swept.images if late.usage else 0,
        limit_nanos=None,
        limit_since=None,
        provider_held_nanos=min(provider_nanos or 0, left_nanos) if late.served_by.counts_price else 0,
        budgets=swept.budgets and dict.fromkeys(swept.budgets),  # it is not asked whether they suffice
    )
    return Correction(
        completion=record,
        served_by=late.served_by,
        settlement=Completion.Settlement.CORRECTED,
        usage=usage,
        cost_nanos=late.cost_nanos or 0,
        reply_retention=late.reply_retention,
        unpaid_nanos=late.unpaid_nanos,
        response=late.response,
        provider_nanos=provider_nanos,
        corrected_id=swept.pk,
        payable_nanos=max(cost_nanos - charged_nanos, 0),
        overcharges=_divided(overcharged_nanos, swept, [run for run in runs if run.pk not in returned]),
    )


def _divided(overcharged_nanos: int, swept: Completion, runs: list[Completion]) -> tuple[tuple[str, int], ...]:
    """Divide the overcharge among the runs, the corrected one first. Return ids, and the nanodollars that each gives back.

    None gives back more than it was charged. Only runs that the sweeper charged count, and only on the key, day and budgets of
    the corrected run, because a correction changes the spending of one key on one day.
    """
    divided, place = [], _place(swept)
    for run in sorted(runs, key=lambda run: run.pk != swept.pk):
        nanos = min(overcharged_nanos, run.cost_nanos or 0)
        if nanos > 0 and run.settlement in SWEPT and _place(run) == place:
            divided.append((run.pk, nanos))
            overcharged_nanos -= nanos
    return tuple(divided)


def _place(run: Completion) -> tuple[Any, ...]:
    return run.key_id, run.spending_day, run.run, (run.budgets or {}).keys()


def _cost_nanos(run: Completion) -> int:
    if run.completion_tokens is None or run.settlement in (Completion.Settlement.RELEASED, Completion.Settlement.EXPIRED):
        return 0
    return run.sheet.cost_nanos(run.usage, run.images)


def _report(first: Completion, correction: "Correction", charged_nanos: int) -> None:
    metrics.count_completion(correction.served_by.model_id, correction.settlement)
    lost_nanos = correction.completion.due_nanos(correction.cost_nanos or 0) - charged_nanos
    metrics.operator_loss_nanos.inc(lost_nanos)
    message = "%s was %s, %s nanodollars, and is corrected by %s: %s nanodollars charged, %s given back, %s lost"
    before, by = (first.pk, first.settlement, first.cost_nanos), correction.completion.id
    facts = {"completion": first.pk, "model": correction.served_by.model_id, "cost_nanos": charged_nanos}
    logger.warning(message, *before, by, charged_nanos, correction.overcharged_nanos, lost_nanos, extra=facts)


@dataclass(frozen=True, slots=True)
class _Beginning(Admission):
    """Admits a correction, with a hold of what is payable, or of what the balance has. A retry of the request waits for it."""

    completion: CompletionRecord
    payable_nanos: int

    def apply(self, rows: LockedRows) -> CompletionRecord:
        amount_nanos = min(self.payable_nanos, max(rows.accounts[self.account_id].available_nanos, 0))
        completion, amount_nanos = rows.within_run(structs.replace(self.completion, created_at=rows.now), amount_nanos)
        rows.begin(completion, amount_nanos, _HOLD_LIFETIME, is_bounded=True)
        rows.writes.runs_followed.append((completion.repeats or "", completion.id))
        return completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction(Resolution):
    """Ends the completion that corrects another, and gives back what was charged too much.

    ``payable_nanos`` is what it may be charged; ``overcharges`` are the ids of completions, and what is given back of each.
    """

    corrected_id: str
    payable_nanos: int
    overcharges: tuple[tuple[str, int], ...]

    @property
    def overcharged_nanos(self) -> int:
        return sum(nanos for _, nanos in self.overcharges)

    @property
    def replied_id(self) -> str:
        return self.corrected_id

    def _add_writes(self, hold: Hold, spent: SpendingChange, account: Account, rows: LockedRows) -> None:
        Resolution._add_writes(self, hold, spent, account, rows)
        if self.usage:
            rows.writes.entries_inserted[-1].metadata["corrects"] = self.corrected_id  # ``repeats`` may be a later run
        for completion_id, nanos in self.overcharges:
            model = self.served_by.model_id
            entry = writer.return_overcharge(account, amount_nanos=nanos, reference=completion_id, model=model)
            rows.writes.entries_inserted.append(entry)
            rows.writes.manual_entries_inserted.append(entry)

    def _spending_change(self, hold: Hold) -> SpendingChange:
        change = Resolution._spending_change(self, hold)
        return structs.replace(change, spent_nanos=change.spent_nanos - self.overcharged_nanos)
