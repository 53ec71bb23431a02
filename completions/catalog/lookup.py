"""Looks up what is offered under a model id, with a short cache, and lists the models that callers see."""

import logging
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

import gevent
from django.conf import settings

from completions import chat, models, providers
from completions.chat import Candidate, Offer, ProviderPreferences
from completions.providers import model_rules
from completions.providers.access import endpoints, keeper
from gateway_project import errors
from gateway_project.cache import StaleWhileRefresh, TTLCache
from gateway_project.db import pool, repetition
from gateway_project.db.group_commit import GroupCommit
from gateway_project.net.http import Deadlines
from keys.authentication import Caller, read_key

logger = logging.getLogger("gateway.catalog")

PROBE_SECONDS = 5  # after a provider refused its key, until it is asked again


@dataclass(frozen=True)
class Listing:
    """A model as /v1/models shows it: with its price in force, and whether it is available now."""

    model: models.LanguageModel
    price: models.Price
    is_available: bool
    alias: str = ""  # the id it is listed under, if that is an alias

    @property
    def id(self) -> str:
        return self.alias or self.model.pk


_offers: StaleWhileRefresh[str, Offer] = StaleWhileRefresh(seconds=settings.CATALOG_CACHE_SECONDS, entries_max=10_000)


class _Absence(Enum):
    """Why nothing is offered under an id."""

    UNKNOWN = auto()
    HIDDEN = auto()  # the model is disabled, or has no price: who cannot know of it is not told that it exists
    UNSERVED = auto()


Found = Offer | _Absence


def find_offer(model_id: str, param: str = "model", caller: Caller | None = None) -> Offer:
    """Return what is offered under a model id or an alias. Raises ModelNotFound, which names ``param``.

    ``caller`` is told why, as far as the models of its key allow. Offers are cached for CATALOG_CACHE_SECONDS: while one
    request reads an expired offer anew, the others use the stale one.
    """
    if offer := _offers.fresh(model_id):
        return offer
    found = _look_ups.submit(model_id)
    if isinstance(found, Offer):
        return found
    raise _not_found(model_id, found, read_key(caller).allowed_models if caller else None, param)


def _not_found(model_id: str, absence: _Absence, allowed: Collection[str] | None, param: str = "model") -> errors.ModelNotFound:
    """Return the refusal by its cause, as far as a key that may use the ``allowed`` models may know it."""
    is_named = model_id in (allowed or ())
    if absence is _Absence.UNKNOWN:
        order, _, board = model_id.partition("@")[0].partition("/")
        reason = _UNRANKED.get(order, "") if board.upper() in models.Category.values and board.islower() else ""
        return model_not_found(model_id, errors.ModelNotRanked if reason else errors.ModelUnknown, param, reason)
    if absence is _Absence.HIDDEN:
        return model_not_found(model_id, errors.ModelNotOffered if is_named else errors.ModelUnknown, param)
    is_barred = bool(allowed) and not is_named
    return model_not_found(model_id, errors.ModelNotAllowed if is_barred else errors.ModelNotServed, param)


def model_not_found(
    model_id: str, cause: type[errors.ModelNotFound], param: str = "model", reason: str = ""
) -> errors.ModelNotFound:
    """Return the refusal of a model, or of a fallback, whose message begins with its field."""
    named = "The model" if param == "model" else f"{param}: the model"
    return cause(f"{named} {model_id!r} {cause.told} {reason}".rstrip(), param=param)


# By the first part of the ids that the rankings write: why such an id may stand for no model.
_UNRANKED = {
    "best": "No model that can be called is ranked there with enough evidence of its quality.",
    "fastest": "No model that can be called is ranked there with a measured speed.",
    "cheapest": "No model that can be called is ranked there.",
}


def require_known_providers(preferences: ProviderPreferences) -> None:
    """Raises InvalidRequest, which names the first item that is no provider of the gateway."""
    known = _slugs.get("") or _read_slugs()
    for name, slugs in (("order", preferences.order), ("only", preferences.only), ("ignore", preferences.ignore)):
        for index, slug in enumerate(slugs):
            if slug not in known:
                raise errors.wrong(f"provider.{name}[{index}]", "names no provider of the gateway")


_slugs: TTLCache[str, frozenset[str]] = TTLCache(seconds=settings.CATALOG_CACHE_SECONDS, entries_max=1)  # under one key


def _read_slugs() -> frozenset[str]:
    slugs = pool.read(lambda: frozenset(models.Provider.objects.values_list("pk", flat=True)))
    pool.release_connection()
    _slugs.put("", slugs)
    return slugs


