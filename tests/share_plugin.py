"""A pytest plugin that fails a run of the whole suite in which one test file takes more than its share of the time.

The suite answers soon only as long as no file grows at the cost of the others. A share is of the processor time of all files:
of the worker, and of processes of the tests that have ended. So it depends neither on how fast the machine is nor on how busy.
Fixtures of the session, such as the test database, belong to no file. ``make test ARGS=--durations=20`` prints the shares, and
the time on the clock, which also counts waiting.
"""

import functools
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

SHARE_MAX = 0.05
SHARES_MAX = {  # of files that may take more, and why
    "tests/gateway_project/local/test_supervisor.py": (0.10, "starts whole gateways from nothing"),
    "tests/pages/test_look_of_the_admin.py": (0.10, "draws every page of the support desk in a browser"),
    "tests/pages/test_look_of_the_pages.py": (0.10, "draws every page in a browser"),
}


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


def excesses(times: dict[str, Times]) -> list[str]:
    """Return a sentence for each file that takes more than its share."""
    total_seconds = sum(each.cpu_seconds for each in times.values()) or 1.0
    found = []
    for file, each in sorted(times.items()):
        share, share_max = each.cpu_seconds / total_seconds, SHARES_MAX.get(file, (SHARE_MAX, ""))[0]
        if share > share_max:
            found.append(f"{file} takes {share:.1%} of the processor time of all tests; {share_max:.0%} is its share.")
    return found


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


# --- The verdict, where the reports arrive ---------------------------------------------------------------------------------


class Verdict:
    """Sums up the reports of a run of the whole suite."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._times: dict[str, Times] = defaultdict(Times)
        self._excesses: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if hasattr(report, "cpu_seconds"):  # no worker has measured its own death
            self._times[report.nodeid.partition("::")[0]] += Times(report.cpu_seconds, report.clock_seconds)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK:  # a test that fails stops early, or waits for long
            self._excesses = excesses(self._times)
            if self._excesses:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._excesses or self._config.option.durations is not None:
            terminalreporter.section("test files that take the most time")
            for line in _table(self._times):
                terminalreporter.write_line(line)
        for excess in self._excesses:
            terminalreporter.write_line(f"FAILED {excess} Make it cheaper, or see tests/share_plugin.py.", red=True)


def _table(times: dict[str, Times], rows: int = 20) -> Iterable[str]:
    total = functools.reduce(Times.__add__, times.values(), Times())
    for file, each in sorted(times.items(), key=lambda item: -item[1].clock_seconds)[:rows]:
        cpu, clock = each.cpu_seconds / (total.cpu_seconds or 1), each.clock_seconds / (total.clock_seconds or 1)
        yield f"{each.clock_seconds:7.1f} s {clock:6.1%}   processor {each.cpu_seconds:6.1f} s {cpu:6.1%}   {file}"


# --- Whether the whole suite runs ------------------------------------------------------------------------------------------


def runs_everything(config: pytest.Config) -> bool:
    """Return whether this is a run of all tests: without files, expressions, or a choice of what changed or failed."""
    option, chosen = config.option, ("keyword", "deselect", "ignore", "ignore_glob", "lf", "stepwise", "collectonly", "mutant")
    return (
        config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and config.invocation_params.dir == config.rootpath
        and not any(getattr(option, name, None) for name in chosen)
        and option.markexpr == "not long"
        and option.mutants == "dangerous"
        and option.changed is None
    )


def pytest_configure(config: pytest.Config) -> None:
    if not runs_everything(config):
        return
    config.pluginmanager.register(Meter())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Verdict(config))
