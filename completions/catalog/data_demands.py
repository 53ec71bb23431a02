"""Demands about the data of a request, by the request, its key and its account. Only routes that promise all of them serve it.

An unknown fact of a route is no promise. A demand also refuses fields with which a provider would pass content on, or keep
it: no promise is about them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from billing.models import Account, DataPolicy
from completions.chat import ChatRequest, Offer, Promise, ProviderPreferences
from gateway_project import errors
from gateway_project.text import compact_json
from keys.models import ApiKey

_LISTED_MAX = 10  # routes in a message
_FIELDS: dict[str, dict[str, Any]] = {DataPolicy.ZDR: {"zdr": True}, DataPolicy.DENY: {"data_collection": "deny"}}
# Fields with which a provider keeps what it would not keep otherwise, and the values that ask for nothing.
_KEEPING = {"store": (None, False), "prompt_cache_retention": (None, "in_memory", "in-memory")}


class Demand(msgspec.Struct, frozen=True):
    """The demand of a request, a key or an account: a ``DataPolicy``, and one of these regions, unless there are none."""

    source: str
    policy: str
    regions: tuple[str, ...]

    def unmet(self, promise: Promise) -> list[str]:
        """Return the fields of a request's ``provider`` that demand what is not promised."""
        may_train = promise.trains is not False
        kinds = {
            "data_collection": self.policy == DataPolicy.DENY and may_train,
            "zdr": self.policy == DataPolicy.ZDR and (may_train or promise.retention_days != 0),
            "region": bool(self.regions) and promise.region not in self.regions,
        }
        return [name for name, is_unmet in kinds.items() if is_unmet]

    @property
    def fields(self) -> dict[str, Any]:
        """Return it as a request writes it."""
        return {**_FIELDS.get(self.policy, {}), **({"region": list(self.regions)} if self.regions else {})}

    def __str__(self) -> str:
        return f"the {self.source} demands {compact_json.dumps(self.fields).decode()}"


def in_force(
    preferences: ProviderPreferences | None, key: ApiKey | None = None, account: Account | None = None
) -> tuple[Demand, ...]:
    """Return the demands of those that are given. Each completion calls this, and most have none."""
    owners = (("request", preferences), ("key", key), ("account", account))
    demands: tuple[Demand, ...] = ()
    for source, owner in owners:
        if owner is not None and (owner.data_policy or owner.data_regions):
            demands = (*demands, Demand(source, owner.data_policy, tuple(owner.data_regions or ())))
    return demands


def keeps_nothing(demands: Iterable[Demand]) -> bool:
    return any(demand.policy == DataPolicy.ZDR for demand in demands)


def narrow(request: ChatRequest, offers: Sequence[Offer], demands: Sequence[Demand]) -> list[Offer]:
    """Return the offers that have routes which meet the demands, with only these.

    Raises DataDemandUnmet if none has, and InvalidRequest for a field that the demands do not allow.
    """
    _refuse_fields(request, demands)
    narrowed = []
    for offer in offers:
        routes = tuple([route for route in offer.routes if not any(demand.unmet(route.promise) for demand in demands)])
        if routes:
            narrowed.append(offer if routes == offer.routes else replace(offer, routes=routes))
    if not narrowed:
        raise _unmet(offers, demands)
    return narrowed


def _refuse_fields(request: ChatRequest, demands: Sequence[Demand]) -> None:
    """Raise InvalidRequest for fields that let a provider pass content on, as to a search of the web; with zdr also keep it."""
    searches = "web_search_options" if request.fields.get("web_search_options") is not None else request.web_search_at
    if searches:
        raise errors.wrong(searches, f"searches the web, which no provider promises anything about: {demands[0]}")
    for demand in demands:
        for name, values in _KEEPING.items() if demand.policy == DataPolicy.ZDR else ():
            if request.fields.get(name) not in values:
                raise errors.wrong(name, f"has the provider keep something: {demand}")


def _unmet(offers: Sequence[Offer], demands: Sequence[Demand]) -> errors.DataDemandUnmet:
    """Return the refusal, which says what each route does not promise, and who demands it."""
    routes = [(offer.model_id, route) for offer in offers for route in offer.routes]
    missed = [
        {
            "model": model_id,
            "provider": route.provider_slug,
            **({"own_key": True} if route.own_key_id else {}),
            **msgspec.structs.asdict(route.promise),
            "unmet": {demand.source: names for demand in demands if (names := demand.unmet(route.promise))},
        }
        for model_id, route in routes[:_LISTED_MAX]
    ]
    listed = "; ".join(
        f"{each['model']} at {each['provider']}{' with your own key' if 'own_key' in each else ''} lacks "
        + ", ".join(f"{name} of the {source}" for source, names in each["unmet"].items() for name in names)
        for each in missed
    )
    of_request = [each["unmet"].get("request") for each in missed]
    refusal = errors.DataDemandUnmet(
        f"No route meets what is demanded about data: {'; '.join(map(str, demands))}. {listed}.",
        param=f"provider.{of_request[0][0]}" if missed and all(of_request) else "model",
    )
    refusal.demands = tuple(demands)
    refusal.details = {"demands": {demand.source: demand.fields for demand in demands}, "routes": missed}
    return refusal
