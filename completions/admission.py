"""The one door in. Every refusal in a fixed order, then the hold, in one short transaction.

The order, which callers may rely on and ``tests/test_error_table.py`` recites:

1. ``max_tokens`` is something the model can do      400 invalid_request_error
2. the key is active and its account open            401 invalid_api_key
3. the key may use the model                         404 model_not_found
4. requests per minute, tokens per minute            429 rate_limit_exceeded
5. the key's spending limit                          429 rate_limit_exceeded
6. the account's funds                               429 when only tied up, 402 insufficient_quota

A refusal writes nothing. What is admitted is committed before anything is asked of an upstream, and no connection is held
while one talks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from billing import holds
from billing import locks as account_locks
from billing.models import Account, Hold
from completions import catalog, pricing
from completions.chat import Call, ChatRequest, Offer
from completions.models import Completion
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


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may run: its committed record and hold, and a cap that the hold pays for."""

    completion: Completion
    held_nanos: int
    call: Call
    headers: dict[str, str]


def admit(request: ChatRequest, offer: Offer, caller: Caller) -> Admitted:
    """Hold the money for ``request``, or raise the refusal. Shares its transaction with whoever is at the door too."""
    _check_max_tokens(request, offer)
    # What the views asked for is answered. From here to the end of the reply no connection of the pool is held.
    database.give_back_connection()
    completion_id = f"chatcmpl-{identifiers.uuid7().hex}"
    return _door.submit(Candidate(completion_id, request, offer, caller))


def _admit_batch(candidates: list[Candidate], again: bool) -> list[Admitted | Exception]:
    with _connection.transaction() as steps:
        return _decide_batch(steps, candidates, again)


def _decide_batch(steps: TwoSteps, candidates: list[Candidate], again: bool) -> list[Admitted | Exception]:
    account_ids = {candidate.caller.account_id for candidate in candidates}
    key_ids = {candidate.caller.key_id for candidate in candidates}
    completion_ids = [candidate.completion_id for candidate in candidates if again]
    found_accounts, found_keys, sums, found_holds, found_completions, [(now,)] = steps.read(
        account_locks.accounts(account_ids),
        key_locks.keys(key_ids),
        spending.sums(key_ids),
        account_locks.holds(completion_ids),
        database.rows(Completion, completion_ids),
        database.CLOCK,
    )
    accounts, keys = database.made(Account, found_accounts), database.made(ApiKey, found_keys)
    windows = spending.windows(keys.values(), sums, now)
    placed, begun = database.made(Hold, found_holds), database.made(Completion, found_completions)
    outcomes: list[Admitted | Exception] = []
    for candidate in candidates:
        caller, hold = candidate.caller, placed.get(candidate.completion_id)
        try:
            if hold is not None:
                outcomes.append(_recalled(candidate, hold, begun[candidate.completion_id]))
                continue
            account, key = accounts.get(caller.account_id), keys.get(caller.key_id)
            if account is None or key is None:  # deleted since its identity was cached
                raise errors.InvalidApiKey(REFUSED)
            outcomes.append(_decide(candidate, account, key, windows[key.pk], now))
        except errors.ApiError as refusal:
            outcomes.append(refusal)
    new = [one for one in outcomes if isinstance(one, Admitted) and one.completion.pk not in placed]
    if new:
        steps.write(*_written(new, keys))
    return outcomes


def _recalled(candidate: Candidate, hold: Hold, completion: Completion) -> Admitted:
    """What was admitted by a commit whose answer was lost."""
    request, offer = candidate.request, candidate.offer
    affordable = pricing.affordable_tokens(request, offer.price, hold.amount_nanos)
    max_tokens = min(affordable, request.max_tokens or _output_max(offer))
    return Admitted(completion, hold.amount_nanos, Call(request=request, offer=offer, max_tokens=max_tokens), headers={})


def _decide(candidate: Candidate, account: Account, key: ApiKey, window: Window | None, now: datetime) -> Admitted:
    """One candidate; what it leaves to the next is on the given rows. A refusal leaves them as they were."""
    request, offer = candidate.request, candidate.offer
    require_active(key, account, now)
    if key.allowed_models and offer.model_id not in key.allowed_models:
        raise catalog.not_found(offer.model_id)
    tokens = _countable_tokens(request)
    count = rates.count(key, now, tokens)
    max_tokens = _size(request, offer, account, window, now)
    held_nanos = pricing.worst_case(request, offer.price, max_tokens)
    holds.place(account, held_nanos)
    if window:
        window.held_nanos += held_nanos
    count.apply(key)
    completion = Completion(
        id=candidate.completion_id, account_id=account.pk, key_id=key.pk, model_id=offer.model_id, price_id=offer.price_id,
        provider_id=offer.provider_slug, is_stream=request.stream, spending_day=now.date(), counted_tokens=tokens,
        created_at=now,
    )  # fmt: skip
    call = Call(request=request, offer=offer, max_tokens=max_tokens)
    return Admitted(completion=completion, held_nanos=held_nanos, call=call, headers=count.headers())


