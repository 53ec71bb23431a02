"""gunicorn's master process. It imports no module of the gateway: gevent cannot patch in workers what the master has loaded."""

import os
import subprocess
import sys
import time
from typing import Any

from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer

_TRIAL_SECONDS_MAX = 60
_PAUSE_SECONDS = 5
_FROZEN_SECONDS = 10  # the master looks at its workers every second


class Master(Arbiter):  # type: ignore[misc]
    """Keeps workers serving until new ones do, also when the code or the settings are such that none starts."""

    _looked_at, _spared_until = time.monotonic(), 0.0

    def reload(self) -> None:
        """Load the new code, if it starts: gunicorn stops the old workers as soon as it has forked new ones."""
        if not _starts():
            self.log.error("The new code or settings do not start: the workers stay as they are.")
        elif objection := _database_objection():
            self.log.error("The database is not ready for the new code: the workers stay as they are. %s", objection)
        else:
            super().reload()

    def reap_workers(self) -> None:
        """Continue when a worker does not start, such as one in place of another that was killed, while others serve."""
        while True:
            try:
                super().reap_workers()
                return
            except HaltServer as error:
                if not self.LISTENERS:  # it is stopping already
                    continue
                if not any(map(has_served, self.WORKERS.values())):
                    raise
                self.log.error("%s The others continue, and it is tried again every %s seconds.", error.reason, _PAUSE_SECONDS)
                time.sleep(_PAUSE_SECONDS)

    def manage_workers(self) -> None:
        """Stop workers that are too many when the new ones, which load for seconds, serve."""
        deadline = time.monotonic() + _TRIAL_SECONDS_MAX
        while len(self.WORKERS) > self.num_workers and not all(map(has_served, self.WORKERS.values())):
            if time.monotonic() > deadline:
                break
            self.reap_workers()
            time.sleep(0.1)
        super().manage_workers()

    def murder_workers(self) -> None:
        """Kill workers without a heartbeat, unless the host was frozen: then none has one, and the master may run first."""
        now = time.monotonic()
        if now - self._looked_at > _FROZEN_SECONDS:
            self._spared_until = now + self.timeout
        self._looked_at = now
        if now >= self._spared_until:
            super().murder_workers()


def has_served(worker: Any) -> bool:
    """Return whether a worker has written its heartbeat, by the monotonic clock: its file was made by the other one."""
    return bool(worker.tmp.last_update() <= time.monotonic())


def _starts() -> bool:
    """Start the gateway in a process of its own, up to where it would serve. Why it does not, that process logs."""
    command = [sys.executable, *sys.orig_argv[1:], "--check-config"]
    environ = {name: value for name, value in os.environ.items() if name != "PROMETHEUS_MULTIPROC_DIR"}  # it serves no request
    try:
        return subprocess.run(command, env=environ, timeout=_TRIAL_SECONDS_MAX, check=False).returncode == 0  # noqa: S603
    except subprocess.TimeoutExpired:
        return False


def _database_objection() -> str:
    """Return why the database as it is does not do for the new code, or an empty text."""
    ask = "import django; django.setup(); from gateway_project.web import health; health.require_migrated()"
    environ = {"DJANGO_SETTINGS_MODULE": "gateway_project.settings", **os.environ}
    try:
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-c", ask], env=environ, capture_output=True, text=True, timeout=_TRIAL_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return "It does not answer."
    return ended.stderr.strip().rpartition("\n")[2] if ended.returncode else ""
