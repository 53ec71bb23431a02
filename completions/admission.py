"""The one door in. Every refusal that money and keys may give, in a fixed order, then the hold, in one short transaction.

What comes before is in the view: the shape of the request, the model, what its provider cannot do. The order here, which
callers may rely on and ``tests/test_error_table.py`` recites:

1. ``max_tokens`` is something the model can do      400 invalid_request_error
2. the key is active and its account open            401 invalid_api_key
3. the key may use the model                         404 model_not_found
   (an Idempotency-Key: the same again               the first reply; 400 or 409 where it cannot be)
4. requests per minute, tokens per minute            429 rate_limit_exceeded
5. the key's spending limit                          429 rate_limit_exceeded
6. the account's funds                               429 when only tied up, 402 insufficient_quota

A refusal writes nothing. What is admitted is committed before anything is asked of an upstream, and no connection is held
while one talks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from billing import holds
from billing import locks as account_locks
from billing.models import Account, Hold
from completions import catalog, idempotency, pricing, sizing
from completions.chat import Call, ChatRequest, Offer
from completions.idempotency import Attempt, Replay
from completions.models import Completion, IdempotentRequest
from gateway_project import database, errors, identifiers
from gateway_project.database import Statement, TwoSteps
from gateway_project.group_commit import GroupCommit
from keys import locks as key_locks
from keys import rates, spending
from keys.authentication import REFUSED, Caller, require_active
from keys.models import ApiKey
from keys.spending import Movement, Window

_EXPIRY_MARGIN = timedelta(minutes=5)  # settling after the last deadline takes a moment; expiry must not race it


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request at the door, with the id that it will have if it is let in."""

    completion_id: str
    request: ChatRequest
    offer: Offer
    caller: Caller
    attempt: Attempt | None
    prompt_estimate: int  # it takes a walk through the whole prompt, which is not for the time that rows are locked


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may run: its committed record and hold, and a cap that the hold pays for."""

    completion: Completion
    held_nanos: int
    call: Call
    headers: dict[str, str]
    attempt: Attempt | None = None


def admit(request: ChatRequest, offer: Offer, caller: Caller, attempt: Attempt | None = None) -> Admitted | Replay:
    """Hold the money for ``request``, or raise the refusal. Shares its transaction with whoever is at the door too.

    A retry of what was answered before is not admitted again: it gets the Replay.
    """
    sizing.require_possible(request, offer)
    # What the views asked for is answered. From here to the end of the reply no connection of the pool is held.
    database.give_back_connection()
    completion_id = f"chatcmpl-{identifiers.uuid7().hex}"
    return _door.submit(Candidate(completion_id, request, offer, caller, attempt, pricing.prompt_tokens_estimate(request)))


def _decide(candidate: Candidate, rows: "_Rows") -> Admitted | Replay:
    """One candidate: a column of refusals, in the order above. What it takes is on the given rows, for the next to see."""
    request, offer, now = candidate.request, candidate.offer, rows.now
    account, key = rows.of(candidate.caller)
    window = rows.windows[key.pk]
    require_active(key, account, now)
    if key.allowed_models and offer.model_id not in key.allowed_models:
        raise catalog.not_found(offer.model_id)
    if candidate.attempt and (replay := idempotency.check(candidate.attempt, rows.known(candidate), now)):
        return replay
    counted_tokens = _countable_tokens(candidate)
    count = rates.count(key, now, counted_tokens)
    budget_nanos = _smaller(account.balance_nanos, window.unspent_nanos if window else None)
    least_tokens = sizing.least_tokens(request, offer, budget_nanos)
    least_nanos = pricing.worst_case(request, offer.price, least_tokens)
    spending.require(window, least_nanos, now)
    _require_funds(request, offer, account, least_nanos)

    available_nanos = _smaller(account.available_nanos, window.available_nanos if window else None)
    max_tokens = sizing.cap(request, offer, available_nanos, least_tokens)
    held_nanos = pricing.worst_case(request, offer.price, max_tokens)
    holds.place(account, held_nanos)
    if window:
        window.held_nanos += held_nanos
    count.apply(key)
    completion = Completion(
        id=candidate.completion_id, account_id=account.pk, key_id=key.pk, model_id=offer.model_id, price_id=offer.price_id,
        provider_id=offer.provider_slug, is_stream=request.stream, spending_day=now.date(),
        counted_tokens=counted_tokens, prompt_estimate=candidate.prompt_estimate, created_at=now,
    )  # fmt: skip
    rows.remember(candidate, completion)
    return Admitted(completion, held_nanos, Call(request, offer, max_tokens), count.headers(), candidate.attempt)


def _smaller(nanos: int, limit_nanos: int | None) -> int:
    return nanos if limit_nanos is None else min(nanos, limit_nanos)


def _require_funds(request: ChatRequest, offer: Offer, account: Account, need_nanos: int) -> None:
    try:
        holds.require(account, need_nanos)
    except errors.ApiError as refusal:
        affordable = pricing.affordable_tokens(request, offer.price, account.available_nanos)
        if affordable > 0:
            refusal.message += f" It affords max_tokens up to {affordable}."
        raise


def _countable_tokens(candidate: Candidate) -> int:
    """What counts against tokens per minute before the truth is known: the prompt, estimated, and what the caller allows.

    Settlement corrects it by the difference.
    """
    return max(candidate.prompt_estimate + (candidate.request.max_tokens or 0), 1)


# --- A batch -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a batch has locked, by id, and when; and what an earlier run of it, whose answer was lost, has written."""

    accounts: dict[UUID, Account]
    keys: dict[str, ApiKey]
    windows: dict[str, Window | None]
    holds: dict[str, Hold]
    completions: dict[str, Completion]
    idempotent: dict[tuple[UUID, str], IdempotentRequest]
    now: datetime

    def of(self, caller: Caller) -> tuple[Account, ApiKey]:
        """The caller's rows. Raises InvalidApiKey when they were deleted since its identity was cached."""
        account, key = self.accounts.get(caller.account_id), self.keys.get(caller.key_id)
        if account is None or key is None:
            raise errors.InvalidApiKey(REFUSED)
        return account, key

    def known(self, candidate: Candidate) -> IdempotentRequest | None:
        """What is known of the candidate's Idempotency-Key."""
        assert candidate.attempt is not None
        return self.idempotent.get((candidate.caller.account_id, candidate.attempt.key))

    def remember(self, candidate: Candidate, completion: Completion) -> None:
        """Let the next in the batch know that a request with this Idempotency-Key runs."""
        if candidate.attempt:
            self.idempotent[(completion.account_id, candidate.attempt.key)] = IdempotentRequest(
                fingerprint=candidate.attempt.fingerprint, expires_at=self.now + idempotency.RETENTION
            )


