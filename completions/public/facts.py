"""The content of the public pages: models, prices and measurements. Shown on while the database is unavailable."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from completions.catalog import lookup
from completions.models import LanguageModel, ModelKind, Price, Provider
from completions.pricing.meters import METERS, Meter
from completions.pricing.rates import STANDARD, place_title
from completions.pricing.usage import Usage
from completions.statistics import measurements
from completions.statistics.measurements import NOTHING, Measured
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from gateway_project.text import dollars

READ_SECONDS = 30
WINDOW = timedelta(hours=24)
SHOWN_FIRST = 5  # of the models, on the landing page
EXAMPLE_PROMPT = "Say hello in three languages."
_ECHO_TOKENS, _TYPICAL_TOKENS = (8, 5), (12, 20)  # of the prompt, and of its reply


@dataclass(frozen=True, eq=False)
class Served:
    """Measurements as pages show them; empty where there are none, or too few."""

    measured: Measured

    @property
    def first_token(self) -> str:
        return _words(self.measured.first_token_p50_ms)

    @property
    def tokens_per_second(self) -> str:
        rate = self.measured.tokens_per_second
        return "" if rate is None else f"{rate:.0f}"

    @property
    def answered_percent(self) -> str:
        """Rounded down, so that 100 says that every request was answered."""
        percent = self.measured.answered_percent
        return "" if percent is None else f"{int(percent * 10) / 10:g} %"


@dataclass(frozen=True, eq=False)
class ListedModel(Served):
    """A model that is enabled and has a price. Those that cannot be called now are not available."""

    model: LanguageModel
    price: Price
    is_available: bool
    routes: list[tuple[Provider, Served, str]]  # in the order in which they are asked: figures, and the promise about data

    @property
    def is_embedding(self) -> bool:
        return self.model.kind == ModelKind.EMBEDDING

    @property
    def abilities(self) -> list[str]:
        """Its abilities beyond text."""
        model = self.model
        given = {"Embeddings": self.is_embedding, "Images": model.image_support}
        given |= {"Tools": model.function_calling, "Reasoning": bool(model.reasoning)}
        return [title for title, has in given.items() if has]

    @property
    def blended_nanos(self) -> int:
        """The price of three input tokens to one output token, as the rankings have it, times four."""
        return 3 * self.price.input_nanos + self.price.output_nanos

    @property
    def meters(self) -> list[Meter]:
        stated = {rate.meter for rate in self.price.sheet} - ({"output"} if self.is_embedding else set())
        return [meter for meter in METERS if meter.name in stated]

    @property
    def prices(self) -> list[tuple[str, list[tuple[Meter, str, bool]]]]:
        """By service tier and length of the prompt: of each of ``meters`` its price, and whether this place states it.

        Without a price of its own a meter costs what holds there; it has none where it is refused.
        """
        sheet = self.price.sheet
        return [
            (place_title(*place) or "Standard", [self._rate(meter, *place) for meter in self.meters]) for place in sheet.places
        ]

    def _rate(self, meter: Meter, tier: str, above: int) -> tuple[Meter, str, bool]:
        sheet = self.price.sheet
        is_refused = meter.is_asked_for and not sheet.offers(meter.name, tier)
        price = "" if is_refused else dollars.format_usd(sheet.nanos_of(meter.name, tier, above))
        return meter, price, sheet.stated(meter.name, tier, above) is not None

    @property
    def long_prompts(self) -> str:
        """The input price of long prompts, and from how many tokens on it holds; empty if there is none."""
        sheet = self.price.sheet
        bands = sheet.bands(STANDARD)
        return f"{dollars.format_usd(sheet.nanos_of('input', STANDARD, bands[0]))} above {bands[0]:,}" if bands else ""

    @property
    def input_price(self) -> str:
        return dollars.format_usd(self.price.input_nanos)

    @property
    def output_price(self) -> str:
        """Empty for embeddings, which are no tokens of a model."""
        return "" if self.is_embedding else dollars.format_usd(self.price.output_nanos)

    @property
    def prices_in_short(self) -> str:
        return f"{self.input_price} in, {self.output_price} out" if self.output_price else self.input_price

    @property
    def cached_price(self) -> str:
        cached_nanos = self.price.sheet.stated("cached_input")
        return "" if cached_nanos is None else dollars.format_usd(cached_nanos)


@dataclass(frozen=True, eq=False)
class Facts:
    """All listed models by id, and how many providers their routes lead to."""

    models: dict[str, ListedModel]
    providers: int
    first_token: str

    @property
    def available(self) -> list[ListedModel]:
        return [each for each in self.models.values() if each.is_available]

    @property
    def makers(self) -> list[tuple[str, int]]:
        """How many listed models each maker has, the most first."""
        return Counter(each.model.maker for each in self.models.values() if each.model.maker).most_common()

    @property
    def exchange(self) -> dict[str, Any] | None:
        """EXAMPLE_PROMPT with its exact cost at the example's model. Of the echo the reply is known, too."""
        if (listed := self.models.get(self.example)) is None:
            return None
        usage = Usage(*(_ECHO_TOKENS if listed.model.is_echo else _TYPICAL_TOKENS))
        cost = dollars.format_usd(listed.price.sheet.cost_nanos(usage))
        return {"listed": listed, "usage": usage, "cost": cost, "prompt": EXAMPLE_PROMPT}

    @property
    def most_used(self) -> list[ListedModel]:
        """SHOWN_FIRST available models that chat: those that answered most in WINDOW, then one of each maker, then others."""
        among = self.available or self.models.values()
        chats = sorted((each for each in among if not each.is_embedding), key=_use)
        makers = {each.model.maker: each for each in reversed(chats)}
        return sorted(chats, key=lambda each: (*_use(each)[:2], makers[each.model.maker] is not each))[:SHOWN_FIRST]

    def like(self, listed: ListedModel) -> list[ListedModel]:
        """Return the others of its kind, the nearest in price first, before those that cannot be called."""
        others = [each for each in self.models.values() if each is not listed and each.is_embedding is listed.is_embedding]
        price = math.log1p(listed.blended_nanos)
        return sorted(others, key=lambda each: (not each.is_available, abs(math.log1p(each.blended_nanos) - price)))

    @property
    def example(self) -> str:
        """The id of a model for an example of a chat: one that can be called, if there is one."""
        return self._first(lambda each: not each.is_embedding) or "provider/model"

    @property
    def tools_example(self) -> str:
        """The same for an example of a chat with tools."""
        return self._first(lambda each: not each.is_embedding and each.model.function_calling) or self.example

    @property
    def embedding_example(self) -> str:
        """The same for an example of embeddings."""
        return self._first(lambda each: each.is_embedding) or "provider/embedding-model"

    def _first(self, condition: Callable[[ListedModel], bool]) -> str:
        listed = [*sorted(self.available, key=_use), *self.models.values()]
        return next((each.model.pk for each in listed if condition(each)), "")


