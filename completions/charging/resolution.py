"""How a completion ends. The relay describes it, a batch applies it, the outbox stores it during an outage."""

from dataclasses import dataclass
from typing import Any

from billing.accounts import unpaid_work
from billing.ledger import holds, movements, writer
from billing.models import Account, Hold
from completions.charging import idempotency, stored_responses
from completions.charging.batch import AdmissionLost, Ending, LockedRows
from completions.charging.idempotency import IdempotencyKey
from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.stored_responses import ResponseRecord
from completions.models import Completion
from completions.pricing.usage import Usage
from keys.limits import limit_marks, rate_limits
from keys.limits.spending import SpendingChange

SWEPT = (Completion.Settlement.EXPIRED, Completion.Settlement.RECOVERED)  # by a sweeper, which does not know the usage
_STATES = {Completion.Settlement.RELEASED: Hold.State.RELEASED, Completion.Settlement.EXPIRED: Hold.State.EXPIRED}
_NO_USAGE = Usage(0, 0)


@dataclass(frozen=True, slots=True)
class ReplyRetention:
    """The end of a completion's idempotency key: with ``is_kept`` its reply is stored for retries, else it is deleted.

    ``sealed_reply`` is None for a reply that is not stored; a retry is told so. ``key`` is None when only the database knows
    it.
    """

    sealed_reply: str | None
    is_kept: bool
    key: IdempotencyKey | None = None


