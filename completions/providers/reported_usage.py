"""Usage as providers report it: how they spell it, what is inside of what, and the ``Usage`` that it makes.

Every spelling is read from every host. ``HOSTS`` says what the counts of a host mean; of a host that it does not name, a count
is read in the way in which nothing is free and nothing is counted twice.
"""

from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import structs

from billing import money
from completions.chat import Call, ResponseHead
from completions.pricing.meters import METERS, OTHERS
from completions.pricing.rates import RateSheet
from completions.pricing.usage import Usage
from completions.providers import served_tiers, wire
from completions.request.fields import Fields
from gateway_project import metrics
from gateway_project.text import web_addresses

# Each count -> where it stands in a usage object. Of several spellings, the first that is not 0 is read.
_COUNTS = {
    "prompt": ("prompt_tokens", "input_tokens", "promptTokenCount"),
    "generated": ("completion_tokens", "output_tokens", "candidatesTokenCount"),
    "total": ("total_tokens", "totalTokenCount"),
    "read of tools": ("toolUsePromptTokenCount",),
    "cached": (
        *("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", "cached_tokens"),
        *("prompt_cache_hit_tokens", "cachedContentTokenCount", "cache_read_input_tokens"),
    ),
    "not cached": ("prompt_cache_miss_tokens",),
    "written to the cache": (
        *("prompt_tokens_details.cache_write_tokens", "input_tokens_details.cache_write_tokens"),
        *("prompt_tokens_details.cache_creation_input_tokens", "prompt_tokens_details.cache_creation_tokens"),
        *("cache_creation_input_tokens", "prompt_cache_write_tokens"),
    ),
    "written for five minutes": ("cache_creation.ephemeral_5m_input_tokens",),
    "written for an hour": ("cache_creation.ephemeral_1h_input_tokens",),
    "reasoning": (
        *("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"),
        *("output_tokens_details.thinking_tokens", "reasoning_tokens", "thoughtsTokenCount"),
    ),
    "searches": ("server_tool_use.web_search_requests",),
    **{meter.count: meter.spellings for meter in OTHERS},
}
SPELLINGS = {path: count for count, paths in _COUNTS.items() for path in paths}
# Where one of these is no number of tokens, the usage is none. The others are parts of these, and then 0.
_ANTHROPICS = {"cache_read_input_tokens", "cache_creation_input_tokens"}
_ESSENTIAL = {*_ANTHROPICS, *_COUNTS["prompt"], *_COUNTS["generated"], *_COUNTS["read of tools"], "thoughtsTokenCount"}
_TOTALS = _COUNTS["total"]
_IMPOSSIBLE = -1
_NO_RATES = RateSheet(())


