"""Model id -> what is offered under it right now; and the list of what there is."""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from django.conf import settings

from completions import chat, providers
from completions.chat import Deadlines, Offer, PriceList
from completions.models import LanguageModel, LanguageModelQuerySet, Price, Provider, RoutableAlias, Route
from gateway_project import errors, secretbox
from gateway_project.db import pool
from gateway_project.db.group_commit import GroupCommit


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
    alias: str = ""  # an id that stands for the model


_offers: dict[str, tuple[float, Offer]] = {}  # by model id, with the moment until which it may be believed


def find(model_id: str, param: str = "model") -> Offer:
    """What is offered under this id. Raises ModelNotFound, about ``param``.

    An offer is remembered for CATALOG_CACHE_SECONDS: so long a change of the catalog may take to reach every worker.
    """
    until, offer = _offers.get(model_id, (0.0, None))
    if offer is None or until < time.monotonic():
        if offer is not None:  # while we ask, the others go on with what we had: they need not all ask
            _remember(offer)
        offer = _look_ups.submit(model_id)
    if offer is None:
        raise not_found(model_id, param)
    return offer


def _remember(offer: Offer) -> None:
    _offers[offer.alias or offer.model_id] = (time.monotonic() + settings.CATALOG_CACHE_SECONDS, offer)


def _look_up(model_ids: list[str], again: bool) -> list[Offer | None | Exception]:
    """For all who come at once, as at the start they do: each model is looked up once."""
    try:
        with pool.time_limit():
            found = {model_id: _find(model_id) for model_id in set(model_ids)}
    except pool.UNAVAILABLE as error:
        return [error] * len(model_ids)  # to ask for each of them alone would only take longer
    finally:
        pool.release_connection()
    for offer in found.values():
        if offer:
            _remember(offer)
    return [found[model_id] for model_id in model_ids]


def _find(model_id: str) -> Offer | None:
    model = _model(model_id)
    if model is not None and not why_not_served(model):
        return _offer(model, model.prices_in_force[0])
    for stand_in in _meant(model_id):
        return replace(_offer(stand_in, stand_in.prices_in_force[0]), alias=model_id)
    _offers.pop(model_id, None)
    return None


_look_ups: GroupCommit[str, Offer | None] = GroupCommit(_look_up)


def _meant(alias: str) -> Iterator[LanguageModel]:
    """The models that an alias stands for, the best first; only those that are served now."""
    ids = RoutableAlias.objects.filter(pk=alias).values_list("model_ids", flat=True).first() if "\x00" not in alias else None
    models = LanguageModel.objects.with_terms().in_bulk(ids or [])
    return (models[model_id] for model_id in ids or [] if model_id in models and not why_not_served(models[model_id]))


def not_found(model_id: str, param: str = "model") -> errors.ModelNotFound:
    """The same words for a model that is unknown, disabled, unpriced, unreachable or not allowed for the key."""
    return errors.ModelNotFound(f"The model {model_id!r} does not exist or you do not have access to it.", param=param)


def listings(allowed: Collection[str] | None = None) -> list[Listing]:
    """Every model that is enabled, priced and routed, by id, then the aliases; only those in ``allowed`` if that is given."""
    listed = {model.pk: _listing(model) for model in LanguageModel.objects.with_terms() if _is_listed(model)}
    models = [listing for model_id, listing in listed.items() if allowed is None or model_id in allowed]
    return [*models, *_alias_listings(listed, allowed)]


def _alias_listings(listed: dict[str, Listing], allowed: Collection[str] | None) -> Iterator[Listing]:
    for alias, ids in RoutableAlias.objects.order_by("pk").values_list("pk", "model_ids"):
        meant = next((listed[model_id] for model_id in ids if model_id in listed and listed[model_id].is_available), None)
        if meant and (allowed is None or alias in allowed or meant.model.pk in allowed):
            yield replace(meant, alias=alias)


def listed(model_id: str, allowed: Collection[str] | None = None) -> Listing:
    """The one of ``listings`` that has this id. Raises ModelNotFound."""
    model = _model(model_id) if allowed is None or model_id in allowed else None
    if model is not None and _is_listed(model):
        return _listing(model)
    for stand_in in _meant(model_id):
        if allowed is None or model_id in allowed or stand_in.pk in allowed:
            return replace(_listing(stand_in), alias=model_id)
    raise not_found(model_id)


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
    return provider.can_be_asked and provider.kind in providers.ADAPTERS


def _model(model_id: str) -> LanguageModel | None:
    if "\x00" in model_id:  # no id has one, and PostgreSQL would not even compare with one
        return None
    return LanguageModel.objects.with_terms().filter(pk=model_id).first()


def _is_listed(model: LanguageModel) -> bool:
    return set(obstacles(model)) <= {Obstacle.UNREACHABLE}


def _listing(model: LanguageModel) -> Listing:
    return Listing(model, model.prices_in_force[0], is_available=not why_not_served(model))


def _offer(model: LanguageModel, price: Price) -> Offer:
    return Offer(
        model_id=model.pk,
        context_window=model.context_window,
        max_output_tokens=model.max_output_tokens,
        image_support=model.image_support,
        image_tokens_max=model.image_tokens_max,
        function_calling=model.function_calling,
        price_id=price.pk,
        price=price_list(price),
        routes=tuple(_route(route) for route in model.enabled_routes if is_available(route.provider)),
    )


def _route(route: Route) -> chat.Route:
    provider = route.provider
    return chat.Route(
        id=route.pk,
        provider_slug=provider.pk,
        kind=provider.kind,
        base_url=provider.base_url.rstrip("/"),
        api_key=api_key(provider),
        upstream_model=route.upstream_model,
        deadlines=_deadlines(provider),
        priority=route.priority,
        weight=route.weight,
        rests_until=time.monotonic() + route.rest.total_seconds() if route.rest else 0.0,  # type: ignore[attr-defined]
        drains=provider.drains,
    )


def _deadlines(provider: Provider) -> Deadlines:
    return Deadlines(
        connect_seconds=provider.connect_seconds or settings.UPSTREAM_CONNECT_SECONDS,
        first_byte_seconds=provider.first_byte_seconds or settings.UPSTREAM_FIRST_BYTE_SECONDS,
        idle_seconds=provider.idle_seconds or settings.UPSTREAM_IDLE_SECONDS,
        # Holds expire by the setting: no provider may take longer.
        total_seconds=min(provider.total_seconds or settings.UPSTREAM_TOTAL_SECONDS, settings.UPSTREAM_TOTAL_SECONDS),
    )


def api_key(provider: Provider) -> str:
    """The key that the provider is shown; empty if it has none. Raises secretbox.Unreadable."""
    if provider.sealed_api_key:
        return secretbox.decrypt(provider.sealed_api_key, purpose=f"provider:{provider.pk}")
    return provider.key_in_environment


def price_list(price: Price) -> PriceList:
    def or_input(nanos: int | None) -> int:
        return price.input_nanos if nanos is None else nanos

    return PriceList(
        input_nanos=price.input_nanos,
        output_nanos=price.output_nanos,
        cached_input_nanos=or_input(price.cached_input_nanos),
        cache_write_nanos=or_input(price.cache_write_nanos),
        image_nanos=price.image_nanos or 0,
    )
