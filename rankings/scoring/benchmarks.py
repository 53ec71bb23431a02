"""Reads the curated figures of MMLU, HellaSwag and HumanEval: ``benchmarks.toml``. No source has them for today's models."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "benchmarks.toml"
NAMES = ("mmlu", "hellaswag", "human_eval")


@dataclass(frozen=True)
class BenchmarkFigure:
    """A published measurement: ``value`` of 100, and the page that says so. ``published`` is a year and a month."""

    model: str
    benchmark: str
    value: float
    setting: str
    published: str
    source: str
    licence: str

    def __post_init__(self) -> None:
        if self.benchmark not in NAMES or not 0 < self.value <= 100 or not self.source.startswith("https://"):
            raise ValueError(f"{FILE.name}: the {self.benchmark} of {self.model} has an impossible value or source")


@cache
def figures() -> dict[str, dict[str, BenchmarkFigure]]:
    """Return the figures by model id and benchmark. Raises ValueError for an impossible or repeated figure."""
    found: dict[str, dict[str, BenchmarkFigure]] = {}
    for row in tomllib.loads(FILE.read_text(encoding="utf-8"))["figures"]:
        figure = BenchmarkFigure(**row)
        if figure.benchmark in found.setdefault(figure.model, {}):
            raise ValueError(f"{FILE.name}: the {figure.benchmark} of {figure.model} is there twice")
        found[figure.model][figure.benchmark] = figure
    return found
