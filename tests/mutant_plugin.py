"""A pytest plugin that runs tests against mutants of the gateway (``tests.mutants``). Loaded only on request.

    pytest -p tests.mutant_plugin --mutant=settle_twice tests/billing    those tests with that mutant
    pytest -p tests.mutant_plugin --mutants tests/billing               every mutant with the tests there that must kill it

With ``--mutants``, a test that must kill a mutant passes when it fails, and fails when the mutant survives. The same tests
also run without a mutant in the same process, so that state left behind by a mutant makes them fail. Every mutant must also
pass one test of a plain completion: a mutant that breaks everything would prove nothing.
"""

import traceback
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest
from django.db import connection

from tests import waiting
from tests.mutants import LONG, MUTANTS, SERVES

_DATABASE = "test_mutants"  # not the database of the pytest that starts this one
_WAIT_SECONDS_MAX = 4  # of a test that must fail: a mutant may be what it waits for in vain


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutants")
    group.addoption("--mutant", choices=MUTANTS, help="run all selected tests with this mutant")
    group.addoption("--mutants", action="store_true", help="run each mutant with the tests that must kill it")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    connection.settings_dict["TEST"]["NAME"] = _DATABASE
    # A failing test leaves threads and unread streams behind.
    for left_behind in ("Unraisable", "UnhandledThread"):
        config.addinivalue_line("filterwarnings", f"ignore::pytest.Pytest{left_behind}ExceptionWarning")
    # Any failing example is enough; shrinking it takes minutes.
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", parent=hypothesis.settings(), phases=phases)
    hypothesis.settings.load_profile("mutants")


# --- Selection of tests --------------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.config.option.mutant:
        names: list[str | None] = [metafunc.config.option.mutant]
    elif metafunc.config.option.mutants:
        function = _function(metafunc.definition.nodeid)
        names = [name for name, mutant in MUTANTS.items() if any(_function(test) == function for test in mutant.tests)]
        names.append(None)  # last: without a mutant
    else:
        return
    metafunc.fixturenames.append("mutant")
    metafunc.parametrize("mutant", names, ids=[f"@{name}" for name in names])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.mutants:
        return
    collected = {_plain(item.nodeid) for item in items}
    mutant_tests = {test for mutant in MUTANTS.values() for test in mutant.tests}
    if missing := {test for test in mutant_tests - collected if _file(test) in map(_file, collected)}:
        raise pytest.UsageError(f"mutants name tests that do not exist: {', '.join(sorted(missing))}")
    items[:] = [
        item for item in items if _plain(item.nodeid) in (MUTANTS[_of(item)].tests if _of(item) else mutant_tests - LONG)
    ]


def _of(item: pytest.Item) -> str:
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
    name = _of(item)
    if not name:
        return (yield)
    must_fail = item.config.option.mutants and _plain(item.nodeid) != SERVES
    with MUTANTS[name].applied(), pytest.MonkeyPatch.context() as patch:
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
