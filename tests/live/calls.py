"""Counts the Python functions that a web process calls between the starts of two requests.

The product has no part in this. A gunicorn with ``counting.conf.py`` counts once it is loaded, and writes one line of JSON to
a file for each request that starts: how often each function was called since the one before. A generator counts each time that
it goes on. So the line of a request on a kept connection is written when the next one has been received.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import IO, Any

FILE_ENV = "CALLS_FILE"
_START = ("gateway_project/web/gunicorn/replies.py", "answer")
_INLINED = {"<listcomp>", "<dictcomp>", "<setcomp>"}  # calls up to Python 3.11
_FOLDERS = ("/site-packages/", f"/python{sys.version_info.major}.{sys.version_info.minor}/", f"{os.getcwd()}/")
_TOOL = 4  # of the numbers that sys.monitoring leaves free


class _Counter:
    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._calls = Counter[CodeType]()

    def count(self, code: CodeType) -> None:
        if code.co_name in _INLINED:
            return
        if code.co_qualname == _START[1] and code.co_filename.endswith(_START[0]):
            self._write()
        self._calls[code] += 1

    def _write(self) -> None:
        named = Counter[str]()
        for code, calls in self._calls.items():
            named[_name(code)] += calls
        self._calls.clear()
        self._file.write(json.dumps(named) + "\n")
        self._file.flush()


def _name(code: CodeType) -> str:
    path = code.co_filename
    for folder in _FOLDERS:
        path = path.rpartition(folder)[2]
    return f"{path} {code.co_qualname}"


def start() -> None:
    """Count in this process, whose greenlets all begin later."""
    counter = _Counter(Path(os.environ[FILE_ENV]).open("w"))  # noqa: SIM115  open as long as the process
    if sys.version_info >= (3, 12):
        _monitor(counter.count)
    else:
        sys.setprofile(lambda frame, event, _: counter.count(frame.f_code) if event == "call" else None)


def _monitor(count: Callable[[CodeType], None]) -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]  # from Python 3.12 on
    monitoring.use_tool_id(_TOOL, "calls")
    for event in (monitoring.events.PY_START, monitoring.events.PY_RESUME):
        monitoring.register_callback(_TOOL, event, lambda code, _: count(code))
    monitoring.set_events(_TOOL, monitoring.events.PY_START | monitoring.events.PY_RESUME)


def read(path: Path) -> list[Counter[str]]:
    """Return the counts of each request, the oldest first. The first has what came before any request."""
    return [Counter(json.loads(line)) for line in path.read_text().splitlines()]
