"""Admits a request: the refusals for identity, limits and money in a fixed order, then the hold, in one short transaction.

``request.schema`` and ``catalog.eligibility`` come before: the shape of the request, the model, and what the model or its
providers cannot do. Clients may rely on the order here, which ``tests/test_error_table.py`` repeats:

1. the key is active and its account open            401 invalid_api_key
2. the key may use the model                         404 model_not_found
   a route promises what is demanded about data      404 data_demand_unmet
   (a stored Idempotency-Key                         the first reply; 400 or 409 where there is none to repeat)
3. requests per minute, tokens per minute,
   requests in flight, work left unpaid              429 rate_limit_exceeded
4. the deadline of the run                           402 budget_exceeded
5. the key's spending limit                          429 when only tied up, 402 insufficient_quota
6. the run's budget, monthly budgets that stop       likewise, 402 budget_exceeded
7. the account's funds                               like 5

A refusal writes nothing. An admission is committed before any provider is asked, and no database connection is held while a
provider replies. The commit does not wait for the disk: no money has moved yet, and a crash of the database ends the relay's
request, too.
"""

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import attrgetter

import msgspec
from django.conf import settings
from msgspec import structs

from billing import money
from billing.accounts import unpaid_work
from billing.ledger import holds
from billing.models import Account, Hold
from completions import estimates
from completions.catalog import data_demands, lookup
from completions.catalog.data_demands import Demand
from completions.charging import batch, idempotency, oldest_hold, own_keys
from completions.charging.batch import Admission, LockedRows
from completions.charging.idempotency import IdempotencyKey, Replay, StoredRequest
from completions.charging.records import CompletionRecord
from completions.charging.recovery import reserve
from completions.chat import ChatRequest, Offer
from gateway_project import errors, identifiers
from gateway_project.db import cell, pool
from gateway_project.monitoring.steps import step
from keys.authentication import INVALID_KEY_MESSAGE, Caller, read_key, require_active
from keys.budgets import runs
from keys.budgets.monthly import MonthState
from keys.budgets.runs import AskedRun, RunState
from keys.budgets.shared import SharedBudget
from keys.limits import rate_limits, reads, refusal_cache, requests_in_flight, spending
from keys.limits.refusal_cache import AdmissionDemand
from keys.limits.spending import SpendingWindow
from keys.models import ApiKey

_EXPIRY_MARGIN = timedelta(minutes=5)  # settling after the last deadline takes a moment; expiry must not race it
_UNASKED = Account(balance_nanos=money.NANOS_MAX)  # where limits and budgets are asked alone: the account pays only the charge


class AdmittedOffer(msgspec.Struct, frozen=True):
    """An offer that the hold pays for, and the tokens that it pays for each choice."""

    offer: Offer
    max_tokens: int


class Counted(msgspec.Struct, frozen=True):
    max_tokens: int  # of each choice
    nanos: int  # that limits and budgets hold, which count the provider's price too


class Admitted(msgspec.Struct, frozen=True):
    """A request that may run: its committed record and hold, and the offers that the hold pays for, the requested one first."""

    completion: CompletionRecord
    held_nanos: int
    request: ChatRequest
    admitted_offers: tuple[AdmittedOffer, ...]
    headers: dict[str, str]
    idempotency_key: IdempotencyKey | None = None
    run: RunState | None = None  # once it holds its money
    is_new_account: bool = False  # it has never paid
    keeps_responses: bool = False  # as its account says
    keeps_nothing: bool = False  # of prompt and reply, because zdr is demanded
    leaves_out_own_key: bool = False  # which does not meet what is demanded about data

    def charge_nanos(self, cost_nanos: int) -> int:
        """Return what settlement charges for a cost: what the runs before did not pay, and at most what is held."""
        return min(self.completion.due_nanos(cost_nanos), self.held_nanos)


@step("admission")
def admit(admission_request: "AdmissionRequest") -> Admitted | Replay:
    """Hold the money for a request, or raise the refusal. Return a Replay for a retry of a request that was answered."""
    caller = admission_request.caller
    if reserve.refusal:
        reserve.require()
    # The views have read what they need. From here to the end of the reply the request holds no connection of the pool.
    pool.release_connection()
    with refusal_cache.replay_or_record(caller.key_id, admission_request.demand()):
        try:
            outcome: Admitted | StoredRequest = batch.commit(admission_request)
        except errors.MoneyRefused as refusal:
            oldest_hold.tell(refusal, caller)
            raise
    if cell.added:
        caller.enter_cell()  # where its account is now
    if isinstance(outcome, Admitted):
        return outcome
    reads.replays.count(caller.key_id)
    return outcome.open()


