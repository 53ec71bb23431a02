"""Marks the tests that bring a fault about, in the words of an operator, and writes the lists of `docs/reliability.md`.

``make faults`` runs the marked tests (``tests.fault_plugin``). Those marked ``pytest.mark.long``, too, run only
there, as do long tests of anything else.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass
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
_COLUMNS = (
    "Requests",
    "Whole replies",
    "Refused",
    "Refused within, s",
    "Pause, s",
    "Others",
    "Back in, s",
)
HELD = "held"  # the verdict that the lists leave out
_BEGIN, _END = "<!-- Written by `make faults`. -->\n", "<!-- The end of what it writes. -->\n"


@dataclass(frozen=True)
class Fault:
    """Where something fails, what fails, and what the gateway then does."""

    place: str
    what: str
    then: str

    def __post_init__(self) -> None:
        assert self.place in PLACES, self.place


@dataclass(frozen=True)
class Figures:
    """What a test under load has counted: the cells of its row, in the order of the columns."""

    requests: int
    replies: int  # whole ones
    refused: int
    refused_seconds: float | None = None  # how long the slowest hundredth of the refusals took
    pause_seconds: float | None = None  # the longest time within which nobody got a whole reply, though somebody asked
    others: float | None = None  # the rate of those that the fault should not reach, divided by theirs before
    back_seconds: float | None = None  # from the end of the fault until every host had served a whole reply

    def cells(self) -> str:
        return " | ".join("-" if value is None else _cell(value) for value in astuple(self))


def _cell(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def combined(figures: Sequence[Figures]) -> Figures:
    """Return the figures of several runs of one test: the sums of what is counted, and the worst of what is measured."""
    columns = [[value for value in column if value is not None] for column in zip(*map(astuple, figures), strict=True)]
    worst = [max, max, min, max]
    measured = [choose(column) if column else None for choose, column in zip(worst, columns[3:], strict=True)]
    return Figures(*map(sum, columns[:3]), *measured)


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


def written(
    page: str, summary: str, faults: dict[str, Fault], verdicts: dict[str, str], figures: dict[str, str] | None = None
) -> str:
    """Return the page with the summary and the lists of these faults in place of what was between its two comments.

    ``figures`` are the cells of the tests that counted, by test.
    """
    before, _, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert end, "the page has no place for the lists"
    lists = [_list(place, faults, verdicts) for place in PLACES if any(each.place == place for each in faults.values())]
    lists = [_figures_table(faults, figures), *lists] if figures else lists
    return before + _BEGIN + "\n" + "\n".join([f"{summary}\n", *lists]) + "\n" + _END + after


def _figures_table(faults: dict[str, Fault], figures: dict[str, str]) -> str:
    heads = " | ".join(["Test", *_COLUMNS])
    lines = ["### Under load", "", f"| {heads} |", "|---" + "|---:" * len(_COLUMNS) + "|"]
    lines += [f"| {_link(test)} | {figures[test]} |" for test in sorted(faults) if test in figures]
    return "\n".join([*lines, ""])


def _list(place: str, faults: dict[str, Fault], verdicts: dict[str, str]) -> str:
    lines = [f"### {place}", ""]
    for test, each in sorted(faults.items()):
        if each.place == place:
            verdict = verdicts.get(test, "not run")
            lines.append(f"- **{each.what}.** {each.then}. {_link(test)}{'' if verdict == HELD else f': {verdict}'}")
    return "\n".join([*lines, ""])


def _link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[`{name}`](../{path})"


def in_the_page(page: str) -> dict[str, tuple[Fault, str]]:
    """Return the faults of the lists and their verdicts, by test."""
    row = re.compile(r"- \*\*(.+?)\.\*\* (.+)\. \[`(\w+)`\]\(\.\./([^)]+)\)(?:: (.+))?")
    found, place = {}, ""
    for line in _between(page).splitlines():
        if line.startswith("### "):
            place = line.removeprefix("### ")
        elif (cells := row.fullmatch(line)) and place in PLACES:
            found[f"{cells[4]}::{cells[3]}"] = Fault(place, cells[1], cells[2]), cells[5] or HELD
    return found


def figures_in(page: str) -> dict[str, str]:
    """Return the cells of the tests that counted, by test."""
    rows = re.findall(r"^\| \[`(\w+)`\]\(\.\./([^)]+)\) \| (.+) \|$", _between(page), re.MULTILINE)
    return {f"{path}::{name}": cells for name, path, cells in rows}


def earlier_in(page: str, today: str) -> dict[str, str]:
    """Return the verdicts of the lists, by test: those of an earlier day than ``today`` with their date."""
    date = re.search(r"^On (.+?),", _between(page), re.MULTILINE)
    suffix = f"; run on {date[1]}" if date and date[1] != today else ""
    verdicts = {test: verdict for test, (_, verdict) in in_the_page(page).items()}
    is_complete = re.compile("not run$|.*; run on ").match
    return {test: verdict if is_complete(verdict) else verdict + suffix for test, verdict in verdicts.items()}


# --- The table of misbehaving providers ---------------------------------------------------------------------------

PROVIDER_COLUMNS = ("One route, whole", "One route, streamed", "Two routes, whole", "Two routes, streamed")
_PROVIDERS_BEGIN = "<!-- Misbehaving providers: written by `make faults`. -->\n"
_PROVIDERS_END = "<!-- The end of misbehaving providers. -->\n"
Cells = dict[tuple[str, str], str]  # by fault and column


def with_providers(page: str, cells: Cells) -> str:
    """Return the page with these cells in the table of misbehaving providers, and its other cells as they were."""
    before, _, rest = page.partition(_PROVIDERS_BEGIN)
    _, end, after = rest.partition(_PROVIDERS_END)
    assert end, "the page has no place for the table of misbehaving providers"
    all_cells = providers_in(page) | cells
    lines = [f"| {' | '.join(['Fault', *PROVIDER_COLUMNS])} |", "|---" * (1 + len(PROVIDER_COLUMNS)) + "|"]
    for what in dict.fromkeys(what for what, _ in all_cells):
        lines.append(f"| {' | '.join([what, *(all_cells.get((what, column), '-') for column in PROVIDER_COLUMNS)])} |")
    return before + _PROVIDERS_BEGIN + "\n" + "\n".join(lines) + "\n\n" + _PROVIDERS_END + after


def providers_in(page: str) -> Cells:
    """Return the cells of the table of misbehaving providers."""
    table = page.partition(_PROVIDERS_BEGIN)[2].partition(_PROVIDERS_END)[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    return {(what, column): cell for what, *cells in rows for column, cell in zip(PROVIDER_COLUMNS, cells, strict=True)}


def _between(page: str) -> str:
    return page.partition(_BEGIN)[2].partition(_END)[0]
