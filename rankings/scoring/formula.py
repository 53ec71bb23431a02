"""The formula ``internal-1``: computes a model's scores from what is known of it. Pure; docs/rankings.md explains it.

Scores and percentiles are 0-100, shares 0-1. An unknown value is None and never counts as 0. Sources are named by their short
names, as in ``FormulaParameters``.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rankings.scoring.parameters import FormulaParameters

_DISAGREEMENT_COSTS = 0.5  # of the confidence, when two compared sources put a model at opposite ends


@dataclass(frozen=True)
class Evidence:
    """One source's figure for a model's quality, and three shares that say how far to believe it (see docs/rankings.md)."""

    percentile: float
    identity: float = 1.0
    precision: float = 1.0
    freshness: float = 1.0


@dataclass(frozen=True)
class Scores:
    """The scores of a model. The more evidence is missing, the nearer ``adjusted_quality`` is to the prior."""

    overall: float
    quality: float | None
    adjusted_quality: float
    coverage: float
    speed: float | None
    cost: float | None
    confidence: float
    evidence: float  # what the confidence would be if all data were new


# The terms of the overall score, and the names of their weights. Whatever explains the score prints these.
OVERALL = {"adjusted quality": "quality", "speed": "speed", "cost": "cost"}


def scores(
    parameters: FormulaParameters,
    *,
    evidence: Mapping[str, Evidence],
    applicable: Mapping[str, float] | Collection[str],
    speed: float | None,
    cost: float | None,
) -> Scores:
    """Return the scores of a model. Only the sources in ``applicable``, which could list this model, count in any way.

    As a mapping it says which share of its weight the source has on this board; otherwise that is all of it.
    """
    shares = applicable if isinstance(applicable, Mapping) else dict.fromkeys(applicable, 1.0)
    weights = {name: weight * shares[name] for name, weight in parameters.source_weights.items() if name in shares}
    heard = {name: found for name, found in evidence.items() if weights.get(name)}
    coverage = _share({name: weights[name] for name in heard}, weights)
    quality = _mean([(weights[name], found.percentile) for name, found in heard.items()])
    evidence_and_prior = coverage * (quality or 0) + parameters.prior_weight * parameters.prior
    adjusted_quality = evidence_and_prior / (coverage + parameters.prior_weight)
    terms = {"adjusted quality": adjusted_quality, "speed": speed, "cost": cost}
    overall = _mean([(parameters.score_weights[weight], terms[term]) for term, weight in OVERALL.items()])
    assert overall is not None
    all_new = {name: replace(each, freshness=1.0) for name, each in heard.items()}
    return Scores(
        overall=overall,
        quality=quality,
        adjusted_quality=adjusted_quality,
        coverage=coverage,
        speed=speed,
        cost=cost,
        confidence=_confidence(weights, heard, parameters.compared_sources),
        evidence=_confidence(weights, all_new, parameters.compared_sources),
    )


def _confidence(weights: Mapping[str, float], heard: Mapping[str, Evidence], compared_sources: Collection[str]) -> float:
    certain = {name: weights[name] * each.identity * each.precision * each.freshness for name, each in heard.items()}
    compared = [each.percentile for name, each in heard.items() if name in compared_sources]
    apart = (max(compared) - min(compared)) / 100 if compared else 0.0
    return _share(certain, weights) * (1 - _DISAGREEMENT_COSTS * apart)


def _share(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    total = math.fsum(weights.values())
    return min(1.0, math.fsum(parts.values()) / total) if total else 0.0


def _mean(parts: Sequence[tuple[float, float | None]]) -> float | None:
    """Return the weighted mean of the known values, within 0-100; None without any."""
    known = [(weight, value) for weight, value in parts if value is not None and weight]
    if not known:
        return None
    mean = math.fsum(weight * value for weight, value in known) / math.fsum(weight for weight, _ in known)
    return min(max(mean, 0.0), 100.0)


def percentile(value: float, population: Sequence[float]) -> float:
    """Return the percentile of a value in a sorted population. Equal values have the middle of their places."""
    below, up_to = bisect_left(population, value), bisect_right(population, value)
    return 100 * (below + 0.5 * (up_to - below)) / len(population)


def speed(parameters: FormulaParameters, *, tokens_per_second: float | None, first_token_seconds: float | None) -> float | None:
    """Return the score of speed. If one figure is missing the other has all the weight. 0 tokens per second are missing."""
    throughput = latency = None
    if tokens_per_second is not None and tokens_per_second > 0:
        throughput = 100 * _position(tokens_per_second, parameters.tokens_per_second_low, parameters.tokens_per_second_high)
    if first_token_seconds is not None and first_token_seconds >= 0:
        position = _position(first_token_seconds, parameters.first_token_seconds_best, parameters.first_token_seconds_worst)
        latency = 100 * (1 - position)
    return _mean([(parameters.throughput_share, throughput), (1 - parameters.throughput_share, latency)])


def blended_dollars(*, input_dollars: float | None, output_dollars: float | None) -> float | None:
    """Return US dollars per million tokens, with three input tokens to one output token. A price below 0 is unknown."""
    if input_dollars is None or output_dollars is None or input_dollars < 0 or output_dollars < 0:
        return None
    return (3 * input_dollars + output_dollars) / 4


def cost(parameters: FormulaParameters, blended: float | None) -> float | None:
    """Return the score of cost: 100 for the cheapest."""
    if blended is None:
        return None
    return 100 * (1 - _position(blended, parameters.blended_dollars_best, parameters.blended_dollars_worst))


def _position(value: float, low: float, high: float) -> float:
    """Return the position of a value between two anchors on a logarithmic scale, from 0 to 1."""
    return min(1.0, max(0.0, math.log(value / low) / math.log(high / low))) if value > low else 0.0


def freshness(*, age_hours: float, half_life_hours: float) -> float:
    """Return the share that remains after the age: half after each half-life."""
    return math.pow(0.5, max(0.0, age_hours) / half_life_hours)