@dataclass(frozen=True, slots=True)
class Resolution(Ending):
    """How a completion ends: charged ``cost_nanos`` for its usage, or released or expired without either.

    ``reply_retention`` is None when the request had no idempotency key. ``unpaid_nanos`` is what providers may charge beside
    the cost. ``provider_nanos`` is the provider's price, None where no own key served.
    """

    completion: CompletionRecord
    served_by: ServedBy
    settlement: Completion.Settlement
    usage: Usage | None = None
    cost_nanos: int | None = None
    reply_retention: ReplyRetention | None = None
    unpaid_nanos: int = 0
    response: ResponseRecord | None = None
    provider_nanos: int | None = None

    @property
    def replied_id(self) -> str:
        """The completion id that is in the reply."""
        return self.completion.id

    def apply(self, rows: LockedRows) -> int | None:
        """Return the nanodollars charged; None when the hold was resolved before. Raises AdmissionLost when there is none."""
        completion, hold, writes = self.completion, rows.holds.get(self.completion.id), rows.writes
        if hold is None:
            raise AdmissionLost(f"the database knows no such completion; it was to cost {self.cost_nanos or 0} nanodollars")
        account, key = rows.accounts[completion.account_id], rows.keys[completion.key_id]
        state = _STATES.get(self.settlement, Hold.State.SETTLED)
        due_nanos = None if self.cost_nanos is None else completion.due_nanos(self.cost_nanos)
        if not holds.resolve(account, hold, state, cost_nanos=due_nanos):
            return None
        settled_nanos, spent = hold.settled_nanos or 0, self._spending_change(hold)
        tokens = self.usage.prompt_tokens + self.usage.completion_tokens if self.usage else 0
        rate_limits.correct_token_count(key, account, rows.now, tokens - completion.counted_tokens)
        if key.open_holds:  # None or 0: it was not read
            key.open_holds -= 1
        if window := rows.windows.get(key.id):
            spent_before_nanos = window.spent_nanos
            window.settle(spent)
            writes.key_marks_passed += limit_marks.find_passed(key, window, spent_before_nanos)
        writes.rate_limits_updated[key.id] = key
        unpaid_nanos = self.unpaid_nanos + max((due_nanos or 0) - settled_nanos, 0)
        if unpaid_work.count_settlement(account, settled_nanos, unpaid_nanos, rows.now):
            writes.unpaid_work_updated[account.id] = account
        self._add_writes(hold, spent, account, rows)
        return settled_nanos

    def _add_writes(self, hold: Hold, spent: SpendingChange, account: Account, rows: LockedRows) -> None:
        writes, usage, settled_nanos = rows.writes, self.usage, hold.settled_nanos or 0
        writes.holds_resolved.append(hold)
        writes.spending_settled.append(spent)
        if self.completion.run or self.completion.budgets:
            freed_nanos = spent.held_nanos + spent.provider_held_nanos
            counted_nanos = spent.spent_nanos + spent.provider_spent_nanos
            rows.count_on_budgets(self.completion, held_nanos=-freed_nanos, spent_nanos=counted_nanos)
        writes.completions_ended.append(self._outcome(settled_nanos, spent.provider_spent_nanos))
        if usage:
            entry = writer.debit_usage(
                account,
                cost_nanos=settled_nanos,
                reference=self.completion.id,
                model=self.served_by.model_id,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                settlement=self.settlement,
                spender=self.key_id,
                repeats=self.completion.repeats,
                charged_before_nanos=self.completion.charged_before_nanos,
                web_searches=usage.web_searches,
            )
            writes.entries_inserted.append(entry)
            if alert := movements.find_crossing(account, entry):
                writes.alerts_inserted.append(alert)
        if self.response and stored_responses.count_stored_bytes(account, self.response):
            expires_at = rows.now + stored_responses.retention()
            writes.responses_stored.append((self.replied_id, account.id, expires_at, self.response))
            if stored_responses.may_exceed(account):
                writes.responses_evicted.add(account.id)
        self._end_idempotency_key(account, rows)

    def _end_idempotency_key(self, account: Account, rows: LockedRows) -> None:
        """A retry gets the reply of a request that was answered. One that was not answered may run again.

        After the sweeper the key stays: it leads to what was charged, and the next run pays only the difference.
        """
        completion_id, writes = self.completion.id, rows.writes
        if self.usage and self.reply_retention and self.reply_retention.is_kept:
            sealed_reply = idempotency.count_stored_bytes(account, self.reply_retention.sealed_reply)
            writes.replies_stored.append((completion_id, sealed_reply))
            if excess_bytes := idempotency.excess_bytes(account):
                writes.replies_evicted[account.id] = excess_bytes
        elif self.settlement == Completion.Settlement.EXPIRED:
            writes.idempotency_keys_expired.append(completion_id)
        elif self._is_credited_to_the_next_run:
            return
        elif not self.usage or self.reply_retention:
            writes.idempotency_keys_deleted.append(completion_id)

    @property
    def _is_credited_to_the_next_run(self) -> bool:
        if self.settlement == Completion.Settlement.CORRECTED:
            return False
        return self.settlement == Completion.Settlement.RECOVERED or self.completion.repeats is not None

    def _spending_change(self, hold: Hold) -> SpendingChange:
        usage, counted_nanos, provider_held_nanos = self.usage or _NO_USAGE, 0, self.completion.provider_held_nanos
        if self.provider_nanos and self.served_by.counts_price:  # no more than was held, so that every limit is kept
            counted_nanos = min(self.provider_nanos, hold.amount_nanos + provider_held_nanos - (hold.settled_nanos or 0))
        return SpendingChange(
            self.key_id,
            self.completion.spending_day,
            hold.amount_nanos,
            spent_nanos=hold.settled_nanos or 0,
            completions=1 if self.usage else 0,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            provider_held_nanos=provider_held_nanos,
            provider_spent_nanos=counted_nanos,
        )

    def _outcome(self, settled_nanos: int, counted_nanos: int) -> tuple[Any, ...]:
        """Return the values that ``records.update_completions_statement`` writes."""
        usage = self.usage or _NO_USAGE
        return (
            *(self.completion.id, *self.served_by, self.settlement),
            *(usage.prompt_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.cache_write_1h_tokens),
            *(usage.completion_tokens, settled_nanos),
            *(usage.tier or None, usage.web_searches or None, usage.others or None),
            counted_nanos if self.provider_nanos and self.served_by.counts_price else self.provider_nanos,
        )
