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

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from billing import holds
from billing import locks as account_locks
from billing.models import Account
from completions import catalog, pricing
from completions.chat import Call, ChatRequest, Offer
from completions.models import Completion
from gateway_project import database, errors, identifiers
from keys import locks as key_locks
from keys import rate_limits, spending
from keys.authentication import REFUSED, Caller, require_active
from keys.models import ApiKey
from keys.spending import Window

_PATIENCE = timedelta(minutes=1)  # told to wait longer, some clients sleep through it and others come back at once
_EXPIRY_MARGIN = timedelta(minutes=5)  # settling after the last deadline takes a moment; expiry must not race it


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may run: it has an id, a committed hold, and a cap that the hold pays for."""

    completion_id: str
    account_id: UUID
    key_id: str
    created: datetime
    call: Call
    headers: dict[str, str]


def admit(request: ChatRequest, offer: Offer, caller: Caller) -> Admitted:
    """Hold the money for ``request``, or raise the refusal."""
    _check_max_tokens(request, offer)
    with database.short_transaction():
        account, key = _locked(caller)
        now = database.now()
        require_active(key, account, now)
        if key.allowed_models and offer.model_id not in key.allowed_models:
            raise catalog.not_found(offer.model_id)
        rates = _Rates(key, now, _countable_tokens(request))
        rates.check()
        window = spending.window(key, now)
        max_tokens = _size(request, offer, account, window, now)
        return _place(request, offer, account, key, now, max_tokens, rates)


def _locked(caller: Caller) -> tuple[Account, ApiKey]:
    try:
        return account_locks.account(caller.account_id), key_locks.key(caller.key_id)
    except (Account.DoesNotExist, ApiKey.DoesNotExist):  # deleted since its identity was cached
        raise errors.InvalidApiKey(REFUSED) from None


def _place(request: ChatRequest, offer: Offer, account: Account, key: ApiKey, now: datetime, max_tokens: int,
           rates: "_Rates") -> Admitted:  # fmt: skip
    completion_id = f"chatcmpl-{identifiers.uuid7().hex}"
    amount_nanos = pricing.worst_case(request, offer.price, max_tokens)
    expires_at = now + timedelta(seconds=settings.UPSTREAM_TOTAL_SECONDS) + _EXPIRY_MARGIN
    rates.write()
    spending.reserve(key, day=now.date(), amount_nanos=amount_nanos)
    holds.place(account, reference=completion_id, amount_nanos=amount_nanos, expires_at=expires_at)
    Completion.objects.create(
        id=completion_id, account=account, key=key, model_id=offer.model_id, price_id=offer.price_id,
        provider_id=offer.provider_slug, is_stream=request.stream, spending_day=now.date(), counted_tokens=rates.tokens,
    )  # fmt: skip
    return Admitted(
        completion_id=completion_id, account_id=account.pk, key_id=key.pk, created=now,
        call=Call(request=request, offer=offer, max_tokens=max_tokens), headers=rates.headers(),
    )  # fmt: skip


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


class _Rates:
    """The key's two limits per minute, and what they say to this request."""

    def __init__(self, key: ApiKey, now: datetime, tokens: int) -> None:
        self.key = key
        self.tokens = tokens
        self.requests_decision = _decide(key.requests_per_minute, key.requests_full_at, now, 1)
        self.tokens_decision = _decide(key.tokens_per_minute, key.tokens_full_at, now, tokens)

    def check(self) -> None:
        for what, decision in (("requests", self.requests_decision), ("tokens", self.tokens_decision)):
            if decision is not None and not decision.allowed:
                raise self._refusal(what, decision)

    def write(self) -> None:
        states = {}
        if self.requests_decision:
            states["requests_full_at"] = self.requests_decision.full_at
        if self.tokens_decision:
            states["tokens_full_at"] = self.tokens_decision.full_at
        if states:
            ApiKey.objects.filter(pk=self.key.pk).update(**states)

    def headers(self) -> dict[str, str]:
        """OpenAI's x-ratelimit-* headers, for the limits there are."""
        headers = {}
        for what, decision in (("requests", self.requests_decision), ("tokens", self.tokens_decision)):
            if decision is not None:
                headers[f"x-ratelimit-limit-{what}"] = str(decision.limit)
                headers[f"x-ratelimit-remaining-{what}"] = str(decision.remaining)
                headers[f"x-ratelimit-reset-{what}"] = _go_duration(decision.resets_in)
        return headers

    def _refusal(self, what: str, decision: rate_limits.Decision) -> errors.ApiError:
        headers = self.headers()
        if decision.retry_in is None:
            headers["x-should-retry"] = "false"
            why = f"this request alone counts {self.tokens}"
        else:
            headers["Retry-After"] = str(max(math.ceil(decision.retry_in.total_seconds()), 1))
            headers["retry-after-ms"] = str(max(math.ceil(decision.retry_in.total_seconds() * 1000), 1))
            if decision.retry_in > _PATIENCE:
                headers["x-should-retry"] = "false"
            why = f"try again in {_go_duration(decision.retry_in)}"
        return errors.RateLimitExceeded(f"The key is limited to {decision.limit} {what} per minute: {why}.", headers=headers)


def _decide(limit: int | None, full_at: datetime | None, now: datetime, cost: int) -> rate_limits.Decision | None:
    return None if limit is None else rate_limits.decide(limit=limit, full_at=full_at, now=now, cost=cost)


def _go_duration(duration: timedelta) -> str:
    """As OpenAI writes it: 12ms, 1s, 6m0s."""
    milliseconds = math.ceil(duration.total_seconds() * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, seconds = divmod(math.ceil(milliseconds / 1000), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
