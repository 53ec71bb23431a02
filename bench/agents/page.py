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


def with_table(text: str, columns: list[str], rows: list[list[str]]) -> str:
    """Return the text of a page with another table in place of its own."""
    head = ["", "Version", "Speaks", *columns]
    table = "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))
    return re.sub(r"(?m)(?:^\|.*\n)+", lambda _: table, text, count=1)
