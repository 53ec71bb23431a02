"""Starts supervisors as processes, as `make run` does, each with its own data directory and port."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, LiteralString

import psutil
import psycopg
import requests

from gateway_project.local import development, supervisor

START_SECONDS_MAX = 180
STOP_SECONDS_MAX = 90


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def bare_environment(**variables: str) -> dict[str, str]:
    """Return this environment without the variables that configure a gateway."""
    ours = ("GATEWAY_", "DATABASE_", "REDIS_", "DJANGO_", "PROMETHEUS_", "PYTEST_", "PORT", "CATALOG", "WEB_CONCURRENCY")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | variables


class Launch:
    """A data directory and a port, and the supervisors started with them."""

    def __init__(self, *program: str) -> None:
        self._program = program or ("-m", "gateway_project.local.supervisor")
        self.var = Path(tempfile.mkdtemp(prefix="gateway-")).resolve()
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, **variables: str) -> None:
        """Start, and wait for the message that the gateway is ready."""
        self.begin(**variables)
        self.wait_for("Ctrl-C stops everything")

    def begin(self, **variables: str) -> None:
        with (self.var / "log").open("wb") as log:
            self.process = self._spawn(variables, log)

    def wait_for(self, message: str) -> None:
        assert self.process
        deadline = time.monotonic() + START_SECONDS_MAX
        while message not in self.log():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def fail(self, **variables: str) -> tuple[int, str]:
        """Start a gateway that must fail. Return its exit status and output."""
        process = self._spawn(variables, subprocess.PIPE)
        output = process.communicate(timeout=START_SECONDS_MAX)[0]
        return process.returncode, output.decode()

    def _spawn(self, variables: dict[str, str], output: Any) -> subprocess.Popen[bytes]:
        # No source on the internet is asked, unless a test enables it.
        settings = {"GATEWAY_VAR": str(self.var), "PORT": str(self.port), "GATEWAY_RANKINGS_FETCH": "0", **variables}
        return subprocess.Popen(
            [sys.executable, *self._program],
            cwd=development.ROOT,
            env=bare_environment(**settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def signal(self, number: int) -> int:
        """Send a signal and wait for the end. Return the exit status."""
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(timeout=STOP_SECONDS_MAX)

    def log(self) -> str:
        return (self.var / "log").read_text(errors="replace")

    def quickstart(self) -> dict[str, Any]:
        return json.loads((self.var / "quickstart.json").read_text())

    def get(self, path: str, **options: Any) -> requests.Response:
        return requests.get(self.url + path, timeout=300, **options)

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *arguments]
        environ = bare_environment(GATEWAY_VAR=str(self.var))
        return subprocess.run(
            command, cwd=development.ROOT, env=environ, capture_output=True, text=True, timeout=START_SECONDS_MAX
        )

    def rows(self, query: LiteralString) -> list[tuple[Any, ...]]:
        with psycopg.connect(f"postgresql://postgres@/postgres?host={self.var}/postgresql") as connection:
            return connection.execute(query).fetchall()

    def processes(self) -> list[psutil.Process]:
        """Return the living processes of this directory."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            variables = process.environ()
            return str(self.var) in {variables.get(supervisor.MARK_VARIABLE), variables.get("GATEWAY_VAR")} or any(
                str(self.var) in word for word in process.cmdline()
            )
        except psutil.Error:
            return False

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.signal(signal.SIGTERM)
        supervisor.stop_children(self.var)

    def clean_up(self) -> None:
        self.stop()
        shutil.rmtree(self.var, ignore_errors=True)
