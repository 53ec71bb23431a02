"""The parameters of the formula: their published values, and those in force by the settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from django.core.checks import Error

from gateway_project.environment import Findings, check
from rankings import environment
from rankings.sources import registry

VERSION = "internal-1"


@dataclass(frozen=True, kw_only=True)
class FormulaParameters:
    """The numbers of the formula that are a matter of judgement. The defaults are the published ones.

    Weights and half-lives of sources are by their short names. Raises ValueError if the numbers contradict each other.
    """

    source_weights: Mapping[str, float] = field(
        default_factory=lambda: {spec.short_name: spec.weight for spec in registry.weighted_specs()}
    )
    score_weights: Mapping[str, float] = field(default_factory=lambda: {"quality": 0.70, "speed": 0.15, "cost": 0.15})
    half_lives_hours: Mapping[str, float] = field(
        default_factory=lambda: {
            spec.short_name: spec.half_life_hours for spec in sorted(registry.fetched_specs(), key=lambda spec: -spec.weight)
        }
    )
    # Where these disagree, the confidence falls.
    compared_sources: frozenset[str] = field(
        default_factory=lambda: frozenset(spec.short_name for spec in registry.weighted_specs() if spec.is_compared)
    )
    population_min: int = 20  # on a smaller board a percentile says nothing
    evidence_min: float = 0.2  # of best/*: of 1, and however old; the Hub alone with unverified figures has 0.15
    prior: float = 25  # the quality that a model without evidence is taken to have ...
    prior_weight: float = 0.25  # ... and how much evidence that is worth
    throughput_share: float = 0.7  # of the speed; the rest is time to first token
    tokens_per_second_low: float = 10
    tokens_per_second_high: float = 300
    first_token_seconds_best: float = 0.3
    first_token_seconds_worst: float = 30
    blended_dollars_best: float = 0.10
    blended_dollars_worst: float = 30

    def __post_init__(self) -> None:
        if not sum(self.source_weights.values()) > 0 or not self.score_weights["quality"] > 0:
            raise ValueError("of the sources some, and of the scores quality, must have a weight above 0")
        if not 0 <= self.prior <= 100 or not self.prior_weight > 0:
            raise ValueError("prior must be 0-100, and prior_weight above 0")
        if not 0 <= self.evidence_min <= 1:
            raise ValueError("evidence_min must be 0-1")
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

PUBLISHED = FormulaParameters()
SOURCE_WEIGHTS = environment.numbers("GATEWAY_RANKINGS_SOURCE_WEIGHTS", dict(PUBLISHED.source_weights))
SCORE_WEIGHTS = environment.numbers("GATEWAY_RANKINGS_SCORE_WEIGHTS", dict(PUBLISHED.score_weights))
HALF_LIVES_HOURS = environment.numbers("GATEWAY_RANKINGS_HALF_LIVES_HOURS", dict(PUBLISHED.half_lives_hours))
_ANCHORS = {each.name: getattr(PUBLISHED, each.name) for each in fields(FormulaParameters) if each.type is float}
ANCHORS = environment.numbers("GATEWAY_RANKINGS_ANCHORS", _ANCHORS)
POPULATION_MIN = environment.integer("GATEWAY_RANKINGS_POPULATION_MIN", PUBLISHED.population_min, minimum=1, maximum=10_000)


def in_force() -> FormulaParameters:
    """Raises ValueError if the settings contradict each other."""
    given: dict[str, Any] = {"source_weights": SOURCE_WEIGHTS.value, "score_weights": SCORE_WEIGHTS.value, **ANCHORS.value}
    return FormulaParameters(half_lives_hours=HALF_LIVES_HOURS.value, population_min=POPULATION_MIN.value, **given)


def version() -> str:
    """The version of the formula. It says so when the parameters are not the published ones: then the scores differ, too."""
    return VERSION if in_force() == PUBLISHED else f"{VERSION}, with parameters of this gateway's own"


@check
def check_parameters() -> Findings:
    """E010: the parameters, which come from several settings, contradict each other, so that no ranking can be computed."""
    try:
        in_force()
    except ValueError as error:
        message = f"The parameters of the rankings' formula contradict each other: {error}."
        yield Error(message, hint="See GATEWAY_RANKINGS_* in docs/rankings.md.", id="gateway.E010")
