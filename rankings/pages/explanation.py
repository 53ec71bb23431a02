"""How a score came about, as sums that a reader can do again: from ``Entry.inputs`` (see ``publishing``) and the formula."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway_project import dollars
from rankings.models import Alias, Entry, Source
from rankings.scoring import formula, parameters
from rankings.scoring.parameters import FormulaParameters
from rankings.sources import registry


@dataclass(frozen=True)
class Step:
    """A sum and what comes out; ``result`` is empty where there was nothing to do it with."""

    name: str
    sum: str
    result: str
    note: str = ""


@dataclass(frozen=True)
class Testimony:
    """What a source says of the model, and how far that is believed. Texts are empty where it says nothing."""

    source: str
    weight: str
    verdict: str
    name: str = ""
    standing: str = ""
    percentile: str = ""
    belief: str = ""
    method: str = ""
    as_of: datetime | None = None
    attribution: str = ""


@dataclass(frozen=True)
class Benchmark:
    name: str
    value: str
    setting: str
    published: str
    source: str
    licence: str


@dataclass(frozen=True)
class Explanation:
    version: str
    steps: list[Step]
    testimonies: list[Testimony]
    benchmarks: list[Benchmark]


_METHODS = {method.value: method.label for method in Alias.Method}
_BENCHMARKS = {"mmlu": "MMLU", "hellaswag": "HellaSwag", "human_eval": "HumanEval"}


def explain(entry: Entry) -> Explanation | None:
    """None for an entry that does not say what it was made of."""
    if entry.source == Source.INTERNAL:
        return _internal(entry) if "sources" in entry.inputs else None
    return _external(entry) if "value" in entry.inputs else None


def _external(entry: Entry) -> Explanation:
    """The source's own score; ours is only how far it is believed."""
    note = "how sure it is that this is the model × how exact the source is × how new its figures are"
    step = Step("Confidence", _belief(entry.inputs), f"{entry.confidence:.2f}", note)
    testimony = _testimony({**entry.inputs, "source": entry.source}, "", "")
    return Explanation(entry.inputs["version"], [step], [testimony], [])


def _internal(entry: Entry) -> Explanation:
    inputs, used = entry.inputs, parameters.in_force()
    return Explanation(
        version=inputs["version"],
        steps=[
            _overall(entry),
            *_quality(inputs),
            _speed(inputs["speed"], used),
            _cost(inputs["cost"], used),
            _confidence(entry, inputs["sources"]),
        ],
        testimonies=[_testimony(said, f"{said['weight']:g}", _verdict(said)) for said in inputs["sources"]],
        benchmarks=[_benchmark(figure) for figure in inputs["benchmarks"]],
    )


# --- The sums -----------------------------------------------------------------------------------------------------


def _overall(entry: Entry) -> Step:
    inputs = entry.inputs
    scores = {"quality": inputs["believed"], "speed": entry.speed, "cost": entry.cost}
    known = [(inputs["weights"][name], score) for name, score in scores.items() if score is not None]
    unknown = [name for name, score in scores.items() if score is None]
    note = "quality as far as it is believed, speed and cost, each by its weight"
    if unknown:
        note += f"; not known, and without a part in it: {', '.join(unknown)}"
    return Step("Overall", _mean(known), _tenths(entry.overall), note)


def _quality(inputs: dict[str, Any]) -> list[Step]:
    heard = [said for said in inputs["sources"] if said["is_heard"]]
    applicable = [said["weight"] for said in inputs["sources"] if said["is_applicable"]]
    coverage, quality, prior = inputs["coverage"], inputs["quality"], inputs["prior"]
    shares = f"{_sum(said['weight'] for said in heard)} ÷ {_sum(applicable)}" if applicable else ""
    evidence = f"{coverage:.2f} × {quality or 0:.1f} + {prior['weight']:g} × {prior['quality']:g}"
    notes = {
        "Quality": "the percentiles at the sources, each by the source's weight" if heard else "no source has tested it",
        "Coverage": "weights of the sources that say something ÷ of those that could",
        "Believed quality": "the less is known, the nearer to what a model without evidence is taken to have",
    }
    sums = [
        ("Quality", _mean([(said["weight"], said["percentile"]) for said in heard]), _tenths(quality)),
        ("Coverage", shares, f"{coverage:.2f}"),
        ("Believed quality", f"({evidence}) ÷ ({coverage:.2f} + {prior['weight']:g})", _tenths(inputs["believed"])),
    ]
    return [Step(name, sum, result, notes[name]) for name, sum, result in sums]


