"""Marks the tests that bring a fault about, in the words of an operator, and writes the table of `docs/reliability.md`.

``make faults`` runs the marked tests (``tests.fault_plugin``). Those marked ``pytest.mark.long``, too, run only
there, as do long tests of anything else.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"
PLACES = (
    "Web process",
    "Worker",
    "Database",
    "Redis",
    "Provider",
    "Network",
    "Disk",
    "Client",
    "Clock",
    "Deployment",
)
_BEGIN, _END = "<!-- Written by `make faults`. -->\n", "<!-- The end of what it writes. -->\n"


@dataclass(frozen=True)
class Fault:
    """Where something fails, what fails, and what the gateway then does."""

    place: str
    what: str
    then: str

    def __post_init__(self) -> None:
        assert self.place in PLACES, self.place


def fault(place: str, what: str, then: str) -> pytest.MarkDecorator:
    """Mark a test that brings ``what`` about and asserts ``then``. Pass literals: ``marked`` reads the source."""
    return pytest.mark.fault(Fault(place, what, then))


def marked() -> dict[str, Fault]:
    """Return the fault of each marked test function, by its id: the path of its file and its name."""
    found = {}
    sources = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    for path in [path for path, source in sources.items() if "@fault(" in source]:  # to parse all takes a second
        functions = [node for node in ast.parse(sources[path]).body if isinstance(node, ast.FunctionDef)]
        for function, decorator in [(each, decorator) for each in functions for decorator in each.decorator_list]:
            match decorator:
                case ast.Call(func=ast.Name(id="fault"), args=arguments):
                    found[f"{path.relative_to(ROOT)}::{function.name}"] = Fault(*map(ast.literal_eval, arguments))
    return found


# --- The page -----------------------------------------------------------------------------------------------------


def written(page: str, summary: str, faults: dict[str, Fault], verdicts: dict[str, str]) -> str:
    """Return the page with the summary and the tables of these faults in place of what was between its two comments."""
    before, _, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert end, "the page has no place for the table"
    tables = [_table(place, faults, verdicts) for place in PLACES if any(each.place == place for each in faults.values())]
    return before + _BEGIN + "\n" + "\n".join([f"{summary}\n", *tables]) + "\n" + _END + after


def _table(place: str, faults: dict[str, Fault], verdicts: dict[str, str]) -> str:
    lines = [f"### {place}", "", "| Fault | What happens | Verdict | Test |", "|---|---|---|---|"]
    for test, each in sorted(faults.items()):
        if each.place == place:
            lines.append(f"| {each.what} | {each.then} | {verdicts.get(test, 'not run')} | {_link(test)} |")
    return "\n".join([*lines, ""])


def _link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[`{name}`](../{path})"


def in_the_page(page: str) -> dict[str, tuple[Fault, str]]:
    """Return the faults of the tables and their verdicts, by test."""
    found, place = {}, ""
    for line in _between(page).splitlines():
        if line.startswith("### "):
            place = line.removeprefix("### ")
        elif link := re.search(r"\[`(\w+)`\]\(\.\./(\S+)\) \|$", line):
            what, then, verdict = line.strip("| ").split(" | ")[:3]
            found[f"{link[2]}::{link[1]}"] = (Fault(place, what, then), verdict)
    return found


def summary_in(page: str) -> str:
    """Return what stands above the tables."""
    return _between(page).partition("### ")[0].strip()


def _between(page: str) -> str:
    return page.partition(_BEGIN)[2].partition(_END)[0]
