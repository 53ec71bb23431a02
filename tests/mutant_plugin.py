"""A pytest plugin that runs tests against mutants of the gateway (``tests.mutants``), in their own process and database.

    pytest                                        all tests, and each dangerous mutant with the tests that must kill it
    pytest --mutants=all tests/billing            only mutants: every one with the tests there that must kill it
    pytest --mutants=none                         no mutants
    pytest --mutant=settle_twice tests/billing    those tests with that mutant, to see how they fail

A test that must kill a mutant passes when it fails, and fails when the mutant survives. The same test also runs without a
mutant, after those with one, so that state left behind by a mutant makes it fail. Every mutant must also pass one test of a
plain completion: a mutant that breaks everything would prove nothing.
"""

import functools
import traceback
from collections import defaultdict
from collections.abc import Generator, Mapping
from typing import Any

import hypothesis
import pytest
from django.db import connection

from tests import waiting
from tests.mutants import LONG, MUTANTS, SERVES

_WAIT_SECONDS_MAX = 2  # of a test that must fail: a mutant may be what it waits for in vain
# A failing test leaves threads and unread streams behind.
_LEFT_BEHIND = [f"ignore::pytest.Pytest{what}ExceptionWarning" for what in ("Unraisable", "UnhandledThread")]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutants")
    group.addoption("--mutant", choices=MUTANTS, help="run all selected tests with this mutant")
    group.addoption("--mutants", choices=["all", "dangerous", "none"], default="dangerous", help="which mutants must be killed")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.mutants != "all":
        return
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = killer_files()
    for filter_ in _LEFT_BEHIND:
        config.addinivalue_line("filterwarnings", filter_)
    # The first failing example is enough; shrinking it and looking for others take minutes.
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", hypothesis.settings(), phases=phases, report_multiple_bugs=False)
    hypothesis.settings.load_profile("mutants")


# --- Selection of tests --------------------------------------------------------------------------------------------


def killer_files() -> list[str]:
    """Return the files with tests that must kill mutants, those with the slowest first, so that no core is idle at the end."""
    files = {_file(test) for mutant in MUTANTS.values() for test in mutant.tests}
    return sorted(files, key=lambda file: (file not in map(_file, LONG), file))


def killed_by(test: str, which: str) -> list[str]:
    """Return the names of the mutants, all or the dangerous ones, that the test must kill, or its function with others."""
    return _killed(which).get(_function(test), [])


@functools.cache
def _killed(which: str) -> Mapping[str, list[str]]:
    """Return the names of the mutants by the function that must kill them. Each worker asks for thousands of functions."""
    killed = defaultdict(list)
    for name, tests in runs(which).items():
        for function in set(map(_function, tests)):
            killed[function].append(name)
    return killed


def runs(which: str) -> dict[str, set[str]]:
    """Return the tests that run with each mutant: of the dangerous ones without the slow tests."""
    if which == "all":
        return {name: set(mutant.tests) for name, mutant in MUTANTS.items()}
    return {name: set(mutant.tests) - LONG for name, mutant in MUTANTS.items() if mutant.dangerous and which == "dangerous"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    option = metafunc.config.option
    names = [option.mutant] if option.mutant else killed_by(metafunc.definition.nodeid, option.mutants)
    if names:
        mutants = [pytest.param(name, id=f"@{name}") for name in names]
        if not option.mutant:
            mutants.append(pytest.param(None, id=pytest.HIDDEN_PARAM))  # last: without a mutant
        metafunc.fixturenames.append("mutant")
        metafunc.parametrize("mutant", mutants)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    which = config.option.mutants
    if config.option.mutant:
        return
    if not any("::" in argument for argument in config.args):
        require_all(which, {(mutant_of(item), _plain(item.nodeid)) for item in items})
    wanted = _wanted(which)
    items[:] = [
        item
        for item in items
        if (mutant_of(item), _plain(item.nodeid)) in wanted
        or (which != "all" and not mutant_of(item))  # the tests without a mutant
    ]
    for item in filter(mutant_of, items):
        for filter_ in _LEFT_BEHIND:
            item.add_marker(pytest.mark.filterwarnings(filter_))


def require_all(which: str, collected: set[tuple[str, str]]) -> None:
    """Stop the run if a test that must run with a mutant, or without one, is not collected, though its file is."""
    files = {_file(test) for _, test in collected}
    if missing := {test for _, test in _wanted(which) - collected if _file(test) in files}:
        raise pytest.UsageError(f"mutants name tests that do not exist: {', '.join(sorted(missing))}")


def _wanted(which: str) -> set[tuple[str, str]]:
    """Return the runs: the name of a mutant and a test; and each test that is not slow without one."""
    wanted = {(name, test) for name, tests in runs(which).items() for test in tests}
    return wanted | {("", test) for _, test in wanted if test not in LONG}


def mutant_of(item: pytest.Item) -> str:
    """Return the name of the mutant of this test, or an empty text."""
    return item.callspec.params.get("mutant") or "" if hasattr(item, "callspec") else ""


def _plain(node_id: str) -> str:
    """Return the id of the test without the name of its mutant."""
    name, bracket, parameters = node_id.rstrip("]").partition("[")
    own = "-".join(parameter for parameter in parameters.split("-") if not parameter.startswith("@"))
    return f"{name}[{own}]" if own else name


def _function(node_id: str) -> str:
    return node_id.partition("[")[0]


def _file(node_id: str) -> str:
    return node_id.partition("::")[0]


# --- Running a test with its mutant --------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    name = mutant_of(item)
    if not name:
        return (yield)
    must_fail = not item.config.option.mutant and _plain(item.nodeid) != SERVES
    with MUTANTS[name].change.applied(), pytest.MonkeyPatch.context() as patch:
        if must_fail:
            patch.setattr(waiting, "SECONDS_MAX", _WAIT_SECONDS_MAX)
        try:
            outcome = yield
        except (Exception, pytest.fail.Exception) as error:
            if not must_fail:
                raise
            _close(error)
            return None
        finally:
            if connection.in_atomic_block:
                connection.set_rollback(True)  # skips the deferred checks of a mutant's writes
    if must_fail:
        pytest.fail(f"The mutant {name} survives this test. {MUTANTS[name].breaks}", pytrace=False)
    return outcome


def _close(error: BaseException | None) -> None:
    """Close what the failed test left open, such as streams, at once instead of at a later garbage collection."""
    while error:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
