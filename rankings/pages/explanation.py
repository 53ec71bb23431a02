"""Explains a score as sums that a reader can do again, from ``Entry.inputs`` (see ``publishing.publication``) and the formula.

A ``statement`` is one of the ``sources`` in the inputs: what a source says of the model.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway_project.text import dollars
from rankings.models import Alias, Entry, Source
from rankings.pages.rows import tenths
from rankings.scoring import formula, parameters
from rankings.scoring.parameters import FormulaParameters
from rankings.sources import registry


@dataclass(frozen=True)
class Step:
    """One step of the computation: a sum and its result, which is empty where there was nothing to compute it from."""

    name: str
    sum: str
    result: str
    note: str = ""


_METHODS = {method.value: method.label for method in Alias.Method}
BENCHMARKS = {"mmlu": "MMLU", "hellaswag": "HellaSwag", "human_eval": "HumanEval"}


def explain(entry: Entry) -> dict[str, Any] | None:
    """Return the explanation, or None for an entry whose inputs were not recorded."""
    if entry.source == Source.INTERNAL:
        return _internal(entry) if "sources" in entry.inputs else None
    return _external(entry) if "value" in entry.inputs else None


def _external(entry: Entry) -> dict[str, Any]:
    """Explain an entry of a source: the score is the source's own, so only the confidence is computed here."""
    note = "identity (how sure the match with this model is) × precision (of the source's figure) × freshness (of its data)"
    step = Step("Confidence", _confidence_factors(entry.inputs), f"{entry.confidence:.2f}", note)
    source = _source({**entry.inputs, "source": entry.source}, "", "")
    return {"version": entry.inputs["version"], "steps": [step], "sources": [source], "benchmarks": []}


def _internal(entry: Entry) -> dict[str, Any]:
    inputs, used = entry.inputs, parameters.in_force()
    cost, confidence = _cost(inputs["cost"], used), _confidence(entry, inputs["sources"])
    return {
        "version": inputs["version"],
        "steps": [_overall(entry), *_quality(inputs), _speed(inputs["speed"], used), cost, confidence],
        "sources": [_source(each, f"{each['weight']:g}", _verdict(each)) for each in inputs["sources"]],
        "benchmarks": [
            {**figure, "name": BENCHMARKS[figure["benchmark"]], "value": f"{figure['value']:.1f}"}
            for figure in inputs["benchmarks"]
        ],
    }


def _overall(entry: Entry) -> Step:
    inputs = entry.inputs
    scores = {"adjusted quality": inputs["believed"], "speed": entry.speed, "cost": entry.cost}
    terms = {term: scores[term] for term in formula.OVERALL}
    known = [(inputs["weights"][formula.OVERALL[term]], score) for term, score in terms.items() if score is not None]
    unknown = [term for term, score in terms.items() if score is None]
    note = f"the weighted mean of {overall_names()}"
    if unknown:
        note += f"; left out, since not known: {', '.join(unknown)}"
    return Step("Overall", _mean(known), tenths(entry.overall), note)


def _quality(inputs: dict[str, Any]) -> list[Step]:
    counted = [statement for statement in inputs["sources"] if statement["is_heard"]]
    applicable = [statement["weight"] for statement in inputs["sources"] if statement["is_applicable"]]
    coverage, quality, prior = inputs["coverage"], inputs["quality"], inputs["prior"]
    shares = f"{_sum(statement['weight'] for statement in counted)} ÷ {_sum(applicable)}" if applicable else ""
    mean = _mean([(statement["weight"], statement["percentile"]) for statement in counted])
    mean_note = "the mean of the percentiles at the sources, by the sources' weights" if counted else "no source ranks it"
    shares_note = "weights of the sources that rank this model ÷ weights of those that rank such models"
    evidence = f"{coverage:.2f} × {quality or 0:.1f} + {prior['weight']:g} × {prior['quality']:g}"
    believed = f"({evidence}) ÷ ({coverage:.2f} + {prior['weight']:g})"
    prior_note = f"the lower the coverage, the nearer to {prior['quality']:g}, the quality assumed without evidence"
    return [
        Step("Quality", mean, tenths(quality), mean_note),
        Step("Coverage", shares, f"{coverage:.2f}", shares_note),
        Step("Adjusted quality", believed, tenths(inputs["believed"]), prior_note),
    ]


