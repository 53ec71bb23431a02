"""Model id -> what is offered under it right now; and the list of what there is."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Prefetch, Q
from django.db.models.functions import Now

from completions import providers
from completions.chat import Offer, PriceList
from completions.models import LanguageModel, Price, Provider, Route
from gateway_project import errors, secretbox


@dataclass(frozen=True)
class Listing:
    """A model as /v1/models shows it: priced, with a route, and available if a route's provider can be asked."""

    model: LanguageModel
    price: Price
    is_available: bool


_offers: dict[str, tuple[float, Offer]] = {}  # by model id, with the moment until which it may be believed


def find(model_id: str) -> Offer:
    """The offer by the first route that can be asked. Raises ModelNotFound.

    An offer is remembered for CATALOG_CACHE_SECONDS: so long a change of the catalogue may take to reach every worker.
    """
    until, offer = _offers.get(model_id, (0.0, None))
    if offer is None or until < time.monotonic():
        if offer is not None:  # while we ask, the others go on with what we had: they need not all ask
            _remember(offer)
        offer = _find(model_id)
        _remember(offer)
    return offer


def _remember(offer: Offer) -> None:
    _offers[offer.model_id] = (time.monotonic() + settings.CATALOG_CACHE_SECONDS, offer)


def _find(model_id: str) -> Offer:
    for listing in _listings(Q(pk=model_id)):
        for route in listing.model.routes.all():
            if is_available(route.provider):
                return _offer(listing.model, route, listing.price)
    _offers.pop(model_id, None)
    raise not_found(model_id)


def not_found(model_id: str) -> errors.ModelNotFound:
    """The same words for a model that is unknown, disabled, unpriced, unreachable or not allowed for the key."""
    return errors.ModelNotFound(f"The model {model_id!r} does not exist or you do not have access to it.", param="model")


def listing(allowed: Iterable[str] | None = None) -> list[Listing]:
    """Every model that is enabled, priced and routed, by id; only those in ``allowed`` if that is given."""
    return _listings(Q() if allowed is None else Q(pk__in=allowed))


def is_available(provider: Provider) -> bool:
    """Whether we can ask this provider: it is enabled, we speak its language, and it has its key or needs none."""
    if not provider.is_enabled or provider.kind not in providers.ADAPTERS:
        return False
    return bool(provider.sealed_api_key or not provider.api_key_env or os.environ.get(provider.api_key_env))


def _listings(which: Q) -> list[Listing]:
    routes = Route.objects.filter(is_enabled=True).select_related("provider")
    models = LanguageModel.objects.filter(which, is_enabled=True).prefetch_related(Prefetch("routes", queryset=routes))
    prices = _prices_in_force([model.pk for model in models])
    return [
        Listing(model, prices[model.pk], any(is_available(route.provider) for route in model.routes.all()))
        for model in models
        if model.pk in prices and model.routes.all()
    ]


def _prices_in_force(model_ids: list[str]) -> dict[str, Price]:
    prices = Price.objects.filter(model__in=model_ids, effective_from__lte=Now())
    return {price.model_id: price for price in prices.order_by("model_id", "-effective_from").distinct("model_id")}


def _offer(model: LanguageModel, route: Route, price: Price) -> Offer:
    return Offer(
        model_id=model.pk,
        provider_slug=route.provider.pk,
        kind=route.provider.kind,
        base_url=route.provider.base_url.rstrip("/"),
        api_key=_api_key(route.provider),
        upstream_model=route.upstream_model,
        context_window=model.context_window,
        max_output_tokens=model.max_output_tokens,
        price_id=price.pk,
        price=_price_list(price),
    )


def _api_key(provider: Provider) -> str:
    if provider.sealed_api_key:
        return secretbox.decrypt(provider.sealed_api_key, purpose=f"provider:{provider.pk}")
    return os.environ.get(provider.api_key_env, "").strip() if provider.api_key_env else ""


def _price_list(price: Price) -> PriceList:
    def or_input(nanos: int | None) -> int:
        return price.input_nanos if nanos is None else nanos

    return PriceList(
        input_nanos=price.input_nanos,
        output_nanos=price.output_nanos,
        cached_input_nanos=or_input(price.cached_input_nanos),
        cache_write_nanos=or_input(price.cache_write_nanos),
    )
