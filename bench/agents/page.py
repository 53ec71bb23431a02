"""docs/api/agents.md: the table, which is written, and what the programs are told, which is read from it."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/api/agents.md"


def task() -> str:
    """Return what each program is asked to do."""
    return PAGE.read_text().split("\n> ")[1].splitlines()[0]


def block(heading: str) -> str:
    """Return the first block of code under a heading."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1]
    return section.split("```")[1].partition("\n")[2]


def with_table(text: str, models: list[str], echo: str, rows: list[list[str]]) -> str:
    """Return the text of a page with another table in place of its own. A result of all models is told once."""
    told = [[*row[:3], row[3] if len({*row[3:-1]}) == 1 else _each(models, row[3:-1]), row[-1]] for row in rows]
    head = ["", "Version", "Speaks", "Every model", echo]
    table = "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *told))
    return re.sub(r"(?m)(?:^\|.*\n)+", lambda _: table, text, count=1)


def _each(models: list[str], results: list[str]) -> str:
    return "; ".join(f"{model}: {result}" for model, result in zip(models, results, strict=True))
