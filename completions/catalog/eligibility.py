"""Selects the models and routes that can serve a request, before any money is held.

The requested model must support everything that the request uses; otherwise the caller is told which field it does not
support. A fallback model that does not support it is skipped. So is one of several routes if its provider cannot express
the request. Routes are ordered by how fast their providers answered in the last hour, for requests that ask for it.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from completions import estimates, providers
from completions.catalog import data_demands, lookup
from completions.catalog.data_demands import Demand
from completions.chat import Call, ChatRequest, Offer, ProviderPreferences, Route
from completions.providers import ignored_fields
from completions.providers.access import platforms
from completions.request import serving
from completions.statistics import measurements
from completions.statistics.measurements import NOTHING, Measured
from gateway_project import errors
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from keys.authentication import Caller

# The gateway honours them: what it keeps of a request, and what it does not keep.
_LABELS = frozenset({"metadata", "prompt_cache_key", "safety_identifier", "store", "user"})
_NO_PREFERENCES = ProviderPreferences()
_WINDOW = timedelta(hours=1)
_Measurements = dict[measurements.Route, Measured]
# Read by one request per minute, while the others use the last reading.
_measured: StaleWhileRefresh[None, _Measurements] = StaleWhileRefresh(seconds=60, entries_max=1, stale_on=pool.UNAVAILABLE)


def eligible_offers(request: ChatRequest, caller: Caller | None = None, demands: Sequence[Demand] | None = None) -> list[Offer]:
    """Return the offers to try, in order: the requested model, then its fallbacks. Raises ModelNotFound, InvalidRequest.

    ``demands`` are all that are in force; None: only those of the request are known yet.
    """
    preferences = request.provider_preferences
    if preferences:
        lookup.require_known_providers(preferences)
    if demands is None:
        demands = data_demands.in_force(preferences) if preferences else ()
    first, offers, unmet = lookup.find_offer(request.model, "model", caller), [], None
    try:
        offers.append(_require_eligible(request, first, demands))
    except errors.DataDemandUnmet as refusal:  # a model that the request names as a fallback may meet it
        unmet = refusal
    for place, model_id in request.fallbacks:
        fallback = lookup.find_offer(model_id, f"models[{place}]", caller)
        with suppress(errors.InvalidRequest):
            offers.append(_require_eligible(request, fallback, demands))
    if not offers and unmet:
        raise unmet
    return offers


def _require_eligible(request: ChatRequest, offer: Offer, demands: Sequence[Demand]) -> Offer:
    """Return the offer with only the routes that can serve the request. Raises InvalidRequest if there is none."""
    preferences = request.provider_preferences
    if (preferences and preferences.bound_models) or (demands and offer.alias):
        offer = _within_bounds(request, preferences or _NO_PREFERENCES, offer, demands)
    require_kind(request, offer)
    estimates.require_possible_max_tokens(request, offer)
    _require_capabilities(request, offer)
    refusal: errors.InvalidRequest | None = None
    routes: list[Route] = []
    if preferences:
        offer = _allowed(preferences, offer)
    if demands:
        [offer] = data_demands.narrow(request, [offer], demands)
    preferred = _preferred(preferences, offer) if preferences else offer.routes
    for route in preferred:
        try:
            _check(request, route)
            if preferences and preferences.requires_parameters:
                _require_every_field_sent(request, offer, route)
            routes.append(route)
        except errors.InvalidRequest as error:
            refusal = refusal or error
    if not routes:
        raise refusal or lookup.model_not_found(offer.model_id, errors.ModelNotServed)
    return offer if routes == list(offer.routes) else replace(offer, routes=tuple(routes))


def _within_bounds(request: ChatRequest, preferences: ProviderPreferences, offer: Offer, demands: Sequence[Demand]) -> Offer:
    """Return the offer, or of an alias that of the first model with the price and the quality that the caller allows.

    Of an alias also with a route that meets the demands.
    """
    asked = request.tier, request.prompt_tokens_max
    if not offer.alias:
        if preferences.min_quality is not None:
            raise errors.wrong("provider.min_quality", "is for aliases, such as cheapest/coding: models have no ranking")
        if not preferences.allow_price(offer.price, *asked):
            raise errors.wrong("provider.max_price", f"is below the price of {offer.model_id}")
        return offer
    wanted, unmet = preferences.min_quality, None
    for candidate in offer.candidates:
        is_good_enough = wanted is None or (candidate.quality is not None and candidate.quality >= wanted)
        if is_good_enough and preferences.allow_price(candidate.price, *asked):
            chosen = lookup.find_offer(candidate.model_id)
            if not preferences.allow_price(chosen.price, *asked):  # it was raised after the alias was read
                continue
            try:
                data_demands.narrow(request, [chosen], demands)
            except errors.DataDemandUnmet as refusal:
                unmet = unmet or refusal
                continue
            return replace(chosen, alias=offer.alias, ranking=offer.ranking, candidates=offer.candidates)
    raise unmet or errors.wrong("provider", f"leaves no model of {offer.alias}")


def require_kind(request: ChatRequest, offer: Offer) -> None:
    """Raise InvalidRequest when text is asked of a model that makes embeddings, or the reverse."""
    if offer.is_embedding and not request.inputs:
        raise errors.wrong("model", f"is {offer.model_id}, which makes embeddings: send it to /v1/embeddings")
    if request.inputs and not offer.is_embedding:
        raise errors.wrong("model", f"is {offer.model_id}, which writes text and makes no embeddings")


def _check(request: ChatRequest, route: Route) -> None:
    """Raise InvalidRequest for a request that the provider of the route cannot fulfil."""
    if request.tier and not providers.ADAPTERS[route.kind].takes_tiers(route):
        raise errors.wrong("service_tier", f"must be one of {_names_of_tiers(())}: the provider of this model has no others")
    if request.messages_only_at and not providers.ADAPTERS[route.kind].speaks_messages:
        raise errors.wrong(request.messages_only_at, "is a tool of Anthropic's own, which other makers' models do not know")
    if request.web_search and not providers.ADAPTERS[route.kind].speaks_responses:
        raise errors.wrong(request.web_search_at, "is web_search, which runs at OpenAI: not every model has it")
    if route.target.lacks:
        _require_no_lack(request, route)
    providers.ADAPTERS[route.kind].check(request)


def _require_no_lack(request: ChatRequest, route: Route) -> None:
    """Raise InvalidRequest for what the provider's cloud does not have of the maker's API."""
    lacks = route.target.lacks
    needed = {platforms.WEB_SEARCH: request.web_search_at, platforms.EMBEDDINGS: "input" if request.inputs else ""}
    if platforms.FORMATS in lacks and (request.fields.get("response_format") or {}).get("type") == "json_schema":
        needed[platforms.FORMATS] = "response_format"
    for lack, param in needed.items():
        if param and lack in lacks:
            raise errors.wrong(param, f"asks for {lack}, which {route.provider_slug} does not have")


def _require_every_field_sent(request: ChatRequest, offer: Offer, route: Route) -> None:
    """Raise InvalidRequest if the provider of the route would not be sent a field, other than those that are the gateway's."""
    call = Call(request, offer, route, request.max_tokens_of(offer) or offer.max_output_tokens)
    if unsent := [name for name in providers.unsent_fields(call) if name not in _LABELS]:
        fields = ignored_fields.header_value(unsent)
        reason = f"leaves no provider of {offer.model_id}: {route.provider_slug} is not sent {fields}"
        raise errors.wrong("provider.require_parameters", reason, quotes_request=True)


