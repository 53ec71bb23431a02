"""The points at which a worker may die between the first byte in and the last byte out, and the SIGKILL that it sends itself.

The product has no part in this. A gunicorn with ``crashing.conf.py`` wraps the functions that are named here. A file says at
which point the next process that reaches it dies.
"""

import functools
import importlib
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

FILE_ENV = "CRASH_FILE"
ROUNDS = int(os.environ.get("CRASH_ROUNDS") or 1)  # deaths at each point; each costs the start of another worker


class Charge(Enum):
    """The final charge for a request whose process died. The operator pays the rest of its cost."""

    NO_HOLD = "nothing: nothing was held"
    NOTHING = "nothing: the hold is released when it expires"
    NOTED = "the prompt and the text that a checkpoint had noted"
    FULL = "all of it: that was charged before"


class Armed(Enum):
    AT_ONCE = "before the request"
    RELAYED = "when the client has read the text"
    NOTED = "when a checkpoint has noted that text"


@dataclass(frozen=True)
class Point:
    """Before or after ``function``, at its ``count``-th call after arming; only within a call of ``within``, if given."""

    name: str
    when: str
    function: str
    charge: Charge
    count: int = 1
    within: str = ""
    is_stream: bool = True
    armed: Armed = Armed.AT_ONCE


_WRITE, _ANSWER = (
    "gateway_project.db.pipelined_transaction:PipelinedTransaction.write",
    "gateway_project.db.pipelined_transaction:_Pipeline._read",
)
_SETTLE = "completions.relay.charge:settle"
_ASK, _BEGIN = "gateway_project.net.http:send", "gateway_project.net.http:AwaitedResponse.begin"

POINTS = [
    Point("the request was read", "before", "completions.charging.admission:admit", Charge.NO_HOLD),
    Point("the hold was decided, not written", "before", _WRITE, Charge.NO_HOLD),
    Point("the hold's COMMIT was sent, not answered", "before", _ANSWER, Charge.NOTHING, within=_WRITE),
    Point("the hold was committed, the upstream not asked", "before", _ASK, Charge.NOTHING),
    Point("the upstream's head had come", "after", _BEGIN, Charge.NOTHING),
    Point("the first chunk was sent", "before", "completions.relay.stream:_Progress.relay", Charge.NOTED, armed=Armed.NOTED),
    Point(
        "a checkpoint was written",
        "after",
        "gateway_project.db.pipelined_transaction:execute",
        Charge.NOTED,
        within="completions.charging.recovery.checkpoints:write",
        armed=Armed.RELAYED,
    ),
    Point("the upstream's last byte had come", "before", _SETTLE, Charge.NOTED, armed=Armed.NOTED),
    Point("the charge was decided, not written", "before", _WRITE, Charge.NOTED, armed=Armed.NOTED),
    Point("the charge's COMMIT was sent, not answered", "before", _ANSWER, Charge.FULL, within=_WRITE, armed=Armed.NOTED),
    Point("the charge was committed, the end not sent", "after", _WRITE, Charge.FULL, armed=Armed.NOTED),
    Point("the end was sent", "before", "completions.relay.stream:ReplyStream.close", Charge.FULL, armed=Armed.NOTED),
    Point("a whole reply had come", "before", _SETTLE, Charge.NOTHING, is_stream=False),
    Point("a whole reply was charged, not sent", "after", "completions.relay.whole:relay", Charge.FULL, is_stream=False),
]


class Fuse:
    """A file that names the point at which the next process dies. The dying process renames it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._dead = path.with_suffix(".dead")

    def arm(self, point: Point) -> None:
        self._dead.unlink(missing_ok=True)
        armed = self.path.with_suffix(".new")
        armed.write_text(json.dumps({"point": POINTS.index(point), "at": os.urandom(8).hex()}))
        armed.rename(self.path)

    def has_burnt(self) -> bool:
        return self._dead.exists()

    def armed(self) -> tuple[Point | None, str]:
        """Return the armed point, and an id of this arming."""
        try:
            facts = json.loads(self.path.read_text())
        except FileNotFoundError:
            return None, ""
        return POINTS[facts["point"]], facts["at"]

    def burn(self) -> None:
        """Kill this process, unless another one has died at this point."""
        try:
            self.path.rename(self._dead)
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait()  # execute nothing more


# --- In the worker -----------------------------------------------------------------------------------------------


@dataclass
class Watch:
    """Tracks which functions this process is in, and how often it reached the armed point."""

    fuse: Fuse
    inside: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)

    def install(self) -> None:
        for function in {name for point in POINTS for name in (point.function, point.within) if name}:
            module_name, _, path = function.partition(":")
            *classes, name = path.split(".")
            owner = functools.reduce(getattr, classes, importlib.import_module(module_name))
            setattr(owner, name, self._wrapped(function, getattr(owner, name)))

    def _wrapped(self, function: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._pass("before", function)
            _, arming = self.fuse.armed()
            self.inside[function] += 1
            try:
                result = call(*args, **kwargs)
            finally:
                self.inside[function] -= 1
            if arming == self.fuse.armed()[1]:  # a call that began before the arming does not count
                self._pass("after", function)
            return result

        return watched

    def _pass(self, when: str, function: str) -> None:
        point, arming = self.fuse.armed()
        if point is None or (point.when, point.function) != (when, function):
            return
        if not point.within or self.inside[point.within]:
            self.times[arming] += 1
            if self.times[arming] == point.count:
                self.fuse.burn()


def watch() -> None:
    """Watch the product's functions, so that this process dies at an armed point."""
    Watch(Fuse(Path(os.environ[FILE_ENV]))).install()
