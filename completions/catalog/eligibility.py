"""Selects the models and routes that can serve a request, before any money is held.

The requested model must support everything that the request uses; otherwise the caller is told which field it does not
support. A fallback model that does not support it is skipped. So is one of several routes if its provider cannot express
the request.
"""

from dataclasses import replace

from completions import providers
from completions.catalog import lookup
from completions.chat import ChatRequest, Offer, Route
from completions.pricing import token_budget
from gateway_project import errors


def eligible_offers(request: ChatRequest) -> list[Offer]:
    """Return the offers to try, in order: the requested model, then its fallbacks. Raises ModelNotFound, InvalidRequest."""
    first = _require_eligible(request, lookup.find_offer(request.model))
    fallbacks = (lookup.find_offer(model_id, f"models[{place}]") for place, model_id in request.fallbacks)
    return [first, *(offer for fallback in fallbacks if (offer := _eligible_or_none(request, fallback)))]


def _eligible_or_none(request: ChatRequest, offer: Offer) -> Offer | None:
    try:
        return _require_eligible(request, offer)
    except errors.InvalidRequest:
        return None


def _require_eligible(request: ChatRequest, offer: Offer) -> Offer:
    """Return the offer with only the routes that can serve the request. Raises InvalidRequest if there is none."""
    token_budget.require_possible_max_tokens(request, offer)
    _require_capabilities(request, offer)
    refusal: errors.InvalidRequest | None = None
    routes: list[Route] = []
    for route in offer.routes:
        try:
            providers.ADAPTERS[route.kind].check(request)
            routes.append(route)
        except errors.InvalidRequest as error:
            refusal = refusal or error
    if not routes:
        raise refusal or lookup.model_not_found(offer.model_id)
    return offer if len(routes) == len(offer.routes) else replace(offer, routes=tuple(routes))


def _require_capabilities(request: ChatRequest, offer: Offer) -> None:
    if request.contents.image_at and not offer.image_support:
        raise errors.wrong(request.contents.image_at, f"is an image, which {offer.model_id} does not read")
    for name in ("tools", "functions"):
        if request.fields.get(name) and not offer.function_calling:
            raise errors.wrong(name, f"is not supported by {offer.model_id}: it does not call functions")