_facts: StaleWhileRefresh[None, Facts] = StaleWhileRefresh(seconds=READ_SECONDS, stale_on=pool.DATABASE_ERRORS)


def current() -> Facts:
    """Return what was read last. Raises the database's errors only while nothing was ever read."""
    return _facts.get(None, _read)


def forget() -> None:
    """Read everything again on the next call."""
    _facts.clear()


def _read(previous: Facts | None) -> Facts:
    with pool.time_limit():
        listings = [each for each in lookup.list_models() if not each.alias]
        since = pool.database_time() - WINDOW
        measured, at_routes = measurements.measure_models(since), measurements.measure_routes(since)
    models = {
        each.model.pk: ListedModel(
            measured.get(each.model.pk, NOTHING), each.model, each.price, each.is_available, _routes(each.model, at_routes)
        )
        for each in listings
    }
    providers = {provider.pk for each in models.values() for provider, *_ in each.routes}
    return Facts(models, len(providers), _words(measured[None].first_token_p50_ms))


def _routes(model: LanguageModel, measured: dict[measurements.Route, Measured]) -> list[tuple[Provider, Served, str]]:
    """Return the providers of the enabled routes. The first route to each says what is promised."""
    first: dict[Provider, str] = {}
    for route in sorted(model.enabled_routes, key=lambda each: each.priority):
        first.setdefault(route.provider, str(route.promise))
    served = [(each, promise) for each, promise in first.items() if each.is_enabled]
    return [(each, Served(measured.get((each.pk, model.pk), NOTHING)), promise) for each, promise in served]


def _use(each: ListedModel) -> tuple[bool, int, str]:
    return not each.is_available, -each.measured.answered, each.model.name.casefold()


def _words(milliseconds: int | None) -> str:
    return "" if milliseconds is None else measurements.format_seconds(milliseconds)
