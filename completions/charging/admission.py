"""The one door in. Every refusal that money and keys may give, in a fixed order, then the hold, in one short transaction.

What comes before is in ``schema`` and ``matching``: the shape of the request, the model, what it or its providers cannot do.
The order here, which callers may rely on and ``tests/test_error_table.py`` recites:

1. the key is active and its account open            401 invalid_api_key
2. the key may use the model                         404 model_not_found
   (an Idempotency-Key: the same again               the first reply; 400 or 409 where it cannot be)
3. requests per minute, tokens per minute            429 rate_limit_exceeded
4. the key's spending limit                          429 rate_limit_exceeded
5. the account's funds                               429 when only tied up, 402 insufficient_quota

A refusal writes nothing. What is admitted is committed before anything is asked of an upstream, and no connection is held
while one talks. The commit does not wait for the disk: no money has moved, and a crash of the database ends us both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from billing import holds
from billing.holds import NewHold
from billing.models import Account, Hold
from completions.catalog import lookup
from completions.charging import batch, idempotency
from completions.charging.batch import LockedRows
from completions.charging.idempotency import IdempotencyKey, Replay
from completions.charging.records import CompletionRecord
from completions.chat import ChatRequest, Offer
from completions.models import IdempotentRequest
from completions.pricing import cost, token_budget
from gateway_project import errors, identifiers
from gateway_project.db import pool
from keys import rate_limits, refusal_cache, spending
from keys.authentication import INVALID_KEY_MESSAGE, Caller, require_active
from keys.models import ApiKey
from keys.refusal_cache import AdmissionDemand
from keys.spending import SpendingChange, SpendingWindow

_EXPIRY_MARGIN = timedelta(minutes=5)  # settling after the last deadline takes a moment; expiry must not race it


@dataclass(frozen=True, slots=True)
class AdmittedOffer:
    """An offer that the hold pays for, with so many tokens."""

    offer: Offer
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may run: its committed record and hold, and on which terms; the first was asked for."""

    completion: CompletionRecord
    held_nanos: int
    request: ChatRequest
    admitted_offers: tuple[AdmittedOffer, ...]
    headers: dict[str, str]
    idempotency_key: IdempotencyKey | None = None


def admit(
    request: ChatRequest, offers: Sequence[Offer], caller: Caller, idempotency_key: IdempotencyKey | None = None
) -> Admitted | Replay:
    """Hold the money for ``request``, or raise the refusal. Shares its transaction with whoever is at the door too.

    The first offer is what is asked for; the others may answer instead, as far as the key may use them and the money pays
    for them. A retry of what was answered before is not admitted again: it gets the Replay.
    """
    # What the views asked for is answered. From here to the end of the reply no connection of the pool is held.
    pool.release_connection()
    completion_id = f"chatcmpl-{identifiers.uuid7().hex}"
    prompt_estimate = min(cost.estimate_prompt_tokens(request), cost.max_prompt_tokens(request, offers[0]))
    admission_request = AdmissionRequest(completion_id, request, tuple(offers), caller, idempotency_key, prompt_estimate)
    with refusal_cache.replay_or_record(caller.key_id, admission_request.demand()):
        outcome: Admitted | Replay = batch.commit(admission_request)
    return outcome


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A request at the door, with the id that it will have if it is let in."""

    completion_id: str
    request: ChatRequest
    offers: tuple[Offer, ...]
    caller: Caller
    idempotency_key: IdempotencyKey | None
    prompt_estimate: int  # it takes a walk through the whole prompt, which is not for the time that rows are locked
    is_settlement = False

    @property
    def account_id(self) -> UUID:
        return self.caller.account_id

    @property
    def key_id(self) -> str:
        return self.caller.key_id

    def decide(self, rows: LockedRows) -> Admitted | Replay:
        """Let in, or refused: a column of refusals, in the order above."""
        if self.completion_id in rows.holds:
            return _admitted_before(self, rows)
        account, key = _account_and_key(self.caller, rows)
        request, offer, now, window = self.request, self.offers[0], rows.now, rows.windows[key.pk]
        require_active(key, account, now)
        offers = [offered for offered in self.offers if _is_allowed(key, offered)]
        if offer not in offers:
            raise lookup.model_not_found(offer.alias or offer.model_id)
        if self.idempotency_key:
            known = rows.idempotency_keys.get((account.pk, self.idempotency_key.value))
            if replay := idempotency.check(self.idempotency_key, known, now):
                return replay
        count = rate_limits.count_request(key, account, now, self.countable_tokens())
        budget_nanos = _min_nanos(account.balance_nanos, window.unspent_nanos if window else None)
        least_tokens = token_budget.min_payable_tokens(request, offer, budget_nanos)
        least_nanos = cost.worst_case_nanos(request, offer, least_tokens)
        spending.require_available(window, least_nanos, now)
        _require_funds(request, offer, account, least_nanos)

        available_nanos = _min_nanos(account.available_nanos, window.available_nanos if window else None)
        max_tokens = token_budget.choose_max_tokens(request, offer, available_nanos, least_tokens)
        admitted_offers, held_nanos = _admitted_offers(request, offers, max_tokens, available_nanos)
        admitted = Admitted(
            self._record(now, window), held_nanos, request, admitted_offers, count.headers(), self.idempotency_key
        )
        holds.place(account, held_nanos)
        if window:
            window.held_nanos += held_nanos
        count.apply(key)
        _add_writes(admitted, key, rows)
        return admitted

    def _record(self, now: datetime, window: SpendingWindow | None) -> CompletionRecord:
        """Its record as it begins. Who answers may be another one in the end."""
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
            counted_tokens=self.countable_tokens(),
            prompt_estimate=self.prompt_estimate,
            images=self.request.contents.images,
            limit_nanos=window.limit_nanos if window else None,
            limit_since=window.first_day if window and window.resets_at else None,
            created_at=now,
        )

    def demand(self) -> AdmissionDemand:
        """What it asks for, as far as refusals depend on it."""
        request, model_ids = self.request, tuple(offer.model_id for offer in self.offers)
        least_nanos = cost.worst_case_nanos(request, self.offers[0], request.max_tokens or 1)
        return AdmissionDemand(
            model_ids, self.countable_tokens(), least_nanos, request.max_tokens is not None, self.idempotency_key
        )

    def countable_tokens(self) -> int:
        """What counts against tokens per minute before the truth is known: the prompt, estimated, and what the caller allows.

        Settlement corrects it by the difference.
        """
        return max(self.prompt_estimate + self.request.choices * (self.request.max_tokens or 0), 1)


def _is_allowed(key: ApiKey, offer: Offer) -> bool:
    return not key.allowed_models or offer.model_id in key.allowed_models or offer.alias in key.allowed_models


def _account_and_key(caller: Caller, rows: LockedRows) -> tuple[Account, ApiKey]:
    """The caller's rows. Raises InvalidApiKey when they were deleted since its identity was cached."""
    account, key = rows.accounts.get(caller.account_id), rows.keys.get(caller.key_id)
    if account is None or key is None:
        raise errors.InvalidApiKey(INVALID_KEY_MESSAGE)
    return account, key