def replay(model: str, caller: Caller, idempotency_key: IdempotencyKey) -> Replay | None:
    """Return the stored reply to a repetition that can no longer be read as a request. Refuses key and model like ``admit``."""
    offer = lookup.find_offer(model, caller=caller)
    key = read_key(caller)
    require_active(key, key.account, key.now, caller)
    require_allowed(key, offer)
    stored = idempotency.find_reply(caller.account_id, idempotency_key)
    pool.release_connection()
    if stored is None:
        return None
    reads.replays.count(caller.key_id)
    return stored.open()


def prepare(
    request: ChatRequest,
    offers: Sequence[Offer],
    caller: Caller,
    idempotency_key: IdempotencyKey | None = None,
    *,
    request_id: str | None = None,
    run: AskedRun | None = None,
) -> "AdmissionRequest":
    """Return what ``admit`` takes. The first offer is the requested one, the others are fallbacks.

    Of these, those that the key may use and the hold pays for are admitted.
    """
    completion_id, offer = f"chatcmpl-{identifiers.uuid7_hex()}", offers[0]
    # These count against tokens per minute, until settlement corrects the count to the real usage.
    completion_tokens = request.choices * (request.max_tokens_of(offer) or 0)
    countable_tokens = max(estimates.countable_prompt_tokens(request, offer) + completion_tokens, 1)
    found = (completion_id, request, tuple(offers), caller, idempotency_key, countable_tokens, request_id)
    return AdmissionRequest(*found, run=run, run_name=run.name if run else None)


