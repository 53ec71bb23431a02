"""A pytest plugin that writes the verdicts of the tests marked as faults into `docs/reliability.md`: ``make faults``.

A run of some of them replaces their verdicts; the others get the date of their run. A test adds what it
measured to its verdict by ``record_property("measured", text)``, and ``Figures`` by ``record_property("figures", ...)``.
``record_property("provider", (fault, column, cell))`` adds a cell to the table of misbehaving providers.
"""

import os
import platform
import re
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version

import psycopg
import pytest

from tests import faults
from tests.faults import PAGE, Fault, Figures


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Verdicts())


class Verdicts:
    """The outcomes of each marked test function, over all its parameters."""

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}
        self._outcomes: dict[str, Counter[str]] = {}
        self._remarks: dict[str, str] = {}  # what was measured, or why it did not run
        self._figures: dict[str, list[Figures]] = {}
        self._providers: faults.Cells = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        marks = [(item.nodeid, item.get_closest_marker("fault")) for item in session.items]
        self._faults = {_function(nodeid): mark.args[0] for nodeid, mark in marks if mark}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = _function(report.nodeid)
        if test not in self._faults or (report.when != "call" and report.passed):
            return
        self._outcomes.setdefault(test, Counter())[report.outcome] += 1
        if report.skipped and isinstance(report.longrepr, tuple):
            self._remarks[test] = report.longrepr[2].removeprefix("Skipped: ")
        for name, value in report.user_properties:
            if name == "measured":
                self._remarks[test] = str(value)
            elif name == "figures" and isinstance(value, Figures):
                self._figures.setdefault(test, []).append(value)
            elif name == "provider" and isinstance(value, tuple):
                what, column, cell = value
                self._providers[what, column] = cell

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        verdicts = {test: self._verdict(test) for test in self._faults}
        figures = {test: faults.combined(each).cells() for test, each in self._figures.items()}
        everything, page = faults.marked(), faults.with_providers(PAGE.read_text(), self._providers)
        if found := {test: verdict for test, verdict in verdicts.items() if test in everything}:
            earlier = faults.earlier_in(page, _today())
            counted = {test: cells for test, cells in faults.figures_in(page).items() if test not in found} | figures
            all_verdicts = {test: found.get(test) or earlier.get(test, "not run") for test in everything}
            PAGE.write_text(faults.written(page, _summary(all_verdicts), everything, all_verdicts, counted))
        for test, verdict in verdicts.items():
            terminalreporter.write_line(f"{verdict:12} {self._faults[test].what} ({test})")

    def _verdict(self, test: str) -> str:
        counts, remark = self._outcomes.get(test, Counter()), self._remarks.get(test)
        if counts["failed"]:
            return "**failed**"
        if counts["passed"] and not counts["skipped"]:
            return f"{faults.HELD}: {remark}" if remark else faults.HELD
        return f"not run: {remark}" if remark else "not run"


def _summary(verdicts: dict[str, str]) -> str:
    count = Counter(re.split("[:;]", verdict.strip("*"))[0] for verdict in verdicts.values())
    packages = ", ".join(f"{name} {version(name)}" for name in ("Django", "gunicorn", "gevent", "psycopg"))
    return (
        f"On {_today()}, on {os.cpu_count()} cores with {platform.system()} {platform.release()}, Python"
        f" {platform.python_version()}, PostgreSQL {_server_version()}, {packages}: of {len(verdicts)} faults"
        f" {count['held']} held, {count['failed']} failed, {count['not run']} did not run."
    )


def _today() -> str:
    return datetime.now(UTC).strftime("%-d %B %Y")


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _server_version() -> str:
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        return ".".join(map(str, divmod(connection.info.server_version, 10_000)))
