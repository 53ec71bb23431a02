"""A pytest plugin that prints which test files take the most time, when ``--durations`` asks for times.

With ``--file-share-max=3`` a run fails if a file takes more than 3 % of the processor time of all, and has no system tests.

Processor time is shown beside the time on the clock: of the worker, and of processes of the tests that have ended. So a server
that many files share counts in the file that ends it. Fixtures of the session, such as the test database, belong to no file.
"""

import functools
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Times:
    """Seconds of the processor, and seconds on the clock."""

    cpu_seconds: float = 0.0
    clock_seconds: float = 0.0

    def __add__(self, other: "Times") -> "Times":
        return Times(self.cpu_seconds + other.cpu_seconds, self.clock_seconds + other.clock_seconds)

    def __sub__(self, other: "Times") -> "Times":
        return Times(self.cpu_seconds - other.cpu_seconds, self.clock_seconds - other.clock_seconds)


def now() -> Times:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Times(time.process_time() + ended.ru_utime + ended.ru_stime, time.monotonic())


# --- Measuring, in each worker -----------------------------------------------------------------------------------------


class Meter:
    """Adds what each phase of a test took to its report, without what fixtures of the session took."""

    def __init__(self) -> None:
        self._last = now()
        self._fixtures_depth = 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope != "session":
            return (yield)
        began, self._fixtures_depth = now(), self._fixtures_depth + 1
        try:
            return (yield)
        finally:
            self._fixtures_depth -= 1
            if not self._fixtures_depth:
                self._last += now() - began

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        self._last = now()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        report.cpu_seconds, report.clock_seconds = vars(now() - self._last).values()
        self._last = now()
        return report


# --- The table, where the reports arrive -----------------------------------------------------------------------------------


class Summary:
    """Sums up the reports of all workers. Prints the files that take the most time, or those that take too much of it."""

    def __init__(self, share_percent_max: float | None) -> None:
        self._share_percent_max = share_percent_max
        self._times: dict[str, Times] = defaultdict(Times)
        self._system_files: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        file = report.nodeid.partition("::")[0]
        if hasattr(report, "cpu_seconds"):  # no worker has measured its own death
            self._times[file] += Times(report.cpu_seconds, report.clock_seconds)
        if "system" in report.keywords:
            self._system_files.add(file)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        if self._too_dear() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._share_percent_max is None:
            terminalreporter.section("test files that take the most time")
        elif self._too_dear():
            terminalreporter.section(f"test files that take more than {self._share_percent_max:g} % of the processor time")
        for line in _table(self._times if self._share_percent_max is None else self._too_dear(), _total(self._times)):
            terminalreporter.write_line(line)

    def _too_dear(self) -> dict[str, Times]:
        if self._share_percent_max is None:
            return {}
        most = _total(self._times).cpu_seconds * self._share_percent_max / 100
        dear = {file: each for file, each in self._times.items() if each.cpu_seconds > most}
        return {file: each for file, each in dear.items() if file not in self._system_files}


def _total(times: dict[str, Times]) -> Times:
    return functools.reduce(Times.__add__, times.values(), Times())


def _table(times: dict[str, Times], total: Times, rows: int = 20) -> Iterable[str]:
    for file, each in sorted(times.items(), key=lambda item: -item[1].clock_seconds)[:rows]:
        cpu, clock = each.cpu_seconds / (total.cpu_seconds or 1), each.clock_seconds / (total.clock_seconds or 1)
        yield f"{each.clock_seconds:7.1f} s {clock:6.1%}   processor {each.cpu_seconds:6.1f} s {cpu:6.1%}   {file}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--file-share-max", type=float, metavar="PERCENT", help="fail if a file takes more of the processor time of all tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.durations is None and config.option.file_share_max is None:
        return
    config.pluginmanager.register(Meter())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(config.option.file_share_max))
