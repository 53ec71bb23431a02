"""The meters: everything that a provider may charge for. Pure data, and the only list of it.

A new meter is one line of METERS. Forms, catalog files, pages, the API, the charge, the audit and the margins follow from it,
and no table gets a column: a number without a column of its own is in ``Usage.others`` and ``completion.other_counts``.
"""

from dataclasses import dataclass
from enum import Enum

from billing import money


class Unit(Enum):
    """A thing that has a rate, and how many of it the rate is for."""

    TOKENS = ("per million tokens", money.TOKENS_PER_PRICE)
    EACH = ("each", 1)

    def __init__(self, words: str, number: int) -> None:
        self.words, self.number = words, number


@dataclass(frozen=True, slots=True)
class Meter:
    """One thing that is charged for. ``count`` names its number, in a ``Usage`` and among the columns of a completion.

    ``part_of`` is the meter whose number includes this one, and whose rate holds where this one has none; a meter without it
    costs nothing there, or with ``is_asked_for`` is refused. ``spellings``: where providers report a number that has no column,
    as in ``reported_usage``.
    """

    name: str
    title: str
    noun: str
    count: str
    unit: Unit = Unit.TOKENS
    part_of: str = ""
    is_asked_for: bool = False
    explanation: str = ""
    spellings: tuple[str, ...] = ()

    @property
    def without_rate(self) -> str:
        """The rule where a price has no rate for it, in words."""
        if self.is_asked_for:
            return "refused"
        return f"as {BY_NAME[self.part_of].title.lower()}" if self.part_of else "nothing"


# In the order of pages; what a meter is a part of comes before it.
METERS = (
    Meter(
        *("input", "Input", "input tokens", "prompt_tokens"),
        explanation="Tokens of the prompt that were neither read from a cache nor written to one.",
    ),
    Meter(
        *("output", "Output", "output tokens", "completion_tokens"),
        explanation="Tokens that the model generated, with its reasoning.",
    ),
    Meter(
        *("cached_input", "Cached input", "cached input tokens", "cached_tokens"),
        part_of="input",
        explanation="Tokens of the prompt that the provider read from its cache.",
    ),
    Meter(
        *("cache_write", "Cache write", "input tokens written to the cache", "cache_write_tokens"),
        part_of="input",
        explanation="Tokens of the prompt that the provider wrote to its cache, for five minutes or as long as it likes.",
    ),
    Meter(
        *("cache_write_1h", "Cache write for an hour", "input tokens cached for one hour", "cache_write_1h_tokens"),
        part_of="cache_write",
        is_asked_for=True,
        explanation="Tokens of the prompt that the provider wrote to its cache for an hour.",
    ),
    Meter(*("image", "Image", "images", "images", Unit.EACH), explanation="Images in the prompt, beside their tokens."),
    Meter(
        *("web_search", "Web search", "web searches", "web_searches", Unit.EACH),
        is_asked_for=True,
        explanation="Searches of the web that the provider made.",
    ),
)
BY_NAME = {meter.name: meter for meter in METERS}
ASKED_FOR = {meter.name for meter in METERS if meter.is_asked_for}
REQUIRED = ("input", "output")  # of each service tier and each length band
# Numbers with a column in completions and in days of providers.
COLUMNS = (
    *("prompt_tokens", "cached_tokens", "cache_write_tokens", "cache_write_1h_tokens", "completion_tokens"),
    *("images", "web_searches"),
)
# OpenRouter's names: https://openrouter.ai/docs/client-sdks/python/components/pricing
OPENROUTER_NAMES = {
    **{"input": "prompt", "output": "completion", "cached_input": "input_cache_read"},
    **{"cache_write": "input_cache_write", "cache_write_1h": "input_cache_write_1h"},
    **{"image": "image", "web_search": "web_search"},
}
OTHERS = tuple(meter for meter in METERS if meter.count not in COLUMNS)

# Service tiers that may have rates of their own, with their titles. A caller asks for flex or priority; "us" is inference in
# the United States, which the operator's workspace at the provider decides.
TIERS = {"flex": "Flex tier", "priority": "Priority tier", "us": "United States"}

UNASKED_TIERS = frozenset({"us"})  # whatever a request says, they may serve


def lineage(meter: Meter) -> list[str]:
    """Return the names of the meters whose rates hold for one, the nearest first: its own, and that of what it is a part of."""
    return [meter.name, *(lineage(BY_NAME[meter.part_of]) if meter.part_of else [])]


def count_sql(meter: Meter) -> str:
    """Return SQL for the number of a meter, with what is a part of it, from the columns of a completion."""
    if meter.count in COLUMNS:
        return f"coalesce({meter.count}, 0)"
    return f"coalesce((other_counts ->> '{meter.count}')::bigint, 0)"