def _look_up(model_ids: list[str], is_rerun: bool) -> list[Found | Exception]:
    """Read each model once for all requests that wait at the same time, as they do right after the start."""
    try:
        found = pool.read(lambda: {model_id: _read_offer(model_id) for model_id in set(model_ids)})
    except pool.UNAVAILABLE as error:
        return [error] * len(model_ids)  # reading each model alone would fail too, only later
    finally:
        pool.release_connection()
    for model_id, offer in found.items():
        if isinstance(offer, Offer):
            _offers.put(model_id, offer)
        else:
            _offers.discard(model_id)
    return [found[model_id] for model_id in model_ids]


def _read_offer(model_id: str) -> Found:
    model = _read_model(model_id)
    if model is not None:
        _report_unreadable_keys(model)
    if model is not None and _is_offered(model):
        return _offer(model, model.prices_in_force[0])
    return _read_alias_offer(model_id) or _absence(model)


def _absence(model: models.LanguageModel | None) -> _Absence:
    """Return why a model that is not offered is not."""
    if model is None:
        return _Absence.UNKNOWN
    return _Absence.UNSERVED if _is_listed(model) else _Absence.HIDDEN


def _read_alias_offer(alias: str) -> Offer | None:
    """Return the offer of the first model of the alias that is available, or else may be soon: then its callers try again."""
    row = _read_alias(alias)
    ranked = _alias_models(row)
    targets = [model for model in ranked if model.is_available] or [model for model in ranked if _is_offered(model)]
    if row is None or not targets:
        return None
    qualities = dict(zip(row.model_ids, row.qualities, strict=False))
    candidates = tuple(Candidate(model.pk, model.prices_in_force[0].sheet, qualities.get(model.pk)) for model in targets)
    first = _offer(targets[0], targets[0].prices_in_force[0])
    ranking = row.pk if "@" in row.pk or not row.ranked_on else f"{row.pk}@{row.ranked_on}"
    return replace(first, alias=alias, ranking=ranking, candidates=candidates)


_reported: TTLCache[str, bool] = TTLCache(seconds=60, entries_max=1_000)  # providers, so that each is logged once per minute


def _report_unreadable_keys(model: models.LanguageModel) -> None:
    """Log the providers that nothing is sent to because their stored keys cannot be decrypted."""
    for provider in {route.provider for route in model.enabled_routes}:
        if not (provider.is_key_readable or _reported.get(provider.pk)):
            _reported.put(provider.pk, True)
            message = "the key of provider %s cannot be read with GATEWAY_ENCRYPTION_KEYS: it is not used"
            logger.error(message, provider.pk, extra={"provider": provider.pk})


_look_ups: GroupCommit[str, Found] = GroupCommit(_look_up)


def _read_alias(alias: str) -> models.RoutableAlias | None:
    return models.RoutableAlias.objects.filter(pk=alias).first() if "\x00" not in alias else None


def _alias_models(row: models.RoutableAlias | None) -> list[models.LanguageModel]:
    """The models that an alias stands for, the best first."""
    ids = row.model_ids if row else []
    found = models.LanguageModel.objects.with_price_and_routes().in_bulk(ids)
    return [found[model_id] for model_id in ids if model_id in found]


def list_models(allowed: Collection[str] | None = None, *, available: bool | None = None) -> list[Listing]:
    """Return what is enabled and priced, by id, then aliases: of ``allowed`` ids, or those that can (not) be called now."""
    every_model = models.LanguageModel.objects.with_price_and_routes()
    listed = {model.pk: _listing(model) for model in every_model if _is_listed(model)}
    named = [listing for model_id, listing in listed.items() if allowed is None or model_id in allowed]
    found = [*named, *_alias_listings(listed, allowed)]
    return found if available is None else [listing for listing in found if listing.is_available is available]


def _alias_listings(listed: dict[str, Listing], allowed: Collection[str] | None) -> Iterator[Listing]:
    current = models.RoutableAlias.objects.exclude(pk__contains="@").order_by("pk")
    for alias, ids in current.values_list("pk", "model_ids"):
        target = next((listed[model_id] for model_id in ids if model_id in listed and listed[model_id].is_available), None)
        if target and (allowed is None or alias in allowed or target.model.pk in allowed):
            yield replace(target, alias=alias)


def find_listing(model_id: str, allowed: Collection[str] | None = None) -> Listing:
    """Return the element of ``list_models`` that has this id. Raises ModelNotFound."""
    model = _read_model(model_id)
    if model is not None and _is_listed(model) and (allowed is None or model_id in allowed):
        return _listing(model)
    for target in _alias_models(_read_alias(model_id)):
        if target.is_available and (allowed is None or model_id in allowed or target.pk in allowed):
            return replace(_listing(target), alias=model_id)
    raise _not_found(model_id, _absence(model), allowed)


