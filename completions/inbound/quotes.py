"""The hold and the maximum cost of a request, if it were sent now; and how many tokens its prompt is likely to have.

Admission decides, on rows that it does not lock, and nothing of its decision is written or counted. No provider is asked.
"""

from collections.abc import Sequence
from typing import Any

from billing import money
from completions import estimates
from completions.catalog import eligibility, lookup
from completions.charging import admission, batch, oldest_hold
from completions.charging.admission import Admitted, AdmittedOffer
from completions.chat import ChatRequest, Offer
from completions.pricing.rates import RateSheet
from gateway_project import errors
from gateway_project.text import compact_json, dollars
from keys.authentication import Caller
from keys.budgets.runs import AskedRun
from keys.models import ApiKey


def describe_quote(request: ChatRequest, offers: Sequence[Offer], caller: Caller, run: AskedRun | None) -> dict[str, Any]:
    """Return the reply to POST /v1/quote, for ``compact_json.dumps``. Raises InvalidRequest where no money would help.

    A refusal for limits or money is a part of the reply, with what the money does afford.
    """
    admission_request = admission.prepare(request, offers, caller, run=run)
    rows = batch.read(admission_request)
    admission_request = admission_request.with_own_keys(rows)
    offers = admission_request.offers
    is_known = caller.account_id in rows.accounts and caller.key_id in rows.keys
    known = admission_request if is_known else None  # asked before: a hold changes the rows
    available_nanos, affordable = (known.available_nanos(rows), known.affordable_tokens(rows)) if known else (0, 0)
    refusal = None
    try:
        admitted = admission_request.apply(rows)
        assert isinstance(admitted, Admitted)  # a stored reply belongs to an Idempotency-Key, and there is none
        held_nanos, admitted_offers = admitted.held_nanos, admitted.admitted_offers
    except (errors.InsufficientQuota, errors.RateLimitExceeded) as error:
        if isinstance(error, errors.MoneyRefused):
            oldest_hold.tell(error, caller)
        refusal, held_nanos, admitted_offers = error, None, ()
    offer, max_tokens = offers[0], admitted_offers[0].max_tokens if admitted_offers else request.max_tokens
    if held_nanos is None and request.max_tokens is not None:  # else the request leaves their number to the gateway
        held_nanos = estimates.worst_case_nanos(request, offer, request.max_tokens)
    _, held = estimates.max_prompt_cost_unrounded(request, offer)
    return {
        "object": "quote",
        "model": offer.model_id,
        "prompt_tokens_max": estimates.max_prompt_tokens(request, offer),
        "max_tokens": max_tokens,
        "max_cost": dollars.json_number(held_nanos),
        "rates": {
            "prompt": _per_token(held.input_nanos, offer.price),
            "completion": _per_token(held.output_nanos, offer.price),
        },
        "likely": _likely(request, offer, max_tokens),
        "available": dollars.json_number(available_nanos),
        "affordable_max_tokens": max(min(affordable, offer.max_output_tokens), 0),
        "refusal": refusal and {"status": refusal.status, **refusal.body()["error"]},
        "routes": [described for offered in admitted_offers for described in _routes(request, offered)],
    }


def _likely(request: ChatRequest, offer: Offer, max_tokens: int | None) -> dict[str, Any] | None:
    """Return what is charged if the prompt is as long as is likely, at the tier that is asked for; None of one set of rates."""
    price, tokens = offer.price, estimates.estimate_prompt_tokens(request, offer)
    if not (price.tiers or price.thresholds):
        return None
    return {
        "service_tier": request.tier or "default",
        "prompt_tokens": tokens,
        "above": price.threshold(request.tier, tokens),
        "prompt": _per_token(price.rate("input", request.tier, tokens), price),
        "completion": _per_token(price.rate("output", request.tier, tokens), price),
        "cost": dollars.json_number(None if max_tokens is None else estimates.likely_nanos(request, offer, max_tokens)),
    }


def _per_token(nanos: int, price: RateSheet) -> str:
    return dollars.format_per_one(nanos * price.basis_points, money.TOKENS_PER_PRICE * money.WHOLE)


def _routes(request: ChatRequest, offered: AdmittedOffer) -> list[dict[str, Any]]:
    """Return the routes of an offer in the order of their priority. Those of one priority share requests by weight."""
    max_cost = dollars.json_number(estimates.worst_case_nanos(request, offered.offer, offered.max_tokens))
    return [
        {
            "model": offered.offer.model_id,
            "provider": route.provider_slug,
            "priority": route.priority,
            "weight": route.weight,
            "max_tokens": offered.max_tokens,
            "max_cost": max_cost,
        }
        for route in sorted(offered.offer.routes, key=lambda route: (route.priority, -route.weight, route.id))
    ]


def likely_prompt_tokens(key: ApiKey, chat: ChatRequest) -> int:
    """Return the likely tokens of text and tools, by their bytes, and the maximum of images and documents.

    Raises ModelNotFound for a model that the key may not use.
    """
    offer = lookup.find_offer(chat.model, caller=Caller(key.pk, key.account_id))
    admission.require_allowed(key, offer)
    eligibility.require_kind(chat, offer)
    if chat.contents.file_at:
        return estimates.max_prompt_tokens(chat, offer) // (1 + chat.web_searches_max)  # of one reading
    others = [chat.fields[name] for name in ("tools", "response_format") if name in chat.fields]
    text_bytes = chat.contents.text_bytes + sum(len(compact_json.dumps(each)) for each in others)
    return max(estimates.estimate_tokens(text_bytes) + chat.contents.images * offer.image_tokens_max, 1)
