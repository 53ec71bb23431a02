"""Accounts' own keys of providers at admission: read under the lock of the account, so that a removed one serves nothing more.

An offer that an own key serves is admitted as two: the first asks with the own key, and charges the fee alone; the second asks
with ours, at the full price, if the owner allows that. So a hold covers the dearer of both, as with any fallback.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings

from billing import money
from billing.models import Account
from completions.chat import Offer, Route
from completions.models import OwnKey
from completions.providers.access.given import GivenKey
from gateway_project.db import pipelined_transaction
from gateway_project.db.pipelined_transaction import Statement

OfAccounts = dict[UUID, dict[str, OwnKey]]  # by account, then by provider
_SELECT = """
    SELECT row_to_json(own) FROM completions_ownkey AS own
    WHERE account_id = ANY (ARRAY(SELECT json_array_elements_text($1::json))::uuid[])
"""


def of_accounts(accounts: Iterable[Account], read: Callable[[Statement], list[Any]]) -> OfAccounts:
    """Return the own keys of those accounts that have some. Without any of these, nothing is read."""
    ids = [account.pk for account in accounts if account.has_own_keys]
    if not ids:
        return {}
    found: OfAccounts = {account_id: {} for account_id in ids}
    for key in pipelined_transaction.instances(OwnKey, read(Statement(_SELECT, ids))).values():
        found[key.account_id][key.provider_id] = key
    return found


def divided(offers: Sequence[Offer], keys: Mapping[str, OwnKey], *, asks_one_provider: bool) -> tuple[Offer, ...]:
    """Return the offers as own keys serve them. Behind one whose failure must not be paid for, no other is asked with ours."""
    found, may_pay = list[Offer](), True
    for offer in offers:
        served = [
            (route, key) for route in offer.routes if (key := keys.get(route.provider_slug)) and key.serves(offer.model_id)
        ]
        if served:
            fee = settings.OWN_KEY_FEE_BASIS_POINTS
            routes = tuple([_shows(route, key) for route, key in served])
            found.append(replace(offer, routes=routes, price=offer.price.share(fee), own_key_fee=fee))
            may_pay = may_pay and not asks_one_provider and all(key.falls_back for _, key in served)
        if may_pay:
            found.append(offer)
    return tuple(found)


def count_price(offers: Sequence[Offer]) -> bool:
    return any(route.counts_price for offer in offers for route in offer.routes)


def counted(offer: Offer) -> Offer:
    """Return the offer at what limits and budgets count: the fee, and the provider's price where a key says so."""
    if offer.own_key_fee is None or not count_price([offer]):
        return offer
    return replace(offer, price=offer.price.share(money.WHOLE + offer.own_key_fee))


def _shows(route: Route, key: OwnKey) -> Route:
    """Return the route with the own key instead of ours, and with nothing that is known of the route with ours."""
    target = route.target
    ours = target.show_key("") if target.show_key else {}
    headers = {name: value for name, value in target.headers.items() if name not in ours}
    opened = partial(key.read_secret, route.base_url) if route.takes_own_keys else None
    return replace(
        route,
        id=-route.id,
        api_key="",
        key_fingerprint="",
        is_key_refused=False,
        hinted_until=0.0,
        promise=key.promise(route.promise.region),  # by its contract, not ours
        target=replace(target, headers=headers, credential=GivenKey(opened, target.show_key)),
        own_key_id=str(key.pk),
        counts_price=key.counts_price,
        metrics_label=f"own:{route.provider_slug}",
    )