class AdmissionRequest(msgspec.Struct, Admission, frozen=True):
    completion_id: str
    request: ChatRequest
    offers: tuple[Offer, ...]
    caller: Caller
    idempotency_key: IdempotencyKey | None
    countable_tokens: int
    request_id: str | None = None
    knows_own_keys: bool = False  # the offers are what the account's own keys serve, and what ours do
    run: AskedRun | None = None
    run_name: str | None = None
    leaves_out_own_key: bool = False  # which does not meet what is demanded about data
    _needs_nanos: dict[int, int] = {}  # worst cases of the first offer, by tokens: mostly one, which is asked for three times

    # Read a dozen times for each completion: so they are read in C.
    account_id = property(attrgetter("caller.account_id"))
    key_id = property(attrgetter("caller.key_id"))

    @property
    def limited_model_id(self) -> str | None:
        offer = self.offers[0]
        return offer.model_id if offer.requests_in_flight_max else None

    def apply(self, rows: LockedRows) -> Admitted | StoredRequest:
        """Admit the request, or raise the first refusal in the order of this module's list, by its numbers.

        Return the earlier run instead, if its reply is stored.
        """
        if rows.own_keys and self.account_id in rows.own_keys and not self.knows_own_keys:
            return self.with_own_keys(rows).apply(rows)
        account, key = rows.accounts.get(self.account_id), rows.keys.get(self.key_id)
        if account is None or key is None:  # they were deleted after the caller's identity was cached
            raise errors.InvalidApiKey(INVALID_KEY_MESSAGE)
        demands = data_demands.in_force(self.request.provider_preferences, key, account)
        if self.completion_id in rows.holds:
            return _read_admitted(self, rows, demands)
        now, window = rows.now, rows.windows[key.id]
        require_active(key, account, now, self.caller)  # 1
        require_allowed(key, self.offers[0])  # 2
        offers = [offer for offer in self.offers if _is_allowed(key, offer)]
        if demands and (narrowed := tuple(data_demands.narrow(self.request, offers, demands))) != self.offers:
            leaves_out = offers[0].own_key_fee is not None and narrowed[0].own_key_fee is None
            return structs.replace(self, offers=narrowed, leaves_out_own_key=leaves_out, _needs_nanos={}).apply(rows)
        earlier = None
        if self.idempotency_key:
            stored = rows.idempotency_keys.get((account.id, self.idempotency_key.value))
            earlier = idempotency.check(self.idempotency_key, stored, now)
            if earlier and earlier.has_reply:
                return earlier
        charged_before_nanos = earlier.charged_nanos if earlier else 0
        count = rate_limits.count_request(key, account, now, self.countable_tokens)  # 3
        in_flight = requests_in_flight.require_room(key, account)
        running = rows.running.get((key.id, offers[0].model_id), 0)
        requests_in_flight.require_room_for_model(offers[0].model_id, running, offers[0].requests_in_flight_max)
        unpaid_work.require_allowance(account, now)
        run, months = self._budgets(rows) if self.run or rows.months else (None, [])
        if run:
            run.require_time(now)  # 4
        shared = _stopping(run, months) if run or months else ()
        limit, counted = window, None
        if self.knows_own_keys and own_keys.count_price(offers):
            limit, shared, counted = None, (), self._count(offers, window, shared)  # 5 and 6
        min_tokens = self._require_money(account, limit, shared, charged_before_nanos)  # 5, 6 and 7

        payable_now_nanos = charged_before_nanos + _available_nanos(account, limit, shared)
        max_tokens = estimates.choose_max_tokens(self.request, offers[0], payable_now_nanos, min_tokens)
        if counted:
            max_tokens, payable_now_nanos = min(max_tokens, counted.max_tokens), min(payable_now_nanos, counted.nanos)
        payable_nanos = self._need_nanos(max_tokens)
        if len(offers) > 1:
            payable_nanos = _payable_nanos(self.request, offers[1:], max_tokens, payable_now_nanos, payable_nanos)
        admitted_offers = _admitted_offers(self.request, offers, payable_nanos, max_tokens, counted)
        record = self._record(now, window, earlier, demands, run, months)
        held_nanos = record.due_nanos(payable_nanos)
        if counted:
            record = structs.replace(record, provider_held_nanos=counted.nanos - held_nanos)
        if run:
            run.has_begun = True
            rows.runs[self.key_id, run.id] = run
        rows.begin(record, held_nanos, timedelta(seconds=settings.UPSTREAM_TOTAL_SECONDS) + _EXPIRY_MARGIN)
        count.apply(key)
        headers = count.headers() | in_flight.with_one_more().headers()
        rows.writes.rate_limits_updated[key.id] = key
        if self.idempotency_key:
            rows.store_idempotency_key(record, self.idempotency_key)
        return Admitted(
            record,
            held_nanos,
            self.request,
            admitted_offers,
            headers,
            self.idempotency_key,
            run and dataclasses.replace(run),
            is_new_account=not account.has_paid,
            keeps_responses=account.keeps_responses,
            keeps_nothing=data_demands.keeps_nothing(demands) if demands else False,
            leaves_out_own_key=self.leaves_out_own_key,
        )

    def with_own_keys(self, rows: LockedRows) -> "AdmissionRequest":
        """Return the request as the account's own keys serve it."""
        preferences, keys = self.request.provider_preferences, rows.own_keys.get(self.account_id, {})
        asks_one = bool(preferences and preferences.asks_one_provider)
        offers = own_keys.divided(self.offers, keys, asks_one_provider=asks_one)
        return structs.replace(self, offers=offers, knows_own_keys=True, _needs_nanos={})

    def _budgets(self, rows: LockedRows) -> tuple[RunState | None, list[MonthState]]:
        """Return the run, as asked if it is new, and the monthly budgets on which the request counts."""
        run = None
        if self.run:
            run = rows.runs.get((self.key_id, self.run.name)) or runs.begin(self.run, rows.now)
        return run, [each for each in rows.months.get(self.account_id, ()) if each.counts(rows.keys[self.key_id])]

    def available_nanos(self, rows: LockedRows) -> int:
        """Return what the account, the key's spending limit and the budgets leave for the request."""
        return _available_nanos(rows.accounts[self.account_id], rows.windows[self.key_id], _stopping(*self._budgets(rows)))

    def affordable_tokens(self, rows: LockedRows) -> int:
        """Return the tokens of each choice that the account pays for, and that limits and budgets do, as they count."""
        first, window = self.offers[0], rows.windows[self.key_id]
        limits_nanos = _available_nanos(_UNASKED, window, _stopping(*self._budgets(rows)))
        of_account = estimates.affordable_tokens(self.request, first, rows.accounts[self.account_id].available_nanos)
        return min(of_account, estimates.affordable_tokens(self.request, own_keys.counted(first), limits_nanos))

    def _count(self, offers: Sequence[Offer], window: SpendingWindow | None, shared: Sequence[SharedBudget]) -> "Counted":
        """Return the hold of limits and budgets, a repetition's in full, because the provider bills it again. Or refuse."""
        first, *fallbacks = map(own_keys.counted, offers)
        counted = structs.replace(self, offers=(first,), _needs_nanos={})
        min_tokens = counted._require_money(_UNASKED, window, shared, 0)
        available_nanos = _available_nanos(_UNASKED, window, shared)
        max_tokens = estimates.choose_max_tokens(self.request, first, available_nanos, min_tokens)
        need_nanos = counted._need_nanos(max_tokens)
        return Counted(max_tokens, _payable_nanos(self.request, fallbacks, max_tokens, available_nanos, need_nanos))

    def _require_money(
        self, account: Account, window: SpendingWindow | None, shared: Sequence[SharedBudget], charged_before_nanos: int
    ) -> int:
        """Return the tokens of each choice that must be payable. Raises the refusal when there is no money for them."""
        request, offer = self.request, self.offers[0]
        budget_nanos = _min_nanos(account.balance_nanos, window.unspent_nanos if window else None)
        if shared:
            budget_nanos = min([budget_nanos, *(each.unspent_nanos for each in shared)])
        budget_nanos += charged_before_nanos
        min_tokens = estimates.min_payable_tokens(request, offer, budget_nanos)
        need_nanos = max(self._need_nanos(min_tokens) - charged_before_nanos, 0)
        try:
            spending.require_available(window, need_nanos)
            for each in shared:
                each.require_available(need_nanos)
            holds.require_available(account, need_nanos)
        except errors.ApiError as refusal:
            affordable_nanos = charged_before_nanos + _available_nanos(account, window, shared)
            affordable_tokens = estimates.affordable_tokens(request, offer, affordable_nanos)
            if affordable_tokens > 0 and request.max_tokens_name:
                refusal.message += f" It affords {request.max_tokens_name} up to {affordable_tokens}."
            raise
        return min_tokens

    def _need_nanos(self, max_tokens: int) -> int:
        nanos = self._needs_nanos.get(max_tokens)
        if nanos is None:
            nanos = self._needs_nanos[max_tokens] = estimates.worst_case_nanos(self.request, self.offers[0], max_tokens)
        return nanos

    def _record(
        self,
        now: datetime,
        window: SpendingWindow | None,
        earlier: StoredRequest | None,
        demands: Sequence[Demand],
        run: RunState | None,
        months: Sequence[MonthState],
    ) -> CompletionRecord:
        """Return the record as the completion begins. In the end another offer or route may have served it."""
        offer = self.offers[0]
        return CompletionRecord(
            id=self.completion_id,
            account_id=self.account_id,
            key_id=self.key_id,
            model_id=offer.model_id,
            price_id=offer.price_id,
            provider_id=offer.routes[0].provider_slug,
            is_stream=self.request.stream,
            spending_day=now.date(),
            counted_tokens=self.countable_tokens,
            prompt_estimate=estimates.estimate_prompt_tokens(self.request, offer),
            images=self.request.contents.images,
            limit_nanos=window.limit_nanos if window else None,
            limit_since=window.first_day if window and window.resets_at else None,
            created_at=now,
            repeats=earlier.completion_id if earlier else None,
            charged_before_nanos=earlier.charged_nanos if earlier else 0,
            request_id=self.request_id,
            service_tier=self.request.tier or None,
            end_user=self.request.labels.end_user,
            tags=self.request.labels.tags,
            data_demanded={demand.source: demand.fields for demand in demands} if demands else None,
            own_key_fee=offer.own_key_fee,
            counts_price=offer.routes[0].counts_price,
            run=self.run_name,
            run_budget_nanos=run.limit_nanos if run else None,
            run_deadline=run.deadline if run else None,
            budgets={each.id: each.limit_nanos if each.stops else None for each in months} if months else None,
        )

    def demand(self) -> AdmissionDemand:
        """Return what refusals depend on, for the refusal cache."""
        request, model_ids = self.request, tuple([offer.model_id for offer in self.offers])
        first_tokens = request.max_tokens_of(self.offers[0])
        need_nanos = self._need_nanos(1 if first_tokens is None else first_tokens)
        return AdmissionDemand(
            *(model_ids, self.countable_tokens, need_nanos, request.max_tokens is not None, self.idempotency_key),
            *(request.provider_preferences, self.run_name),
        )


