"""A pytest plugin: runs tests against the gateway as a canary has broken it (``tests.mutants``). Loaded only when asked for.

    pytest -p tests.mutant_plugin --canary=settle_twice tests/billing    those tests, with that canary let loose
    pytest -p tests.mutant_plugin --canaries tests/billing               every canary, on the tests there that must catch it

With ``--canaries`` a test that must catch a canary passes when it fails, and fails when the canary survives it. The same
tests run without any canary, too, in the same process: what a canary left behind would fail them. And with every canary the
gateway must still serve, or what was caught would not be the canary but its clumsiness.
"""

import traceback
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest
from django.db import connection

from tests.mutants import CANARIES, LONG, SERVES

_DATABASE = "test_canaries"  # beside that of whoever runs us


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("canaries")
    group.addoption("--canary", choices=CANARIES, help="let one loose on all tests that are run")
    group.addoption("--canaries", action="store_true", help="let each loose on the tests that must catch it")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    connection.settings_dict["TEST"]["NAME"] = _DATABASE
    # A test that fails leaves threads and streams behind, which nobody reads to their end.
    for left_behind in ("Unraisable", "UnhandledThread"):
        config.addinivalue_line("filterwarnings", f"ignore::pytest.Pytest{left_behind}ExceptionWarning")
    # That something is found is enough; to make the example small takes minutes.
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("canaries", parent=hypothesis.settings(), phases=phases)
    hypothesis.settings.load_profile("canaries")


# --- Which tests meet which canary ---------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.config.option.canary:
        names: list[str | None] = [metafunc.config.option.canary]
    elif metafunc.config.option.canaries:
        function = _function(metafunc.definition.nodeid)
        names = [name for name, canary in CANARIES.items() if any(_function(test) == function for test in canary.meets)]
        names.append(None)  # last: without a canary
    else:
        return
    metafunc.fixturenames.append("canary")
    metafunc.parametrize("canary", names, ids=[f"@{name}" for name in names])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.canaries:
        return
    known = {_plain(item.nodeid) for item in items}
    met = {test for canary in CANARIES.values() for test in canary.meets}
    if missing := {test for test in met - known if _file(test) in map(_file, known)}:
        raise pytest.UsageError(f"there are no such tests to meet canaries: {', '.join(sorted(missing))}")
    items[:] = [item for item in items if _plain(item.nodeid) in (CANARIES[_of(item)].meets if _of(item) else met - LONG)]


def _of(item: pytest.Item) -> str:
    """The canary that the test meets; empty for none."""
    return item.callspec.params.get("canary") or "" if hasattr(item, "callspec") else ""


def _plain(node_id: str) -> str:
    """The test's name without that of the canary that it meets."""
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
    must_notice = item.config.option.canaries and _plain(item.nodeid) != SERVES
    with CANARIES[name].loose():
        try:
            outcome = yield
        except (Exception, pytest.fail.Exception) as error:
            if not must_notice:
                raise
            _close(error)
            return None
        finally:
            if connection.in_atomic_block:
                connection.set_rollback(True)  # what a canary wrote is not even checked
    if must_notice:
        pytest.fail(f"The canary {name} survives this test. {CANARIES[name].breaks}", pytrace=False)
    return outcome


def _close(error: BaseException | None) -> None:
    """End what the failed test has left open, such as streams, now and not at any time later."""
    while error:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