def _admitted_offers(
    request: ChatRequest, offers: Sequence[Offer], max_tokens: int, available_nanos: int
) -> tuple[tuple[AdmittedOffer, ...], int]:
    """What the first offer needs to be held, or more where there is the money for a dearer one that may answer instead."""
    held_nanos = cost.worst_case_nanos(request, offers[0], max_tokens)
    for offer in offers[1:]:
        need_nanos = cost.worst_case_nanos(request, offer, min(max_tokens, offer.max_output_tokens))
        if held_nanos < need_nanos <= available_nanos:
            held_nanos = need_nanos
    return _payable(request, offers, held_nanos, max_tokens), held_nanos


def _payable(request: ChatRequest, offers: Sequence[Offer], held_nanos: int, max_tokens: int) -> tuple[AdmittedOffer, ...]:
    others = [
        AdmittedOffer(offer, min(token_budget.max_tokens_within_hold(request, offer, held_nanos), max_tokens))
        for offer in offers[1:]
    ]
    return (AdmittedOffer(offers[0], max_tokens), *(other for other in others if other.max_tokens > 0))


def _min_nanos(nanos: int, limit_nanos: int | None) -> int:
    return nanos if limit_nanos is None else min(nanos, limit_nanos)


def _require_funds(request: ChatRequest, offer: Offer, account: Account, need_nanos: int) -> None:
    try:
        holds.require_available(account, need_nanos)
    except errors.ApiError as refusal:
        affordable = cost.affordable_tokens(request, offer, account.available_nanos)
        if affordable > 0:
            refusal.message += f" It affords max_tokens up to {affordable}."
        raise


def _add_writes(admitted: Admitted, key: ApiKey, rows: LockedRows) -> None:
    """What is to be written for who is let in, and what the next in the batch must know of it."""
    completion, writes = admitted.completion, rows.writes
    lifetime = timedelta(seconds=settings.UPSTREAM_TOTAL_SECONDS) + _EXPIRY_MARGIN
    writes.rate_limits_updated[key.pk] = key
    writes.spending_reserved.append(SpendingChange(key.pk, completion.spending_day, admitted.held_nanos))
    writes.holds_placed.append(
        NewHold(completion.id, completion.account_id, admitted.held_nanos, expires_at=completion.created_at + lifetime)
    )
    writes.completions_begun.append(completion)
    if admitted.idempotency_key:
        writes.idempotency_keys_inserted.append((completion, admitted.idempotency_key))
        rows.idempotency_keys[(completion.account_id, admitted.idempotency_key.value)] = IdempotentRequest(
            fingerprint=admitted.idempotency_key.fingerprint, expires_at=rows.now + idempotency.RETENTION
        )


def _admitted_before(admission_request: AdmissionRequest, rows: LockedRows) -> Admitted:
    """What was admitted by a commit whose answer was lost."""
    hold: Hold = rows.holds[admission_request.completion_id]
    completion = CompletionRecord.from_row(rows.completions[admission_request.completion_id])
    request, key = admission_request.request, rows.keys[admission_request.key_id]
    offers = [offer for offer in admission_request.offers if _is_allowed(key, offer)] or admission_request.offers[:1]
    affordable = cost.affordable_tokens(request, offers[0], hold.amount_nanos)
    admitted_offers = _payable(
        request, offers, hold.amount_nanos, min(affordable, request.max_tokens or offers[0].max_output_tokens)
    )
    return Admitted(completion, hold.amount_nanos, request, admitted_offers, {}, admission_request.idempotency_key)