def _available_nanos(account: Account, window: SpendingWindow | None, shared: Sequence[SharedBudget]) -> int:
    nanos = _min_nanos(account.available_nanos, window.available_nanos if window else None)
    return min([nanos, *(each.available_nanos for each in shared)]) if shared else nanos


def _stopping(run: RunState | None, months: Sequence[MonthState]) -> list[SharedBudget]:
    return [each for each in (run, *months) if each and each.stops]


def require_allowed(key: ApiKey, offer: Offer) -> None:
    if not _is_allowed(key, offer):
        raise lookup.model_not_found(offer.alias or offer.model_id, errors.ModelNotAllowed)


def _is_allowed(key: ApiKey, offer: Offer) -> bool:
    """A key that may use an alias may use it as of any day."""
    if not key.allowed_models:
        return True
    return any(name in key.allowed_models for name in (offer.model_id, offer.alias, offer.alias.partition("@")[0]))


def _payable_nanos(
    request: ChatRequest, fallbacks: Sequence[Offer], max_tokens: int, available_nanos: int, payable_nanos: int
) -> int:
    for offer in fallbacks:
        need_nanos = estimates.worst_case_nanos(request, offer, min(max_tokens, offer.max_output_tokens))
        if payable_nanos < need_nanos <= available_nanos:
            payable_nanos = need_nanos
    return payable_nanos


