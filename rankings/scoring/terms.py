"""The terms of the formula, as the settings have them."""

from django.conf import settings

from rankings.scoring.formula import VERSION, Terms

# Who changes the terms gets other scores than everybody else, and says so in the version.
_PUBLISHED = Terms(
    sources={"arena": 0.45, "aa": 0.35, "hf": 0.20},
    scores={"quality": 0.70, "speed": 0.15, "cost": 0.15},
    half_lives_hours={"arena": 336, "aa": 168, "hf": 720, "openrouter": 72},
    population_min=20,
    prior=25,
    prior_weight=0.25,
    throughput_share=0.7,
    tokens_per_second_low=10,
    tokens_per_second_high=300,
    first_token_seconds_best=0.3,
    first_token_seconds_worst=30,
    blended_dollars_best=0.10,
    blended_dollars_worst=30,
)


def in_force() -> Terms:
    """Raises ValueError where the settings contradict each other."""
    return Terms(
        sources=settings.RANKINGS_SOURCE_WEIGHTS,
        scores=settings.RANKINGS_SCORE_WEIGHTS,
        half_lives_hours=settings.RANKINGS_HALF_LIVES_HOURS,
        population_min=settings.RANKINGS_POPULATION_MIN,
        **settings.RANKINGS_ANCHORS,
    )


def version() -> str:
    return VERSION if in_force() == _PUBLISHED else f"{VERSION}, with terms of this gateway's own"