def _speed(speed: dict[str, Any], used: FormulaParameters) -> Step:
    throughput = formula.speed(used, tokens_per_second=speed["tokens_per_second"], first_token_seconds=None)
    latency = formula.speed(used, tokens_per_second=None, first_token_seconds=speed["first_token_seconds"])
    parts = [(used.throughput_share, throughput), (1 - used.throughput_share, latency)]
    sum = _mean([(weight, part) for weight, part in parts if part is not None])
    return Step("Speed", sum, tenths(speed["score"]), _speed_note(speed))


def _speed_note(speed: dict[str, Any]) -> str:
    if speed["score"] is None:
        return "not measured yet"
    measured = []
    if (rate := speed["tokens_per_second"]) is not None:
        measured.append(f"{rate:.1f} tokens per second")
    if (first_token_seconds := speed["first_token_seconds"]) is not None:
        measured.append(f"{first_token_seconds:.2f} s to the first token")
    own = f"medians of {speed['streams']} streams through this gateway"
    by = own if speed["source"] == Source.INTERNAL else f"measured by {registry.spec(speed['source']).title}"
    return f"{', '.join(measured)}; {by}"


def _cost(cost: dict[str, Any], used: FormulaParameters) -> Step:
    if cost["blended_usd"] is None:
        return Step("Cost", "", "", "the price is not known")
    usd = dollars.format_computed_usd
    blended = f"(3 × {usd(cost['input_usd'])} + {usd(cost['output_usd'])}) ÷ 4 = {usd(cost['blended_usd'])}"
    anchors = f"100 at {usd(used.blended_dollars_best)}, 0 at {usd(used.blended_dollars_worst)}"
    note = f"{blended} per million tokens; the score is {anchors}, on a logarithmic scale"
    return Step("Cost", "", tenths(cost["score"]), note)


def _confidence(entry: Entry, statements: list[dict[str, Any]]) -> Step:
    products = [f"{each['weight']:g} × {_confidence_factors(each)}" for each in statements if each["is_heard"]]
    applicable = _sum(each["weight"] for each in statements if each["is_applicable"])
    sum = f"({' + '.join(products)}) ÷ {applicable}" if products else ""
    compared = " and ".join(spec.title for spec in registry.weighted_specs() if spec.is_compared)
    note = f"weight × identity × precision × freshness of each source that counts; less where {compared} disagree"
    return Step("Confidence", sum, f"{entry.confidence:.2f}", note)


def _mean(parts: list[tuple[float, float]]) -> str:
    if not parts:
        return ""
    products = " + ".join(f"{weight:g} × {value:.1f}" for weight, value in parts)
    return f"({products}) ÷ {_sum(weight for weight, _ in parts)}"


def _sum(weights: Iterable[float]) -> str:
    return f"{round(sum(weights), 6):g}"


def _verdict(statement: dict[str, Any]) -> str:
    if statement["is_heard"]:
        return "counts in the quality"
    if statement["is_applicable"]:
        return "it ranks such models, so this lowers the coverage"
    if not statement["weight"]:
        return "does not count: this leaderboard of it has no weight"
    return "does not count: it ranks too few models on this leaderboard, or none of this kind"


def _source(statement: dict[str, Any], weight: str, verdict: str) -> dict[str, Any]:
    """Return a source's statement about the model, its certainty, and whether it counts (``verdict``)."""
    shown = {"source": registry.spec(statement["source"]).title, "weight": weight, "verdict": verdict, "placement": ""}
    if "value" not in statement:
        return shown
    return {
        **shown,
        "name": statement["name"],
        "placement": f"rank {statement['rank']} of {statement['population']}, at {statement['value']:,.6g}",
        "percentile": tenths(statement["percentile"]),
        "confidence": _confidence_factors(statement),
        "method": _METHODS.get(statement["method"], ""),
        "as_of": datetime.fromisoformat(statement["as_of"]),
        "version": statement["version"],
        "attribution": statement["attribution"],
    }


def _confidence_factors(statement: dict[str, Any]) -> str:
    return " × ".join(f"{statement[name]:.2f}" for name in ("identity", "precision", "freshness"))


def overall_names() -> str:
    *others, last = formula.OVERALL
    return f"{', '.join(others)} and {last}"


def overall_terms(used: FormulaParameters) -> str:
    """Return the sum that the overall score is before it is divided, in words."""
    return " + ".join(f"{used.score_weights[weight]:g} × {term}" for term, weight in formula.OVERALL.items())


def by_title(by_source: Mapping[str, float]) -> list[tuple[str, float]]:
    """Replace the short names of sources, which the parameters use, by their titles."""
    titles = {spec.short_name: spec.title for spec in registry.fetched_specs()}
    return [(titles[short], number) for short, number in by_source.items()]
