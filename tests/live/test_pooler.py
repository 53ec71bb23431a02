"""PgBouncer between the gateway and PostgreSQL: its session mode works, its transaction mode is refused in words.

These tests run where PgBouncer is installed.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from completions.models import Completion
from tests import factories, waiting
from tests.faults import fault
from tests.gateway_project.local.launch import free_port
from tests.ledger_audit import assert_ledger_is_consistent
from tests.live.conftest import ROOT, start
from tests.live.database_proxy import DatabaseProxy, running_proxy
from tests.live.gateway import wait_until_settled

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytestmark = [pytest.mark.system, pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")]


def configured(mode: str, port: int, server_port: int) -> str:
    given = {name: connection.settings_dict[name.upper()] for name in ("user", "password")}
    server = {"host": "127.0.0.1", "port": server_port, **{name: value for name, value in given.items() if value}}
    lines = [
        *("[databases]", f"* = {' '.join(f'{name}={value}' for name, value in server.items())}"),
        *("[pgbouncer]", f"pool_mode = {mode}", "auth_type = any"),
        *("listen_addr = 127.0.0.1", f"listen_port = {port}", "unix_socket_dir ="),
    ]
    return "\n".join(lines)


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def proxy() -> Iterator[DatabaseProxy]:
    """Between PgBouncer and the database, whose socket PgBouncer's user may not be able to reach."""
    with running_proxy() as proxy:
        yield proxy


@pytest.fixture
def pooled(transactional_db, proxy, tmp_path) -> Iterator[Callable[[str], str]]:
    """Return a function that starts PgBouncer in a mode, and returns the URL of the test database behind it."""
    started = []

    def start_pooler(mode: str) -> str:
        port = free_port()
        configuration = tmp_path / "pgbouncer.ini"
        configuration.write_text(configured(mode, port, proxy.port))
        # It does not run as root.
        user: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        with configuration.open() as file:
            command = [PGBOUNCER, f"/dev/fd/{file.fileno()}"]
            started.append(subprocess.Popen(command, pass_fds=[file.fileno()], stderr=subprocess.DEVNULL, **user))
            waiting.until(lambda: answers(port))
        return f"postgresql://gateway@127.0.0.1:{port}/{connection.settings_dict['NAME']}?sslmode=disable"

    yield start_pooler
    for process in started:
        process.terminate()
        process.wait()


@fault(
    "Deployment",
    "PgBouncer is in front of the database, in session mode",
    "All works",
)
def test_session_mode_works(pooled, tmp_path, alice, echo_model):
    gateway = start(tmp_path / "log", {"DATABASE_URL": pooled("session")})
    try:
        secret = factories.make_key(alice)[1]
        with ThreadPoolExecutor(8) as threads:
            asked = list(threads.map(lambda _: gateway.ask(secret, max_tokens=10).status, range(40)))
            read = list(threads.map(lambda _: gateway.request("GET", "/v1/usage", secret=secret).status, range(20)))
        assert (set(asked), set(read)) == ({200}, {200})
        wait_until_settled(alice)
        assert Completion.objects.filter(settlement="reported").count() == 40
        assert_ledger_is_consistent()
    finally:
        gateway.stop()
    assert "Traceback" not in gateway.log()


@fault(
    "Deployment",
    "PgBouncer is in front of the database, in transaction mode",
    "Nothing starts, and a numbered check says why",
)
@pytest.mark.parametrize("command", [["-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], ["manage.py", "migrate"]], ids=str)
def test_transaction_mode_is_refused_in_words(pooled, command):
    environ = {
        **os.environ,
        "DATABASE_URL": pooled("transaction"),
        "PORT": str(free_port()),
        "REDIS_URL": "",
        "WEB_CONCURRENCY": "1",
    }
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=waiting.PROCESS_SECONDS_MAX
    )
    assert done.returncode != 0
    assert "gateway.E015" in done.stderr
    assert "Set pool_mode = session for this database in PgBouncer" in done.stderr