def _speed(said: dict[str, Any], used: FormulaParameters) -> Step:
    rate, begins = said["tokens_per_second"], said["first_token_seconds"]
    throughput = formula.speed(used, tokens_per_second=rate, first_token_seconds=None)
    latency = formula.speed(used, tokens_per_second=None, first_token_seconds=begins)
    parts = [(used.throughput_share, throughput), (1 - used.throughput_share, latency)]
    sum = _mean([(weight, part) for weight, part in parts if part is not None])
    return Step("Speed", sum, _tenths(said["score"]), _speed_note(said, rate, begins))


def _speed_note(said: dict[str, Any], rate: float | None, begins: float | None) -> str:
    if said["score"] is None:
        return "nobody has measured it so far"
    measured = [
        f"{rate:.1f} tokens per second" if rate is not None else "",
        f"{begins:.2f} s to the first token" if begins is not None else "",
    ]
    own = f"medians of {said['streams']} streams through this gateway"
    by = own if said["source"] == Source.INTERNAL else f"as {registry.spec(said['source']).title} measured it"
    return f"{', '.join(filter(None, measured))}; {by}"


def _cost(said: dict[str, Any], used: FormulaParameters) -> Step:
    if said["blended_usd"] is None:
        return Step("Cost", "", "", "its price is not known")
    usd = dollars.format_computed_usd
    blended = f"(3 × {usd(said['input_usd'])} + {usd(said['output_usd'])}) ÷ 4 = {usd(said['blended_usd'])}"
    anchors = f"100 at {usd(used.blended_dollars_best)}, 0 at {usd(used.blended_dollars_worst)}"
    note = f"{blended} per million tokens; {anchors}, by the logarithm"
    return Step("Cost", "", _tenths(said["score"]), note)


def _confidence(entry: Entry, said: list[dict[str, Any]]) -> Step:
    beliefs = [f"{each['weight']:g} × {_belief(each)}" for each in said if each["is_heard"]]
    applicable = _sum(each["weight"] for each in said if each["is_applicable"])
    sum = f"({' + '.join(beliefs)}) ÷ {applicable}" if beliefs else ""
    compared = " and ".join(spec.title for spec in registry.weighted_specs() if spec.is_compared)
    note = f"weight × identity × precision × freshness of what was heard; less, where {compared} disagree"
    return Step("Confidence", sum, f"{entry.confidence:.2f}", note)


def _mean(parts: list[tuple[float, float]]) -> str:
    if not parts:
        return ""
    products = " + ".join(f"{weight:g} × {value:.1f}" for weight, value in parts)
    return f"({products}) ÷ {_sum(weight for weight, _ in parts)}"


def _sum(weights: Iterable[float]) -> str:
    return f"{round(sum(weights), 6):g}"


def _tenths(score: float | None) -> str:
    return "" if score is None else f"{score:.1f}"


# --- What was said --------------------------------------------------------------------------------------------------


def _verdict(said: dict[str, Any]) -> str:
    if said["is_heard"]:
        return "counts"
    if said["is_applicable"]:
        return "could say something, and says nothing"
    return "says too little of this category, or of such models, to count"


def _testimony(said: dict[str, Any], weight: str, verdict: str) -> Testimony:
    source = registry.spec(said["source"]).title
    if "value" not in said:
        return Testimony(source, weight, verdict)
    return Testimony(
        source=source,
        weight=weight,
        verdict=verdict,
        name=said["name"],
        standing=f"rank {said['rank']} of {said['population']}, at {said['value']:,.6g}",
        percentile=_tenths(said["percentile"]),
        belief=_belief(said),
        method=_METHODS.get(said["method"], ""),
        as_of=datetime.fromisoformat(said["as_of"]),
        attribution=said["attribution"],
    )


def _belief(said: dict[str, Any]) -> str:
    return " × ".join(f"{said[name]:.2f}" for name in ("identity", "precision", "freshness"))


def _benchmark(figure: dict[str, Any]) -> Benchmark:
    return Benchmark(
        name=_BENCHMARKS[figure["benchmark"]],
        value=f"{figure['value']:.1f}",
        setting=figure["setting"],
        published=figure["published"],
        source=figure["source"],
        licence=figure["licence"],
    )


def titled(by_source: Mapping[str, float]) -> list[tuple[str, float]]:
    """What the parameters have by a source's short name, by its title."""
    titles = {spec.short_name: spec.title for spec in registry.fetched_specs()}
    return [(titles[short], number) for short, number in by_source.items()]