def _allowed(preferences: ProviderPreferences, offer: Offer) -> Offer:
    """Return the offer with the routes that the caller allows. Raises InvalidRequest if it allows none."""
    only, ignored = preferences.only, preferences.ignore
    ordered = preferences.order if not preferences.allows_fallbacks else ()
    allowed = [
        route
        for route in offer.routes
        if (not only or route.provider_slug in only)
        and (not ordered or route.provider_slug in ordered)
        and route.provider_slug not in ignored
    ]
    if offer.routes and not allowed:
        raise errors.wrong("provider", f"leaves no provider of {offer.model_id}")
    return offer if len(allowed) == len(offer.routes) else replace(offer, routes=tuple(allowed))


def _preferred(preferences: ProviderPreferences, offer: Offer) -> Sequence[Route]:
    """Return the routes in the caller's order, or only the first ones of them."""
    allowed: Sequence[Route] = offer.routes
    if preferences.sort and preferences.sort != "price":  # a model costs the same at every provider
        allowed = _sort_by_speed(allowed, offer.model_id, preferences.sort)
    places = {slug: place for place, slug in enumerate(dict.fromkeys(preferences.order))}
    moved = [replace(route, priority=places.get(route.provider_slug, len(places) + route.priority)) for route in allowed]
    moved.sort(key=lambda route: route.priority)
    return moved if not preferences.asks_one_provider else [route for route in moved if route.priority == moved[0].priority]


def _sort_by_speed(routes: Sequence[Route], model_id: str, by: str) -> list[Route]:
    """Return the routes with priorities in the order of ``by``. Those that were not measured come last, in their own order."""
    measured = _measured.get(None, lambda _: _measure())

    def place(route: Route) -> tuple[float, int]:
        found = measured.get((route.provider_slug, model_id), NOTHING)
        if by == "latency":
            return (float("inf") if found.first_token_p50_ms is None else found.first_token_p50_ms), route.priority
        return (float("inf") if found.tokens_per_second is None else -found.tokens_per_second), route.priority

    return [replace(route, priority=rank) for rank, route in enumerate(sorted(routes, key=place), start=1)]


def _measure() -> _Measurements:
    try:
        return pool.read(lambda: measurements.measure(pool.database_time() - _WINDOW))
    finally:
        pool.release_connection()


def _names_of_tiers(tiers: Collection[str]) -> str:
    """Return what a request may write for the standard tier and for these, as a list in words."""
    return ", ".join(name for name, tier in serving.SERVICE_TIERS.items() if not tier or tier in tiers)


def _require_capabilities(request: ChatRequest, offer: Offer) -> None:
    if request.contents.image_at and not offer.image_support:
        raise errors.wrong(request.contents.image_at, f"is an image, which {offer.model_id} does not read")
    for name in ("tools", "functions"):
        if request.fields.get(name) and not offer.function_calling:
            raise errors.wrong(name, f"is not supported by {offer.model_id}: it does not call functions")
    price = offer.price
    if request.tier and request.tier not in price.tiers:
        names = _names_of_tiers(price.tiers)
        raise errors.wrong("service_tier", f"must be one of {names}: {request.tier} has no price for {offer.model_id}")
    if request.wants_hour_cache and not price.offers("cache_write_1h", request.tier):
        raise errors.wrong("cache_control.ttl", f"must be 5m: an hour in the cache has no price for {offer.model_id}")
    if request.web_search_at and not price.offers("web_search", request.tier):
        raise errors.wrong(request.web_search_at, f"is web_search, which has no price for {offer.model_id}")