def _written(admitted: Sequence[Admitted], keys: dict[str, ApiKey]) -> list[Statement]:
    completions = [one.completion for one in admitted]
    return [
        *rates.counted([keys[key_id] for key_id in {completion.key_id for completion in completions}]),
        spending.reserved([Movement(one.completion.key_id, one.completion.spending_day, one.held_nanos) for one in admitted]),
        holds.placed([_hold(one) for one in admitted]),
        _begun(completions),
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
            (id, account_id, key_id, model_id, price_id, provider_id, is_stream, spending_day, counted_tokens, created_at)
        SELECT * FROM unnest(%s::text[], %s::uuid[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::boolean[],
            %s::date[], %s::bigint[], %s::timestamptz[])
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
            [completion.created_at for completion in completions],
        ),
    )


# A hold that a crash of the database forgets was never acted upon for long: no money has moved. So these commits do not
# wait for the disk; settlements do.
_connection = database.TwoStepConnection(synchronous_commit=False)
# Nobody waits for what was admitted too late: its hold is left to expire, as that of a process that died.
_door: GroupCommit[Candidate, Admitted] = GroupCommit(_admit_batch)


# --- How much may it generate ------------------------------------------------------------------------------------


def _check_max_tokens(request: ChatRequest, offer: Offer) -> None:
    if request.max_tokens is not None and request.max_tokens > offer.max_output_tokens:
        param = "max_tokens" if request.fields.get("max_tokens") is not None else "max_completion_tokens"
        raise errors.InvalidRequest(
            f"{param} is {request.max_tokens}, but {offer.model_id} generates at most {offer.max_output_tokens} tokens.",
            param=param,
        )


def _size(request: ChatRequest, offer: Offer, account: Account, window: Window | None, now: datetime) -> int:
    """The cap: what the caller asked for, or a share of the budget. Raises what ``admit`` raises for money."""
    asked = request.max_tokens
    if asked is None:
        asked = _sensible(request, offer, account, window)
    need_nanos = pricing.worst_case(request, offer.price, asked)
    if window is not None and window.available_nanos < need_nanos:
        raise spending.refusal(window, need_nanos, now)
    if account.available_nanos < need_nanos:
        raise _with_affordable(holds.refusal(account, need_nanos), request, offer, account)
    if request.max_tokens is not None:
        return request.max_tokens
    available_nanos = min(account.available_nanos, window.available_nanos if window else account.available_nanos)
    share = pricing.affordable_tokens(request, offer.price, available_nanos // pricing.SHARE_OF_BUDGET)
    return max(asked, min(share, _output_max(offer)))


def _sensible(request: ChatRequest, offer: Offer, account: Account, window: Window | None) -> int:
    """The least worth generating: 1,024 tokens, or what the model or the money behind all holds allows if that is less."""
    budget_nanos = min(account.balance_nanos, window.unspent_nanos if window else account.balance_nanos)
    affordable = pricing.affordable_tokens(request, offer.price, budget_nanos)
    return max(min(pricing.SENSIBLE_TOKENS, _output_max(offer), affordable), 1)


def _output_max(offer: Offer) -> int:
    return min(offer.max_output_tokens, offer.context_window)


def _with_affordable(error: errors.ApiError, request: ChatRequest, offer: Offer, account: Account) -> errors.ApiError:
    affordable = pricing.affordable_tokens(request, offer.price, account.available_nanos)
    if affordable > 0:
        error.message += f" It affords max_tokens up to {affordable}."
    return error


# --- How fast may it come ----------------------------------------------------------------------------------------


def _countable_tokens(request: ChatRequest) -> int:
    """What is counted before the truth is known: an estimate of the prompt, and what the caller lets it generate.

    Settlement corrects it by the difference.
    """
    return max(pricing.prompt_tokens_estimate(request) + (request.max_tokens or 0), 1)