class Place(Enum):
    """Where reasoning is to what counts as generated, or cached tokens to the prompt. The value is for the documentation."""

    INSIDE = "inside"
    BESIDE = "beside"
    BY_TOTAL = "as the total says; else inside"
    UNTOLD = "in the total alone"


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The meaning of the counts of a host. ``cached`` is where the tokens are that were read from a cache, or written to it.

    ``leaves_out_zeros``: what is missing beside the prompt is 0. ``tiers``: its words for service tiers. ``counts`` and
    ``source`` are for the documentation.
    """

    counts: str
    source: str
    cached: Place = Place.INSIDE
    reasoning: Place = Place.INSIDE
    leaves_out_zeros: bool = False
    tiers: dict[str, served_tiers.Words] = field(default_factory=lambda: served_tiers.WORDS)


_AS_OPENAI = "`prompt_tokens_details.cached_tokens`, `completion_tokens_details.reasoning_tokens`"
_OPENAI = Reading(_AS_OPENAI, "https://platform.openai.com/docs/api-reference/chat/object")
_KIMI = Reading(
    "`cached_tokens`; in streams of some models the usage is in `choices[0]` alone",
    "https://platform.kimi.ai/docs/api/chat, https://github.com/earendil-works/pi/issues/2017",
)
_MINIMAX = Reading("`cached_tokens`", "https://github.com/promptfoo/promptfoo/pull/10132")

# The counts of servers whose address says nothing: vLLM, SGLang, llama.cpp, LM Studio, LiteLLM, and all proxies.
UNKNOWN = Reading("any of the names below", "", cached=Place.BY_TOTAL, reasoning=Place.BY_TOTAL)
# Of the two formats whose counts are the same at each server that speaks them.
MESSAGES = Reading(
    "`cache_read_input_tokens`, `cache_creation_input_tokens`; the deltas of a stream repeat totals, at relays with zeros",
    "https://docs.claude.com/en/docs/build-with-claude/prompt-caching, https://github.com/envoyproxy/ai-gateway/issues/2290",
    cached=Place.BESIDE,
    tiers=served_tiers.WORDS_OF_MESSAGES,
)
GEMINI = Reading(
    "`cachedContentTokenCount`, `thoughtsTokenCount`, `toolUsePromptTokenCount` beside the prompt; totals in each event of a"
    " stream, of which any may be missing",
    "https://ai.google.dev/api/generate-content#UsageMetadata, https://github.com/BerriAI/litellm/pull/10141",
    reasoning=Place.BESIDE,
    leaves_out_zeros=True,
)

# By the host of ``base_url``, or a domain that it is in, of what speaks OpenAI's chat completions, Responses or embeddings.
HOSTS = {
    **dict.fromkeys(("api.openai.com", "openai.azure.com", "api.mistral.ai", "api.meta.ai", "api.z.ai"), _OPENAI),
    **dict.fromkeys(("open.bigmodel.cn", "api.together.ai", "openrouter.ai"), _OPENAI),
    **dict.fromkeys(("api.moonshot.ai", "api.moonshot.cn"), _KIMI),
    **dict.fromkeys(("api.minimax.io", "api.minimaxi.com"), _MINIMAX),
    "api.deepseek.com": Reading(
        "`prompt_cache_hit_tokens` and `prompt_cache_miss_tokens`, whose sum is the prompt",
        "https://api-docs.deepseek.com/guides/kv_cache, https://github.com/promptfoo/promptfoo/pull/10831",
    ),
    "aliyuncs.com": Reading(
        "as OpenAI, and `prompt_tokens_details.cache_creation_input_tokens`",
        "https://github.com/nextlevelbuilder/goclaw/pull/1127",
    ),
    "api.groq.com": Reading(
        f"{_AS_OPENAI}; in older streams in `x_groq.usage`",
        "https://console.groq.com/docs/api-reference, https://github.com/vercel/ai/issues/1651",
    ),
    "api.x.ai": Reading(
        "as OpenAI; `completion_tokens` is the visible text",
        "https://docs.x.ai/docs/key-information/consumption-and-rate-limits, https://github.com/vercel/ai/pull/12425",
        reasoning=Place.BESIDE,
    ),
    "services.ai.azure.com": Reading(
        "as OpenAI; of Grok as xAI", "https://github.com/BerriAI/litellm/pull/39426", reasoning=Place.BY_TOTAL
    ),
    "googleapis.com": Reading(
        "no details; running totals in each event of a stream", "https://discuss.ai.google.dev/t/127400", reasoning=Place.UNTOLD
    ),
}


def of(call: Call, spoken: Reading | None = None) -> "Report":
    """Return a report of nothing yet. ``spoken`` is what the counts mean at all servers of a format; else the host says it."""
    route, request = call.route, call.request
    reading = spoken or _of_host(route.base_url)
    return Report(
        reading, route.metrics_label or route.provider_slug, request.web_searches_max, call.offer.price, request.tier, call.head
    )


@lru_cache(maxsize=1_024)
def _of_host(base_url: str) -> Reading:
    return next((HOSTS[domain] for domain in web_addresses.domains(base_url) if domain in HOSTS), UNKNOWN)


class Report(msgspec.Struct):
    """The report so far on one reply: the last value of each count, by where it stands.

    A null is no news, and neither is a 0 after a positive number. A report that contradicts itself is counted, once. ``tier``
    is the service tier to charge: as the reply says, else as it was asked for.
    """

    reading: Reading = UNKNOWN
    provider: str = ""  # for the metrics
    searches_max: int = 0  # that were asked for
    price: RateSheet = _NO_RATES
    tier: str = ""
    head: ResponseHead | None = None  # is told the tier, for a reply without usage
    tier_words: dict[str, str] = {}  # by their places
    counts: dict[str, int] = {}
    others: dict[Any, "Report"] = {}  # of the choices after the first, where each has its own
    is_of_all: bool = False  # the counts are of the whole reply, not of its first choice
    is_total_apart: bool = False  # the latest total came without what it should be the sum of
    is_contradictory: bool = False
    results: int = 0  # of searches
    failures: int = 0  # of searches
    is_number_of_searches_final: bool = True
    unpaid_searches: int = 0

    def read(self, reply: Fields) -> Usage | None:
        """Return the usage after a chat completion, or an event of one; None where that says nothing of it."""
        given, groq, is_news = reply.get("usage"), reply.get("x_groq"), False
        if (word := reply.get("service_tier")) and word != self.tier_words.get("service_tier"):
            self.note_tier("service_tier", word)
        if not self.is_of_all:
            for place, choice in enumerate(reply.get("choices") or ()):
                if of_choice := choice.get("usage"):
                    index = choice.get("index", place)
                    report = self.others.setdefault(str(index), Report(self.reading, self.provider)) if index else self
                    report.note(of_choice)
                    is_news = True
        for each in (groq.get("usage") if isinstance(groq, dict) else None, given):
            if each:
                self.is_of_all = self.note(each) or self.is_of_all
                is_news = True
        return self.usage() if is_news else None

    def add(self, given: Any) -> Usage | None:
        """Return the usage after a usage object; None where that is none."""
        self.note(given)
        return self.usage() if isinstance(given, dict) else None

    def note(self, given: Any) -> bool:
        """Take note of a usage object. Return whether it has a count above 0."""
        if not isinstance(given, dict):
            return False
        counts, seen, has_changed = self.counts, set[str](), False
        for path, value in _flat(given) if dict in map(type, given.values()) else given.items():
            if value is None or path not in SPELLINGS:
                if value and path in self.reading.tiers:
                    self.note_tier(path, value)
                continue
            number = value if type(value) is int and 0 <= value <= wire.TOKENS_MAX else wire.token_count(value)
            known = counts.get(path, _IMPOSSIBLE)
            if number:
                has_changed = has_changed or _IMPOSSIBLE != known != number
                seen.add(SPELLINGS[path])
            elif known != _IMPOSSIBLE or number is None and path not in _ESSENTIAL:
                continue
            counts[path] = _IMPOSSIBLE if number is None else number
        if "total" in seen:
            self.is_total_apart = not {"generated", "reasoning"} <= seen
        elif has_changed:  # the total that is known is of earlier counts
            counts.update(dict.fromkeys(_TOTALS, 0))
        return bool(seen)

    def note_tier(self, place: str, word: Any) -> None:
        """Take note of the provider's word for the service tier that served: the last one at each place that says anything."""
        word = word.get("traffic_type") if isinstance(word, dict) else word
        if not isinstance(word, str) or word == self.tier_words.get(place):
            return
        if self.reading.tiers[place].get(word.lower(), served_tiers.UNKNOWN) is served_tiers.UNTOLD:
            return
        self.tier_words[place] = word
        self.tier, unrated = served_tiers.read(self.tier_words, self.reading.tiers, self.price.tiers)
        if self.head:
            self.head.served_tier, self.head.unrated_tier = self.tier, unrated

    def tokens_of_inputs(self, given: Any) -> int | None:
        """Return the tokens of the inputs of embeddings. Some servers report their sum only."""
        self.note(given)
        found = self._found()
        prompt, total = found.get("prompt", _IMPOSSIBLE), found.get("total", _IMPOSSIBLE)
        if min(prompt, total) > 0 and prompt != total:
            self._count_contradiction()
        return None if max(prompt, total) < 0 else max(prompt, total)

    def usage(self) -> Usage | None:
        """Return the usage so far; None as long as a count is missing or impossible. Zero is possible."""
        found = self._found()
        usage = None if _IMPOSSIBLE in found.values() else self._interpreted(found)
        if self.others and not self.is_of_all:
            for other in self.others.values():
                usage = _together(usage, other.usage())
            usage = usage and structs.replace(usage, tier=self.tier)
        return usage

    def _found(self) -> dict[str, int]:
        """Return the numbers by what they count."""
        found: dict[str, int] = {}
        for path, count in SPELLINGS.items():
            if path in self.counts:
                number, other = self.counts[path], found.get(count, _IMPOSSIBLE)
                if other <= 0:
                    found[count] = number if number > other else other
                elif 0 < number != other:
                    self._count_contradiction()
        return found

    def _interpreted(self, found: dict[str, int]) -> Usage | None:
        """Return what the numbers mean; None where one is missing that no other one tells."""
        get = found.get
        prompt, stated, total, reasoning = get("prompt"), get("generated"), get("total", 0), get("reasoning", 0)
        if not prompt or stated is None:
            prompt, stated = self._completed(found)
            if prompt is None or stated is None:
                return None
        prompt += get("read of tools", 0)
        cached, kept_1h = get("cached", 0), get("written for an hour", 0)
        written = get("written to the cache", 0) or get("written for five minutes", 0) + kept_1h
        if (cached or written) and self._is_cache_beside(prompt, stated, found, cached + written):
            prompt += cached + written
        generated = max(stated, total - prompt) if total else stated
        if reasoning and self._is_reasoning_beside(prompt, stated, total, reasoning):
            generated = stated + reasoning
        is_sum = not total or total == prompt + generated
        where = self.reading.reasoning
        is_explained = generated == stated or where is Place.UNTOLD
        is_explained = is_explained or where is not Place.INSIDE and generated - stated == reasoning
        if not (is_sum and is_explained and cached + written <= prompt):
            self._count_contradiction()
        cached = min(cached, prompt)
        written = min(written, prompt - cached)
        searches = self._paid_searches(get("searches", 0)) if self.results or "searches" in found else 0
        kept_1h, reasoning = min(kept_1h, written), min(reasoning, generated)
        usage = Usage(prompt, generated, cached, written, reasoning, kept_1h, self.tier, searches)
        return structs.replace(usage, others=_others(found, usage)) if OTHERS else usage

    def _completed(self, found: dict[str, int]) -> tuple[int | None, int | None]:
        """Return the prompt and what was generated, where one of them is missing, or the prompt is 0."""
        prompt, total = found.get("prompt"), found.get("total", 0)
        stated = found.get("generated", 0 if self.reading.leaves_out_zeros else None)
        if not prompt and "not cached" in found:
            prompt = found["not cached"] + found.get("cached", 0)
        if not prompt and total:
            beside = found.get("reasoning", 0) if self.reading.reasoning is Place.BESIDE else 0
            beside += found.get("read of tools", 0)
            prompt = max(total - stated - beside, 0) if stated else None  # else it is unknown how the total is divided
        if stated is None and total and prompt is not None:
            stated = max(total - prompt, 0)
        return prompt, stated

    def _is_cache_beside(self, prompt: int, stated: int, found: dict[str, int], kept: int) -> bool:
        """Return whether the prompt leaves out what was read from a cache, or written to it: by the host, else by the total."""
        if self.reading.cached is not Place.BY_TOTAL:
            return self.reading.cached is Place.BESIDE
        more, reasoning = found.get("total", 0) - prompt - stated, found.get("reasoning", 0)
        if more == kept != reasoning or more == kept + reasoning:
            return True
        # A count by Anthropic's names is in a prompt only if that has OpenAI's name, and room for it.
        has_room = "prompt_tokens" in self.counts and kept <= prompt
        return not has_room and not _ANTHROPICS.isdisjoint(self.counts)

    def _is_reasoning_beside(self, prompt: int, stated: int, total: int, reasoning: int) -> bool:
        """Return whether reasoning stands beside what is generated where no total says so."""
        if self.reading.reasoning is Place.INSIDE:
            return False
        is_untold = not total or self.is_total_apart and total < prompt + stated + reasoning
        has_no_room = reasoning > max(stated, total - prompt)
        return has_no_room or is_untold and self.reading.reasoning is Place.BESIDE

    def _paid_searches(self, number: int) -> int:
        """Return the searches that the caller pays for: none that failed, and no more than were asked for."""
        number = number if self.is_number_of_searches_final else max(number, self.results)
        if self.failures:
            number = min(number, max(self.results, number - self.failures))
        unpaid = number - self.searches_max
        if unpaid > self.unpaid_searches:
            if self.price.basis_points == money.WHOLE:  # else it is a loss of the account whose own key served
                metrics.record_provider_loss(self.provider, (unpaid - self.unpaid_searches) * self.price.rate("web_search"))
            self.unpaid_searches = unpaid
            self._count_contradiction()
        return min(number, self.searches_max)

    def _count_contradiction(self) -> None:
        if not self.is_contradictory:
            metrics.usage_contradictions_total.labels(self.provider).inc()
            self.is_contradictory = True


