"""The formula: its published examples, and properties that hold for any figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankings.scoring import formula, parameters
from rankings.scoring.formula import Evidence
from rankings.sources import artificial_analysis, huggingface, lmsys_arena
from rankings.sources.base import Placement

PARAMETERS = parameters.in_force()


def rating_precision(lower, upper):
    return lmsys_arena.figures(Placement(1_500, 50, 1_600, {"lower": lower, "upper": upper})).precision


# As in the examples: all surely the model; Arena with an interval of 1495-1503.5, 216 hours old; Artificial Analysis 12 hours
# old; Hugging Face not verified, 200 hours old.
BELIEF = {
    "arena": {
        "precision": rating_precision(1495, 1503.5),
        "freshness": formula.freshness(age_hours=216, half_life_hours=336),
    },
    "aa": {"precision": artificial_analysis.PRECISION, "freshness": formula.freshness(age_hours=12, half_life_hours=168)},
    "hf": {"precision": huggingface.PRECISION_UNVERIFIED, "freshness": formula.freshness(age_hours=200, half_life_hours=720)},
}


def scores(percentiles, applicable, speed, cost, of=PARAMETERS):
    evidence = {name: Evidence(percentile, **BELIEF[name]) for name, percentile in percentiles.items()}
    return formula.scores(of, evidence=evidence, applicable=applicable.split(), speed=speed, cost=cost)


# --- The published examples ---------------------------------------------------------------------------------------

# 283 ratings, as many between those of the example as there were.
POPULATION = [957.5, *[1100.0] * 69, *[1250.0] * 71, *[1350.0] * 70, *[1400.0] * 64, *[1460.0] * 7, 1500.0]


@pytest.mark.parametrize(
    ("rating", "percentile"), [(1492, 99.6), (1450, 97.2), (1380, 74.6), (1315, 49.8), (1204, 24.7), (957, 0.0)]
)
def test_percentile_is_of_the_whole_population(rating, percentile):
    assert len(POPULATION) == 283
    assert round(formula.percentile(rating, POPULATION), 1) == percentile


def test_equal_values_have_the_middle_percentile():
    assert formula.percentile(5, [1, 5, 5, 9]) == 50


@pytest.mark.parametrize(
    ("prompt", "answer", "cost"),
    [(0.06, 0.2, 100), (0.15, 0.6, 83.1), (1.1, 4.4, 48.1), (3, 15, 28.2), (5, 25, 19.3), (30, 150, 0), (0, 0, 100)],
)
def test_costs_equal_the_published_examples(prompt, answer, cost):
    blended = formula.blended_dollars(input_dollars=prompt, output_dollars=answer)
    assert round(formula.cost(PARAMETERS, blended), 1) == cost


@pytest.mark.parametrize(("prompt", "answer"), [(-1, -1), (None, 1), (1, None), (1, -1)])
def test_unknown_price_has_no_cost_score(prompt, answer):
    assert formula.cost(PARAMETERS, formula.blended_dollars(input_dollars=prompt, output_dollars=answer)) is None


@pytest.mark.parametrize(
    ("rate", "begins", "speed"), [(296, 0.65, 94.7), (153.8, 14.9, 60.8), (45, 0.85, 54.2), (20, 3, 29.3), (None, 2, 58.8)]
)
def test_speeds_equal_the_published_examples(rate, begins, speed):
    assert round(formula.speed(PARAMETERS, tokens_per_second=rate, first_token_seconds=begins), 1) == speed


@pytest.mark.parametrize(("rate", "begins"), [(None, None), (0, None), (-1, -1)])
def test_unmeasured_speed_has_no_score(rate, begins):
    assert formula.speed(PARAMETERS, tokens_per_second=rate, first_token_seconds=begins) is None


@pytest.mark.parametrize(
    ("percentiles", "applicable", "speed", "cost", "quality", "believed", "coverage", "overall", "confidence"),
    [
        ({"arena": 97, "aa": 95, "hf": 90}, "arena aa hf", 70, 40, 94.9, 80.9, 1.00, 73.1, 0.66),
        ({"arena": 97, "hf": 90}, "arena hf", 70, 40, 94.8, 80.9, 1.00, 73.1, 0.53),
        ({"arena": 97}, "arena hf", 70, 40, 97.0, 77.9, 0.69, 71.0, 0.41),
        ({"arena": 97, "aa": 95}, "arena aa", 70, 40, 96.1, 81.9, 1.00, 73.8, 0.72),
        ({"arena": 97}, "arena aa", 70, 40, 97.0, 74.8, 0.56, 68.9, 0.33),
        ({"arena": 97}, "arena", 70, 40, 97.0, 82.6, 1.00, 74.3, 0.59),
        ({"aa": 55}, "arena aa", 95, 98, 55.0, 44.1, 0.44, 59.8, 0.40),
        ({"arena": 90, "aa": 40}, "arena aa", 60, 60, 68.1, 59.5, 1.00, 59.6, 0.54),
        ({"arena": 97, "aa": 95}, "arena aa", None, 40, 96.1, 81.9, 1.00, 74.5, 0.72),
        ({}, "arena aa", 80, 90, None, 25.0, 0.00, 43.0, 0.00),
    ],
    ids=[
        "open",
        "open, AA disabled",
        "open, AA disabled, arena only",
        "closed",
        "closed, arena only",
        "closed, AA disabled",
        "cheap and fast",
        "sources disagree",
        "no speed",
        "no evidence",
    ],
)
def test_scores_equal_the_published_examples(
    percentiles, applicable, speed, cost, quality, believed, coverage, overall, confidence
):
    found = scores(percentiles, applicable, speed, cost)
    assert (found.quality if quality is None else round(found.quality, 1)) == quality
    assert round(found.adjusted_quality, 1) == believed
    assert round(found.overall, 1) == overall
    assert (round(found.coverage, 2), round(found.confidence, 2)) == (coverage, confidence)
    assert (found.speed, found.cost) == (speed, cost)


# --- Any figures --------------------------------------------------------------------------------------------------

percents, shares = st.floats(0, 100), st.floats(0, 1)
sources = st.sampled_from(["arena", "aa", "hf"])
evidence = st.dictionaries(sources, st.builds(Evidence, percents, shares, shares, shares))
scored = {"evidence": evidence, "applicable": st.sets(sources), "speed": st.none() | percents, "cost": st.none() | percents}


@given(**scored)
def test_every_score_is_in_its_range(evidence, applicable, speed, cost):
    found = formula.scores(PARAMETERS, evidence=evidence, applicable=applicable, speed=speed, cost=cost)
    assert 0 <= found.overall <= 100
    assert 0 <= found.adjusted_quality <= 100
    assert 0 <= found.coverage <= 1
    assert 0 <= found.confidence <= 1
    assert (found.quality is None) == (not applicable & evidence.keys())
    assert found.quality is None or 0 <= found.quality <= 100


@given(**scored)
def test_sources_that_do_not_apply_change_no_score(evidence, applicable, speed, cost):
    heard = {name: found for name, found in evidence.items() if name in applicable}
    rest = {"applicable": applicable, "speed": speed, "cost": cost}
    assert formula.scores(PARAMETERS, evidence=evidence, **rest) == formula.scores(PARAMETERS, evidence=heard, **rest)


@given(name=sources, lower=percents, higher=percents, **scored)
def test_better_percentile_never_lowers_the_score(name, lower, higher, evidence, applicable, speed, cost):
    lower, higher = sorted([lower, higher])
    found = [
        formula.scores(
            PARAMETERS, evidence={**evidence, name: Evidence(percentile)}, applicable=applicable, speed=speed, cost=cost
        )
        for percentile in (lower, higher)
    ]
    assert found[0].overall <= found[1].overall + 1e-9
    assert (found[0].quality or 0) <= (found[1].quality or 0) + 1e-9


@given(one=percents, other=percents, **scored)
@pytest.mark.parametrize("part", ["speed", "cost"])
def test_better_part_never_lowers_the_score(part, one, other, evidence, applicable, speed, cost):
    rest = {"evidence": evidence, "applicable": applicable, "speed": speed, "cost": cost}
    found = [formula.scores(PARAMETERS, **{**rest, part: value}).overall for value in sorted([one, other])]
    assert found[0] <= found[1] + 1e-9


@given(**scored)
def test_better_evidence_never_lowers_the_confidence(evidence, applicable, speed, cost):
    rest = {"applicable": applicable, "speed": speed, "cost": cost}
    believed = {name: Evidence(found.percentile) for name, found in evidence.items()}
    less, more = (formula.scores(PARAMETERS, evidence=each, **rest).confidence for each in (evidence, believed))
    assert less <= more + 1e-9


@given(speed=st.none() | percents, cost=st.none() | percents, percentile=percents)
def test_missing_evidence_lowers_score_and_confidence(speed, cost, percentile):
    rest = {"applicable": ["arena", "aa"], "speed": speed, "cost": cost}
    of_one = formula.scores(PARAMETERS, evidence={"arena": Evidence(percentile)}, **rest)
    of_both = formula.scores(PARAMETERS, evidence={"arena": Evidence(percentile), "aa": Evidence(percentile)}, **rest)
    assert of_one.confidence < of_both.confidence
    if percentile >= PARAMETERS.prior:
        assert of_one.overall <= of_both.overall + 1e-9


dollars = st.floats(0, 1_000)


@given(one=dollars, other=dollars)
def test_higher_price_never_raises_the_cost_score(one, other):
    cheap, dear = (formula.cost(PARAMETERS, each) for each in sorted([one, other]))
    assert 0 <= dear <= cheap <= 100


@given(rates=st.tuples(st.floats(0.01, 1e5), st.floats(0.01, 1e5)), begins=st.none() | st.floats(0, 1_000))
def test_more_tokens_per_second_never_lower_the_speed_score(rates, begins):
    low, high = (formula.speed(PARAMETERS, tokens_per_second=rate, first_token_seconds=begins) for rate in sorted(rates))
    assert 0 <= low <= high + 1e-9
    assert high <= 100


@given(waits=st.tuples(st.floats(0, 1_000), st.floats(0, 1_000)), rate=st.none() | st.floats(0.01, 1e5))
def test_later_first_token_never_raises_the_speed_score(waits, rate):
    soon, late = (formula.speed(PARAMETERS, tokens_per_second=rate, first_token_seconds=wait) for wait in sorted(waits))
    assert 0 <= late <= soon + 1e-9
    assert soon <= 100


@given(
    population=st.lists(st.floats(-1e6, 1e6), min_size=1).map(sorted),
    values=st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)),
)
def test_percentile_never_falls_with_the_value(population, values):
    low, high = (formula.percentile(value, population) for value in sorted(values))
    assert 0 <= low <= high <= 100


@given(ages=st.tuples(st.floats(-10, 1e6), st.floats(-10, 1e6)))
def test_freshness_never_rises_with_age(ages):
    new, old = (formula.freshness(age_hours=age, half_life_hours=168) for age in sorted(ages))
    assert 0 <= old <= new <= 1


@pytest.mark.parametrize(
    ("bounds", "precision"), [((None, 1500), 0.5), ((1495, 1503.5), 0.915), ((1400, 1600), 0.3), ((1, 1), 1)]
)
def test_precision_of_a_rating_follows_its_interval(bounds, precision):
    assert rating_precision(*bounds) == pytest.approx(precision)


# --- Terms --------------------------------------------------------------------------------------------------------


def test_score_follows_the_weights():
    mine = replace(PARAMETERS, score_weights={"quality": 0.5, "speed": 0.0, "cost": 0.5})
    assert scores({"arena": 97}, "arena", 70, 40, of=mine).overall == pytest.approx((82.6 + 40) / 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"source_weights": {"arena": 0, "aa": 0, "hf": 0}},
        {"score_weights": {"quality": 0, "speed": 1, "cost": 1}},
        {"prior": 101},
        {"prior_weight": 0},
        {"throughput_share": 1},
        {"tokens_per_second_high": 10},
        {"first_token_seconds_best": 0},
        {"blended_dollars_worst": 0.01},
        {"half_lives_hours": {"arena": 0}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_contradictory_parameters_are_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes)).split("_")[0].rstrip("s")):
        replace(PARAMETERS, **changes)


def test_version_names_changed_parameters(settings):
    assert parameters.version() == "internal-1"
    settings.RANKINGS_POPULATION_MIN = 5
    assert parameters.version() == "internal-1, with parameters of this gateway's own"


def test_system_check_reports_contradictory_parameters(settings):
    assert parameters.check_parameters() == []
    settings.RANKINGS_ANCHORS = {**parameters.ANCHORS.value, "blended_dollars_best": 40}
    [found] = parameters.check_parameters()
    assert found.id == "gateway.E010"
    assert "blended_dollars_best must be above 0 and below blended_dollars_worst" in found.msg
