"""Model id -> what is offered under it right now; and the list of what there is."""

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from django.conf import settings

from completions import providers
from completions.chat import Offer, PriceList
from completions.models import LanguageModel, LanguageModelQuerySet, Price, Provider, Route
from gateway_project import database, errors, secretbox


class Obstacle(StrEnum):
    """Why a model is not served, as one says it of the model."""

    DISABLED = "is disabled"
    UNPRICED = "has no price in force"
    UNROUTED = "has no enabled route"
    UNREACHABLE = "has no route to a provider that is enabled, supported and has its key"


@dataclass(frozen=True)
class Listing:
    """A model as /v1/models shows it: with its price, and available if it is served now."""

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
        with database.patience():
            offer = _find(model_id)
        _remember(offer)
    return offer


def _remember(offer: Offer) -> None:
    _offers[offer.model_id] = (time.monotonic() + settings.CATALOG_CACHE_SECONDS, offer)


def _find(model_id: str) -> Offer:
    model = _model(model_id)
    if model is None or why_not_served(model):
        _offers.pop(model_id, None)
        raise not_found(model_id)
    route = next(route for route in model.enabled_routes if is_available(route.provider))
    return _offer(model, route, model.prices_in_force[0])


def not_found(model_id: str) -> errors.ModelNotFound:
    """The same words for a model that is unknown, disabled, unpriced, unreachable or not allowed for the key."""
    return errors.ModelNotFound(f"The model {model_id!r} does not exist or you do not have access to it.", param="model")


def listings(allowed: Collection[str] | None = None) -> list[Listing]:
    """Every model that is enabled, priced and routed, by id; only those in ``allowed`` if that is given."""
    models = LanguageModel.objects.with_terms()
    if allowed is not None:
        models = models.filter(pk__in=allowed)
    return [_listing(model) for model in models if _is_listed(model)]


def listed(model_id: str, allowed: Collection[str] | None = None) -> Listing:
    """The one of ``listings`` that has this id. Raises ModelNotFound."""
    model = _model(model_id) if allowed is None or model_id in allowed else None
    if model is None or not _is_listed(model):
        raise not_found(model_id)
    return _listing(model)


def why_not_served(model: LanguageModel) -> str:
    """The first obstacle in words, as "has no price in force"; nothing if callers are served."""
    return next(obstacles(model), "")


def obstacles(model: LanguageModel) -> Iterator[Obstacle]:
    """What keeps a model ``with_terms`` from being served."""
    if not model.is_enabled:
        yield Obstacle.DISABLED
    if not model.prices_in_force:
        yield Obstacle.UNPRICED
    if not model.enabled_routes:
        yield Obstacle.UNROUTED
    elif not any(is_available(route.provider) for route in model.enabled_routes):
        yield Obstacle.UNREACHABLE


def incomplete(models: LanguageModelQuerySet) -> Iterator[tuple[LanguageModel, Obstacle]]:
    """Those that somebody meant to be served, as they are enabled, but gave no price or no route; by id."""
    for model in models.filter(is_enabled=True).with_terms():
        for obstacle in obstacles(model):
            if obstacle is not Obstacle.UNREACHABLE:
                yield model, obstacle


def is_available(provider: Provider) -> bool:
    """Whether we can ask this provider: it is enabled, we speak its language, and it has its key or needs none."""
    if not provider.is_enabled or provider.kind not in providers.ADAPTERS:
        return False
    return bool(provider.sealed_api_key or not provider.api_key_env or os.environ.get(provider.api_key_env))


def _model(model_id: str) -> LanguageModel | None:
    if "\x00" in model_id:  # no id has one, and PostgreSQL would not even compare with one
        return None
    return LanguageModel.objects.with_terms().filter(pk=model_id).first()


def _is_listed(model: LanguageModel) -> bool:
    return set(obstacles(model)) <= {Obstacle.UNREACHABLE}


def _listing(model: LanguageModel) -> Listing:
    return Listing(model, model.prices_in_force[0], is_available=not why_not_served(model))


def _offer(model: LanguageModel, route: Route, price: Price) -> Offer:
    return Offer(
        model_id=model.pk,
        provider_slug=route.provider.pk,
        kind=route.provider.kind,
        base_url=route.provider.base_url.rstrip("/"),
        api_key=_api_key(route.provider),
        upstream_model=route.upstream_model,
        max_output_tokens=model.max_output_tokens,
        price_id=price.pk,
        price=price_list(price),
    )


def _api_key(provider: Provider) -> str:
    if provider.sealed_api_key:
        return secretbox.decrypt(provider.sealed_api_key, purpose=f"provider:{provider.pk}")
    return os.environ.get(provider.api_key_env, "").strip() if provider.api_key_env else ""


def price_list(price: Price) -> PriceList:
    def or_input(nanos: int | None) -> int:
        return price.input_nanos if nanos is None else nanos

    return PriceList(
        input_nanos=price.input_nanos,
        output_nanos=price.output_nanos,
        cached_input_nanos=or_input(price.cached_input_nanos),
        cache_write_nanos=or_input(price.cache_write_nanos),
    )