def _others(found: dict[str, int], usage: Usage) -> dict[str, int]:
    """Return the numbers of meters without a column. A part of another number is in what no other part of that is."""
    others: dict[str, int] = {}
    for meter in OTHERS:
        number = found.get(meter.count, 0)
        if meter.part_of:
            counts = {each.name: others.get(each.count, getattr(usage, each.count, 0)) for each in METERS}
            parts = sum(counts[each.name] for each in METERS if each.part_of == meter.part_of)
            number = min(number, counts[meter.part_of] - parts)
        if number:
            others[meter.count] = number
    return others


def _flat(given: Fields) -> list[tuple[str, Any]]:
    """Return the members, and those of their objects with the path of each."""
    flat = []
    for name, value in given.items():
        flat += [(f"{name}.{inner}", each) for inner, each in value.items()] if isinstance(value, dict) else [(name, value)]
    return flat


def _together(usage: Usage | None, other: Usage | None) -> Usage | None:
    """Return the usage of two choices, of which each has its own. The prompt was read once."""
    if usage is None or other is None:
        return usage or other
    return structs.replace(
        usage,
        prompt_tokens=max(usage.prompt_tokens, other.prompt_tokens),
        completion_tokens=usage.completion_tokens + other.completion_tokens,
        reasoning_tokens=usage.reasoning_tokens + other.reasoning_tokens,
    )
