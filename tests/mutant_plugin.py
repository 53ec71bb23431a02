"""A pytest plugin: runs tests against the gateway as a mutant has broken it (``tests.mutants``). Loaded only when asked for.

    pytest -p tests.mutant_plugin --mutant=settle_twice tests/billing    those tests, with that mutant let loose
    pytest -p tests.mutant_plugin --mutants tests/billing               every mutant, on the tests there that must catch it

With ``--mutants`` a test that must catch a mutant passes when it fails, and fails when the mutant survives it. The same
tests run without any mutant, too, in the same process: what a mutant left behind would fail them. And with every mutant the
gateway must still serve, or what was caught would not be the mutant but its clumsiness.
"""

import traceback
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest
from django.db import connection

from tests.mutants import LONG, MUTANTS, SERVES

_DATABASE = "test_mutants"  # beside that of whoever runs us


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutants")
    group.addoption("--mutant", choices=MUTANTS, help="let one loose on all tests that are run")
    group.addoption("--mutants", action="store_true", help="let each loose on the tests that must catch it")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    connection.settings_dict["TEST"]["NAME"] = _DATABASE
    # A test that fails leaves threads and streams behind, which nobody reads to their end.
    for left_behind in ("Unraisable", "UnhandledThread"):
        config.addinivalue_line("filterwarnings", f"ignore::pytest.Pytest{left_behind}ExceptionWarning")
    # That something is found is enough; to make the example small takes minutes.
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", parent=hypothesis.settings(), phases=phases)
    hypothesis.settings.load_profile("mutants")


# --- Which tests meet which mutant ---------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.config.option.mutant:
        names: list[str | None] = [metafunc.config.option.mutant]
    elif metafunc.config.option.mutants:
        function = _function(metafunc.definition.nodeid)
        names = [name for name, mutant in MUTANTS.items() if any(_function(test) == function for test in mutant.meets)]
        names.append(None)  # last: without a mutant
    else:
        return
    metafunc.fixturenames.append("mutant")
    metafunc.parametrize("mutant", names, ids=[f"@{name}" for name in names])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.mutants:
        return
    known = {_plain(item.nodeid) for item in items}
    met = {test for mutant in MUTANTS.values() for test in mutant.meets}
    if missing := {test for test in met - known if _file(test) in map(_file, known)}:
        raise pytest.UsageError(f"there are no such tests to meet mutants: {', '.join(sorted(missing))}")
    items[:] = [item for item in items if _plain(item.nodeid) in (MUTANTS[_of(item)].meets if _of(item) else met - LONG)]


def _of(item: pytest.Item) -> str:
    """The mutant that the test meets; empty for none."""
    return item.callspec.params.get("mutant") or "" if hasattr(item, "callspec") else ""


def _plain(node_id: str) -> str:
    """The test's name without that of the mutant that it meets."""
    name, bracket, parameters = node_id.rstrip("]").partition("[")
    own = "-".join(parameter for parameter in parameters.split("-") if not parameter.startswith("@"))
    return f"{name}[{own}]" if own else name


def _function(node_id: str) -> str:
    return node_id.partition("[")[0]


def _file(node_id: str) -> str:
    return node_id.partition("::")[0]


# --- The meeting ---------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    name = _of(item)
    if not name:
        return (yield)
    must_notice = item.config.option.mutants and _plain(item.nodeid) != SERVES
    with MUTANTS[name].loose():
        try:
            outcome = yield
        except (Exception, pytest.fail.Exception) as error:
            if not must_notice:
                raise
            _close(error)
            return None
        finally:
            if connection.in_atomic_block:
                connection.set_rollback(True)  # what a mutant wrote is not even checked
    if must_notice:
        pytest.fail(f"The mutant {name} survives this test. {MUTANTS[name].breaks}", pytrace=False)
    return outcome


def _close(error: BaseException | None) -> None:
    """End what the failed test has left open, such as streams, now and not at any time later."""
    while error:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
