"""A pytest plugin that gives each worker whole files in turn, and files that share what is dear to start to one worker.

The chains of such files begin first, because they take longest, and mostly wait: for deadlines, for processes and for pages.
There are more workers than cores, so that the others compute meanwhile. Each one more collects the tests, for 7 s.
"""

import os

import pytest
from xdist.scheduler import LoadScopeScheduling

_BROWSER = ("_in_a_browser.py",)
_LOOKS = ("pages/test_look_of_the_pages.py", "pages/test_look_of_the_admin.py")
# Files of tests/live that start processes of their own. The others share gateways, by their settings.
_OWN = ("monitoring", "reload", "call_budget", "reconnecting", "crashes", "log_lines", "pooler", "tracing")
_OWN_PROCESSES = tuple(f"live/test_{name}.py" for name in _OWN)
# Parts of the names of units that take long: the longest first.
_FIRST = (
    "gateways",
    "bench/",
    "looks",
    "browser",
    "local/test_supervisor.py",
    *_OWN_PROCESSES,
    "test_refresh.py",
    "/relay/",
    "/pages/",
)


def unit(nodeid: str) -> str:
    """Return the name of what one worker runs together: the file of the test, or the chain to which its file belongs."""
    path = nodeid.partition("::")[0]
    if path.endswith(_LOOKS):
        return "looks"
    if path.endswith(_BROWSER):
        return "browser"
    return "gateways" if "tests/live/" in path and not path.endswith(_OWN_PROCESSES) else path


def order(nodeid: str) -> int:
    """Return the place of the test: those of chains first, then those of slow files, then all others."""
    name = unit(nodeid)
    return next((place for place, part in enumerate(_FIRST) if part in name), len(_FIRST))


class Schedule(LoadScopeScheduling):
    """Hands out the units in their order, each to the next worker that has nothing left to do."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    return Schedule(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(tryfirst=True)  # before that of pytest-xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one worker more than cores, as some tests wait; two more with system tests, of which each chain mostly waits."""
    return (os.cpu_count() or 1) + (2 if config.option.system else 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: order(item.nodeid))
