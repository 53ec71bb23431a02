"""A pytest plugin that leaves out the system tests, unless ``--all``, ``--system`` or a path asks for them.

A system test starts processes of its own (``pytest.mark.system``) or walks through pages in a browser. There are few, and they
take two fifths of the time of all tests. CI runs them with every change, by ``--system``, which leaves out all others.
"""

from typing import Any

import pytest

_BROWSER = "chromium"  # the fixture that each test in a browser uses


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("system tests")
    group.addoption("--all", action="store_const", const="all", dest="system", help="run the system tests, too")
    group.addoption("--system", action="store_const", const="only", dest="system", help="run the system tests, and no others")


@pytest.hookimpl(trylast=True)  # after --changed has chosen
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.option.system = config.workerinput["system"]  # as the controller has decided
        return
    is_chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    if is_chosen or (config.option.changed is not None and config.args != ["tests"]):
        config.option.system = config.option.system or "all"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["system"] = node.config.option.system


def pytest_report_header(config: pytest.Config) -> str:
    return "" if config.option.system else "system tests: left out; --all, --system or their path runs them"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _BROWSER in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.system)
    if config.option.system == "all":
        return
    kept, left_out = [], []
    for item in items:
        is_system = item.get_closest_marker("system") is not None
        (kept if is_system is (config.option.system == "only") else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
