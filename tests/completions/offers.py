"""Offers and calls for tests that need no database."""

from typing import Any

from completions.chat import Call, ChatRequest, Offer, Route
from completions.pricing import rates
from completions.pricing.rates import Rate, RateSheet
from completions.providers import ADAPTERS, model_rules
from gateway_project.net.http import Deadlines


def make_offer(kind: str = "openai", upstream_model: str = "m", price: RateSheet | None = None, **fields: Any) -> Offer:
    base_url = fields.pop("base_url", "http://127.0.0.1:9")
    rules = model_rules.of_route(kind, base_url, upstream_model, fields.pop("rules", None))
    target = ADAPTERS[kind].target(kind, base_url, "k", fields.pop("access", {}), upstream_model)
    route = Route(1, kind, kind, base_url, "k", upstream_model, Deadlines(5, 120, 120, 900), rules=rules, target=target)
    defaults = {"context_window": 10**9, "max_output_tokens": 4_096, "image_support": True, "image_tokens_max": 6_000}
    return Offer(
        model_id="acme/m",
        function_calling=True,
        price_id=1,
        price=price or sheet_of(input=1, output=1),
        routes=(route,),
        **{**defaults, **fields},
    )


def make_call(request: ChatRequest, offer: Offer, max_tokens: int) -> Call:
    return Call(request, offer, offer.routes[0], max_tokens)


def sheet_of(**nanos: int) -> RateSheet:
    """Return a price with these rates, in nanodollars by their names."""
    return RateSheet(Rate(*rates.parse_name(name), each) for name, each in nanos.items())