def incomplete_models(among: models.LanguageModelQuerySet) -> Iterator[tuple[models.LanguageModel, models.Obstacle]]:
    """Yield, by id, the enabled ones of these models that lack a price or a route, each with what it lacks."""
    for model in among.filter(is_enabled=True).with_price_and_routes():
        for obstacle in model.obstacles():
            if obstacle is not models.Obstacle.UNREACHABLE:
                yield model, obstacle


def _is_offered(model: models.LanguageModel) -> bool:
    """Whether the model is available, or would be if a provider accepted its key again."""
    return model.is_available or (_is_listed(model) and any(route.provider.is_configured for route in model.enabled_routes))


def fetch_credentials_at_start() -> None:
    """Fetch the credentials of clouds as a worker starts: a library takes half a second of the process when it is loaded."""
    gevent.spawn(repetition.attempt, _fetch_credentials, logger=logger, failure="cannot fetch credentials at the start")


def _fetch_credentials() -> None:
    for provider in models.Provider.objects.filter(is_enabled=True).exclude(access={}):
        auth = provider.access.get("auth", {})
        if provider.is_configured and endpoints.is_fetched(auth, key := provider.read_api_key()):
            keeper.keep(provider.pk, auth, key).begin()


def _read_model(model_id: str) -> models.LanguageModel | None:
    if "\x00" in model_id:  # no id contains one, and PostgreSQL rejects a comparison with one
        return None
    return models.LanguageModel.objects.with_price_and_routes().filter(pk=model_id).first()


def _is_listed(model: models.LanguageModel) -> bool:
    """Whether the model is shown: also while nothing serves it, then as not available. The rankings list the same models."""
    return set(model.obstacles()) <= {models.Obstacle.UNROUTED, models.Obstacle.UNREACHABLE}


def _listing(model: models.LanguageModel) -> Listing:
    return Listing(model, model.prices_in_force[0], is_available=model.is_available)


def _offer(model: models.LanguageModel, price: models.Price) -> Offer:
    return offer_of(model, price, [route for route in model.enabled_routes if route.provider.is_configured])


def offer_of(model: models.LanguageModel, price: models.Price, offered: Iterable[models.Route]) -> Offer:
    """Return what is offered of a model by some routes. Raises secretbox.Unreadable."""
    routes = tuple(map(_route, offered))
    return Offer(
        model_id=model.pk,
        context_window=model.context_window,
        max_output_tokens=model.max_output_tokens,
        image_support=model.image_support,
        image_tokens_max=model.image_tokens_max,
        function_calling=model.function_calling,
        price_id=price.pk,
        price=price.sheet,
        routes=routes,
        preamble_tokens_max=max((providers.ADAPTERS[route.kind].preamble_tokens_max for route in routes), default=0),
        reasoning=model.reasoning,
        requests_in_flight_max=model.requests_in_flight_max,
        is_embedding=model.kind == models.ModelKind.EMBEDDING,
    )


def _route(route: models.Route) -> chat.Route:
    provider, adapter = route.provider, providers.ADAPTERS[route.adapter]
    base_url, api_key = provider.base_url.rstrip("/"), provider.read_api_key()
    # Both are of ``with_price_and_routes``.
    open_time, refused_time = getattr(route, "open_time", None), getattr(route, "refused_time", None)
    return chat.Route(
        id=route.pk,
        provider_slug=provider.pk,
        kind=route.adapter,
        base_url=base_url,
        api_key=api_key,
        upstream_model=route.upstream_model,
        deadlines=Deadlines(
            connect_seconds=provider.connect_seconds or settings.UPSTREAM_CONNECT_SECONDS,
            first_byte_seconds=provider.first_byte_seconds or settings.UPSTREAM_FIRST_BYTE_SECONDS,
            idle_seconds=provider.idle_seconds or settings.UPSTREAM_IDLE_SECONDS,
            # Holds expire after the time that the setting allows, so no provider may take longer.
            total_seconds=min(provider.total_seconds or settings.UPSTREAM_TOTAL_SECONDS, settings.UPSTREAM_TOTAL_SECONDS),
        ),
        priority=route.priority,
        weight=route.weight,
        hinted_until=time.monotonic() + open_time.total_seconds() if open_time else 0.0,
        key_fingerprint=provider.key_fingerprint,
        passes_unknown_fields=provider.passes_unknown_fields,
        is_key_refused=provider.is_key_refused,
        probed_from=time.monotonic() + PROBE_SECONDS - refused_time.total_seconds() if refused_time else 0.0,
        cancels=provider.cancels,
        promise=route.promise,
        rules=model_rules.of_route(route.adapter, provider.base_url, route.upstream_model, route.rules),
        target=adapter.target(provider.pk, base_url, api_key, provider.access, route.upstream_model),
        takes_own_keys=provider.takes_own_keys,
    )