def _admit_batch(candidates: list[Candidate], again: bool) -> list[Admitted | Replay | Exception]:
    with _connection.transaction() as steps:
        rows = _read(steps, candidates, again)
        outcomes = [_outcome(candidate, rows) for candidate in candidates]
        new = [one for one in outcomes if isinstance(one, Admitted) and one.completion.pk not in rows.holds]
        if new:
            steps.write(*_written(new, rows.keys))
    return outcomes


def _read(steps: TwoSteps, candidates: list[Candidate], again: bool) -> _Rows:
    key_ids = {candidate.caller.key_id for candidate in candidates}
    completion_ids = [candidate.completion_id for candidate in candidates]
    attempts = [(candidate.caller.account_id, candidate.attempt) for candidate in candidates if candidate.attempt]
    accounts, keys, sums, found_holds, completions, known, [(now,)] = steps.read(
        account_locks.accounts({candidate.caller.account_id for candidate in candidates}),
        key_locks.keys(key_ids),
        spending.sums(key_ids),
        account_locks.holds(completion_ids) if again else None,
        database.rows(Completion, completion_ids) if again else None,
        idempotency.known(attempts) if attempts else None,
        database.CLOCK,
    )
    keys_by_id = database.made(ApiKey, keys)
    return _Rows(
        accounts=database.made(Account, accounts),
        keys=keys_by_id,
        windows=spending.windows(keys_by_id.values(), sums, now),
        holds=database.made(Hold, found_holds),
        completions=database.made(Completion, completions),
        idempotent={(row.account_id, row.key): row for row in database.made(IdempotentRequest, known).values()},
        now=now,
    )


def _outcome(candidate: Candidate, rows: _Rows) -> Admitted | Replay | Exception:
    try:
        if candidate.completion_id in rows.holds:
            return _recalled(candidate, rows.holds[candidate.completion_id], rows.completions[candidate.completion_id])
        return _decide(candidate, rows)
    except errors.ApiError as refusal:
        return refusal


def _recalled(candidate: Candidate, hold: Hold, completion: Completion) -> Admitted:
    """What was admitted by a commit whose answer was lost."""
    request, offer = candidate.request, candidate.offer
    affordable = pricing.affordable_tokens(request, offer.price, hold.amount_nanos)
    max_tokens = min(affordable, request.max_tokens or offer.max_output_tokens)
    return Admitted(completion, hold.amount_nanos, Call(request, offer, max_tokens), {}, candidate.attempt)


def _written(admitted: Sequence[Admitted], keys: dict[str, ApiKey]) -> list[Statement]:
    completions = [one.completion for one in admitted]
    retriable = [(one.completion, one.attempt) for one in admitted if one.attempt]
    return [
        *rates.counted([keys[key_id] for key_id in {completion.key_id for completion in completions}]),
        spending.reserved([Movement(one.completion.key_id, one.completion.spending_day, one.held_nanos) for one in admitted]),
        holds.placed([_hold(one) for one in admitted]),
        _begun(completions),
        *([idempotency.begun(retriable)] if retriable else []),
    ]


def _hold(admitted: Admitted) -> Hold:
    completion = admitted.completion
    lifetime = timedelta(seconds=settings.UPSTREAM_TOTAL_SECONDS) + _EXPIRY_MARGIN
    return Hold(
        reference=completion.pk, account_id=completion.account_id, amount_nanos=admitted.held_nanos,
        expires_at=completion.created_at + lifetime,
    )  # fmt: skip


def _begun(completions: Sequence[Completion]) -> Statement:
    return Statement(
        """
        INSERT INTO completions_completion
            (id, account_id, key_id, model_id, price_id, provider_id, is_stream, spending_day, counted_tokens,
            prompt_estimate, created_at)
        SELECT * FROM unnest(%s::text[], %s::uuid[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::boolean[],
            %s::date[], %s::bigint[], %s::bigint[], %s::timestamptz[])
        """,
        (
            [completion.pk for completion in completions],
            [completion.account_id for completion in completions],
            [completion.key_id for completion in completions],
            [completion.model_id for completion in completions],
            [completion.price_id for completion in completions],
            [completion.provider_id for completion in completions],
            [completion.is_stream for completion in completions],
            [completion.spending_day for completion in completions],
            [completion.counted_tokens for completion in completions],
            [completion.prompt_estimate for completion in completions],
            [completion.created_at for completion in completions],
        ),
    )


# A hold that a crash of the database forgets was never acted upon for long: no money has moved. So these commits do not
# wait for the disk; settlements do.
_connection = database.TwoStepConnection(synchronous_commit=False)
# Nobody waits for what was admitted too late: its hold is left to expire, as that of a process that died.
_door: GroupCommit[Candidate, Admitted | Replay] = GroupCommit(_admit_batch)
