"""From what is known of a model to its scores: the formula ``internal-1``. Pure; docs/rankings.md explains it.

Scores and percentiles are 0-100, shares 0-1. What is not known is None, and never counts as 0. The sources of quality go by
the short names that their weights have: arena, aa (Artificial Analysis), hf (Hugging Face).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

VERSION = "internal-1"

PRECISION_WITHOUT_INTERVAL = 0.5
PRECISION_OF_INDEX = 0.95
PRECISION_VERIFIED, PRECISION_UNVERIFIED = 0.9, 0.5
PRECISION_COUNTED, PRECISION_SAMPLED = 0.9, 0.6
_INTERVAL_HALF_MAX = 50  # points of a rating
_DISAGREEMENT_COSTS = 0.5  # of the confidence, where two sources put a model at opposite ends


@dataclass(frozen=True)
class Terms:
    """The numbers of the formula that are a matter of judgement. Raises ValueError where they contradict each other."""

    sources: Mapping[str, float]  # weights of the sources of quality
    scores: Mapping[str, float]  # weights of quality, speed and cost
    half_lives_hours: Mapping[str, float]
    population_min: int  # on a smaller board a percentile says nothing
    prior: float  # the quality that a model without evidence is taken to have ...
    prior_weight: float  # ... and how much evidence that is worth
    throughput_share: float  # of the speed; the rest is time to first token
    tokens_per_second_low: float
    tokens_per_second_high: float
    first_token_seconds_best: float
    first_token_seconds_worst: float
    blended_dollars_best: float
    blended_dollars_worst: float

    def __post_init__(self) -> None:
        if not sum(self.sources.values()) > 0 or not self.scores["quality"] > 0:
            raise ValueError("of the sources some, and of the scores quality, must have a weight above 0")
        if not 0 <= self.prior <= 100 or not self.prior_weight > 0:
            raise ValueError("prior must be 0-100, and prior_weight above 0")
        if not 0 < self.throughput_share < 1:
            raise ValueError("throughput_share must be between 0 and 1")
        for below, above in _RISING:
            if not 0 < getattr(self, below) < getattr(self, above):
                raise ValueError(f"{below} must be above 0 and below {above}")
        if not all(hours > 0 for hours in self.half_lives_hours.values()):
            raise ValueError("half-lives must be above 0")


_RISING = [
    ("tokens_per_second_low", "tokens_per_second_high"),
    ("first_token_seconds_best", "first_token_seconds_worst"),
    ("blended_dollars_best", "blended_dollars_worst"),
]


@dataclass(frozen=True)
class Evidence:
    """What one source says of a model's quality, and how far that is to be believed, as three shares."""

    percentile: float
    identity: float = 1.0
    precision: float = 1.0
    freshness: float = 1.0


@dataclass(frozen=True)
class Scores:
    """``believed`` is the quality, drawn towards the prior by what evidence is missing."""

    overall: float
    quality: float | None
    believed: float
    coverage: float
    speed: float | None
    cost: float | None
    confidence: float


# --- The whole ----------------------------------------------------------------------------------------------------


def scores(
    terms: Terms, *, evidence: Mapping[str, Evidence], applicable: Collection[str], speed: float | None, cost: float | None
) -> Scores:
    """``applicable``: the sources that could say something of this model; others are no loss, and are not heard."""
    weights = {name: weight for name, weight in terms.sources.items() if name in applicable}
    heard = {name: found for name, found in evidence.items() if weights.get(name)}
    coverage = _share({name: weights[name] for name in heard}, weights)
    quality = _mean([(weights[name], found.percentile) for name, found in heard.items()])
    believed = (coverage * (quality or 0) + terms.prior_weight * terms.prior) / (coverage + terms.prior_weight)
    overall = _mean([(terms.scores["quality"], believed), (terms.scores["speed"], speed), (terms.scores["cost"], cost)])
    assert overall is not None
    return Scores(
        overall=overall,
        quality=quality,
        believed=believed,
        coverage=coverage,
        speed=speed,
        cost=cost,
        confidence=_confidence(weights, heard),
    )


def _confidence(weights: Mapping[str, float], heard: Mapping[str, Evidence]) -> float:
    believed = {name: weights[name] * each.identity * each.precision * each.freshness for name, each in heard.items()}
    confidence = _share(believed, weights)
    if "arena" in heard and "aa" in heard:
        apart = abs(heard["arena"].percentile - heard["aa"].percentile) / 100
        confidence *= 1 - _DISAGREEMENT_COSTS * apart
    return confidence


def _share(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    total = math.fsum(weights.values())
    return min(1.0, math.fsum(parts.values()) / total) if total else 0.0


def _mean(parts: Sequence[tuple[float, float | None]]) -> float | None:
    """The weighted mean of what is known."""
    known = [(weight, value) for weight, value in parts if value is not None and weight]
    if not known:
        return None
    mean = math.fsum(weight * value for weight, value in known) / math.fsum(weight for weight, _ in known)
    return min(max(mean, 0.0), 100.0)


# --- Its parts ----------------------------------------------------------------------------------------------------


def percentile(value: float, population: Sequence[float]) -> float:
    """Where a value stands in a sorted population, ties in their middle."""
    below, up_to = bisect_left(population, value), bisect_right(population, value)
    return 100 * (below + 0.5 * (up_to - below)) / len(population)


def speed(terms: Terms, *, tokens_per_second: float | None, first_token_seconds: float | None) -> float | None:
    """None without a figure; of one that is missing the other takes the weight. No tokens per second are no figure."""
    throughput = latency = None
    if tokens_per_second is not None and tokens_per_second > 0:
        throughput = 100 * _position(tokens_per_second, terms.tokens_per_second_low, terms.tokens_per_second_high)
    if first_token_seconds is not None and first_token_seconds >= 0:
        position = _position(first_token_seconds, terms.first_token_seconds_best, terms.first_token_seconds_worst)
        latency = 100 * (1 - position)
    return _mean([(terms.throughput_share, throughput), (1 - terms.throughput_share, latency)])


def blended_dollars(*, input_dollars: float | None, output_dollars: float | None) -> float | None:
    """US dollars per million tokens, three of the prompt to one of the answer. A price below 0 means that it is unknown."""
    if input_dollars is None or output_dollars is None or input_dollars < 0 or output_dollars < 0:
        return None
    return (3 * input_dollars + output_dollars) / 4


def cost(terms: Terms, blended: float | None) -> float | None:
    """100 for the cheapest."""
    if blended is None:
        return None
    return 100 * (1 - _position(blended, terms.blended_dollars_best, terms.blended_dollars_worst))


def _position(value: float, low: float, high: float) -> float:
    """Where a value stands between two anchors, by its logarithm, from 0 to 1."""
    return min(1.0, max(0.0, math.log(value / low) / math.log(high / low))) if value > low else 0.0


def rating_precision(lower: float | None, upper: float | None) -> float:
    """How far a rating is to be believed, by its 95 % interval."""
    if lower is None or upper is None:
        return PRECISION_WITHOUT_INTERVAL
    return min(1.0, max(0.3, 1 - (upper - lower) / 2 / _INTERVAL_HALF_MAX))


def freshness(*, age_hours: float, half_life_hours: float) -> float:
    return math.pow(0.5, max(0.0, age_hours) / half_life_hours)
