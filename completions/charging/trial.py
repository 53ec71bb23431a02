"""Would a request be served now? The decision of admission, tried with the rows locked and rolled back.

For support: the same code decides as for requests, from the parsing of the body to the hold. Nothing is written or counted. Not
tried is what one web process alone refuses (its slots, floods), nor whether a provider answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from billing.models import Account
from completions import estimates
from completions.catalog import data_demands, eligibility
from completions.charging import admission, batch, oldest_hold
from completions.charging.admission import AdmissionRequest, Admitted
from completions.charging.batch import LockedRows
from completions.chat import ChatRequest, Offer
from completions.request import schema
from gateway_project import errors
from gateway_project.text import dollars, timestamps
from keys import summaries
from keys.authentication import Caller
from keys.limits import rate_limits, requests_in_flight
from keys.limits.spending import SpendingWindow
from keys.models import ApiKey
from keys.refusal_history import summaries as refusal_summaries


@dataclass(frozen=True)
class Trial:
    refusal: errors.ApiError | None = None
    decided_by: str = ""
    held: str = ""
    available: str = ""
    max_tokens: int = 0
    figures: Mapping[str, str] = field(default_factory=dict)


def try_request(key: ApiKey, model: str, *, prompt_tokens: int, max_tokens: int | None = None) -> Trial:
    """Try a request with one message of so many tokens, of BYTES_PER_TOKEN bytes each. Raises the database's errors."""
    fields = {"model": model, "messages": [{"role": "user", "content": "x" * (prompt_tokens * estimates.BYTES_PER_TOKEN)}]}
    caller = Caller(key.pk, key.account_id)
    try:
        chat = schema.parse(fields if max_tokens is None else {**fields, "max_tokens": max_tokens})
        demands = data_demands.in_force(None, key, key.account)
        tried = admission.prepare(chat, eligibility.eligible_offers(chat, caller, demands), caller)
    except errors.ModelNotFound as refusal:
        return Trial(refusal, _rule(refusal))
    except errors.ApiError as refusal:
        return Trial(refusal, "The request, or what the model can do")
    with batch.rolled_back(tried) as rows:
        tried = tried.with_own_keys(rows)
        figures = _figures(tried, rows)  # before: a hold changes the rows
        available_nanos = tried.available_nanos(rows)
        try:
            admitted = tried.apply(rows)
        except errors.ApiError as refusal:
            if isinstance(refusal, errors.MoneyRefused):
                oldest_hold.tell(refusal, caller)
            return Trial(refusal, _rule(refusal), figures=figures)
    assert isinstance(admitted, Admitted)  # a stored reply belongs to an Idempotency-Key, and there is none
    held, available = dollars.format_usd(admitted.held_nanos), dollars.format_usd(available_nanos)
    return Trial(held=held, available=available, max_tokens=admitted.admitted_offers[0].max_tokens, figures=figures)


def _rule(refusal: errors.ApiError) -> str:
    return refusal_summaries.describe_error(type(refusal).__name__)


def _figures(tried: AdmissionRequest, rows: LockedRows) -> dict[str, str]:
    account, key, window = rows.accounts[tried.account_id], rows.keys[tried.key_id], rows.windows[tried.key_id]
    offer, models = tried.offers[0], ", ".join(key.allowed_models or ["every model"])
    running = rows.running.get((key.pk, offer.model_id), 0)
    return {
        "Key": f"{summaries.describe_state(key, rows.now)}, for {models}",
        "Account": f"{'Open' if account.is_active else 'Closed'}, {_funds(account)}",
        "Spending limit": _limit(key, window),
        "At a time": _in_flight(key, account, offer, running),
        "Per minute": _rates(key, account, rows, tried.countable_tokens),
        "This request": _worst_case(tried.request, offer),
    }


def _worst_case(request: ChatRequest, offer: Offer) -> str:
    tokens, prompt_tokens = request.max_tokens, estimates.max_prompt_tokens(request, offer)
    prompt = f"Its prompt counts as at most {prompt_tokens:,} tokens, {_dollars(request, offer, 0)}"
    return prompt if tokens is None else f"{prompt}; with {tokens:,} output tokens {_dollars(request, offer, tokens)}"


def _funds(account: Account) -> str:
    balance, held = dollars.format_usd(account.balance_nanos), dollars.format_usd(account.held_nanos)
    return f"balance {balance}, {held} held by running requests, {dollars.format_usd(account.available_nanos)} available"


def _limit(key: ApiKey, window: SpendingWindow | None) -> str:
    words = str(key.spending_limit)
    if window is None:
        return words.capitalize()
    spent, held, left = map(dollars.format_usd, (window.spent_nanos, window.held_nanos, window.available_nanos))
    resets = f", resets {timestamps.in_words(window.resets_at)}" if window.resets_at else ""
    return f"{words}: {spent} spent, {held} held by running requests, {left} left{resets}"


def _in_flight(key: ApiKey, account: Account, offer: Offer, running: int) -> str:
    state = requests_in_flight.read_state(key, account)
    assert state is not None  # admission reads the counts
    of_account = f"{state.of_account:,} of {state.account_max:,} of the account"
    words = f"{state.of_key:,} of {state.key_max:,} requests of the key run, {of_account}"
    maximum = offer.requests_in_flight_max
    return words if maximum is None else f"{words}, {running:,} of {maximum:,} of the key for {offer.model_id}"


def _rates(key: ApiKey, account: Account, rows: LockedRows, tokens: int) -> str:
    counted = rate_limits.read_state(key, account).inspect(rows.now)
    left = ((counted.requests, "requests"), (counted.tokens, "tokens"))
    words = [f"{decision.remaining:,} of {decision.limit:,} {what} left" for decision, what in left if decision]
    return f"{', '.join(words) or 'No limit'}; this request counts {tokens:,} tokens"


def _dollars(request: ChatRequest, offer: Offer, tokens: int) -> str:
    return dollars.format_usd(estimates.worst_case_nanos(request, offer, tokens))
