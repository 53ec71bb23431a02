"""The curated figures of MMLU, HellaSwag and HumanEval: ``benchmarks.toml``. No live source has them for today's models."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "benchmarks.toml"
NAMES = ("mmlu", "hellaswag", "human_eval")


@dataclass(frozen=True)
class Figure:
    """What was measured, as ``value`` of 100, and where that stands. ``published`` is a year and a month."""

    model: str
    benchmark: str
    value: float
    setting: str
    published: str
    source: str
    licence: str

    def __post_init__(self) -> None:
        if self.benchmark not in NAMES or not 0 < self.value <= 100 or not self.source.startswith("https://"):
            raise ValueError(f"{FILE.name}: the {self.benchmark} of {self.model} cannot be so")


@cache
def figures() -> dict[str, dict[str, Figure]]:
    """By model id and benchmark. Raises ValueError for a figure that cannot be, or that is there twice."""
    found: dict[str, dict[str, Figure]] = {}
    for row in tomllib.loads(FILE.read_text(encoding="utf-8"))["figures"]:
        figure = Figure(**row)
        if figure.benchmark in found.setdefault(figure.model, {}):
            raise ValueError(f"{FILE.name}: the {figure.benchmark} of {figure.model} is there twice")
        found[figure.model][figure.benchmark] = figure
    return found