def _admitted_offers(
    request: ChatRequest, offers: Sequence[Offer], payable_nanos: int, max_tokens: int, counted: "Counted | None" = None
) -> tuple[AdmittedOffer, ...]:
    """Return the first offer and those fallbacks that can be paid: by the hold, and by what was charged before."""
    fallbacks = [
        AdmittedOffer(offer, min(estimates.max_tokens_within_hold(request, offer, payable_nanos), max_tokens))
        for offer in offers[1:]
    ]
    if counted:
        paid = (estimates.max_tokens_within_hold(request, own_keys.counted(offer), counted.nanos) for offer in offers[1:])
        fallbacks = [AdmittedOffer(each.offer, min(each.max_tokens, most)) for each, most in zip(fallbacks, paid, strict=True)]
    return (AdmittedOffer(offers[0], max_tokens), *[fallback for fallback in fallbacks if fallback.max_tokens > 0])


def _min_nanos(nanos: int, limit_nanos: int | None) -> int:
    return nanos if limit_nanos is None else min(nanos, limit_nanos)


def _read_admitted(admission_request: AdmissionRequest, rows: LockedRows, demands: Sequence[Demand]) -> Admitted:
    """Return what was admitted by a commit whose answer was lost, rebuilt from its rows."""
    hold: Hold = rows.holds[admission_request.completion_id]
    completion = CompletionRecord.from_row(rows.completions[admission_request.completion_id])
    request, key = admission_request.request, rows.keys[admission_request.key_id]
    offers = [offer for offer in admission_request.offers if _is_allowed(key, offer)] or list(admission_request.offers[:1])
    offers = data_demands.narrow(request, offers, demands) if demands else offers
    if offers[0].own_key_fee != completion.own_key_fee:
        raise errors.ServiceUnavailable("An own key was changed at the same time. Try again.")
    payable_nanos = hold.amount_nanos + completion.charged_before_nanos
    affordable_tokens = estimates.affordable_tokens(request, offers[0], payable_nanos)
    ceiling_tokens = request.max_tokens_of(offers[0])  # 0 for embeddings
    max_tokens = min(affordable_tokens, offers[0].max_output_tokens if ceiling_tokens is None else ceiling_tokens)
    counted = None
    if completion.provider_held_nanos and own_keys.count_price(offers):
        counted = Counted(max_tokens, hold.amount_nanos + completion.provider_held_nanos)
        max_tokens = min(max_tokens, estimates.affordable_tokens(request, own_keys.counted(offers[0]), counted.nanos))
    admitted_offers = _admitted_offers(request, offers, payable_nanos, max_tokens, counted)
    nothing = data_demands.keeps_nothing(demands)
    key_value, run = admission_request.idempotency_key, rows.run_of(completion)
    return Admitted(completion, hold.amount_nanos, request, admitted_offers, {}, key_value, run, keeps_nothing=nothing)
