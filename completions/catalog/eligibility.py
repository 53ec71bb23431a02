"""A request, and what may answer it: before any money is held.

What was asked for must be able to do what the request needs, or the caller is told which part it is. A model that may answer
instead is passed over when it cannot, and so is one route of several whose provider cannot say what the request says.
"""

from dataclasses import replace

from completions import providers
from completions.catalog import lookup
from completions.chat import ChatRequest, Offer, Route
from completions.pricing import token_budget
from gateway_project import errors


def offers(request: ChatRequest) -> list[Offer]:
    """What may answer, in turn: the model asked for, then its fallbacks. Raises ModelNotFound, InvalidRequest."""
    first = _fitting(request, lookup.find(request.model))
    named = (lookup.find(model_id, f"models[{place}]") for place, model_id in request.fallbacks)
    return [first, *(offer for each in named if (offer := _fitting_or_none(request, each)))]


def _fitting_or_none(request: ChatRequest, offer: Offer) -> Offer | None:
    try:
        return _fitting(request, offer)
    except errors.InvalidRequest:
        return None


def _fitting(request: ChatRequest, offer: Offer) -> Offer:
    """The offer with the routes that will do. Raises InvalidRequest."""
    token_budget.require_possible(request, offer)
    _require_abilities(request, offer)
    refusal: errors.InvalidRequest | None = None
    routes: list[Route] = []
    for route in offer.routes:
        try:
            providers.ADAPTERS[route.kind].check(request)
            routes.append(route)
        except errors.InvalidRequest as error:
            refusal = refusal or error
    if not routes:
        raise refusal or lookup.not_found(offer.model_id)
    return offer if len(routes) == len(offer.routes) else replace(offer, routes=tuple(routes))


def _require_abilities(request: ChatRequest, offer: Offer) -> None:
    if request.contents.image_at and not offer.image_support:
        raise errors.wrong(request.contents.image_at, f"is an image, which {offer.model_id} does not read")
    for name in ("tools", "functions"):
        if request.fields.get(name) and not offer.function_calling:
            raise errors.wrong(name, f"is not supported by {offer.model_id}: it does not call functions")
