"""One of two hosts behind the nginx that ships cannot serve, in many ways, and its callers do not notice."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import waiting
from tests.deploy.proxy import NGINX, Proxy
from tests.faults import fault
from tests.live.database_proxy import DatabaseProxy, running_proxy
from tests.live.fleet import BEHIND_PROXY, Fleet
from tests.live.full_disk import disk, fill
from tests.live.gateway import Gateway
from tests.live.history import Call
from tests.live.load import Load

pytestmark = [pytest.mark.skipif(NGINX is None, reason="nginx is not installed"), pytest.mark.long]

SERVED_MIN = 0.9
KNOWN_SECONDS_MAX = 2  # of a request to the host itself, after the first waits in vain
SECONDS = 8  # of each fault: longer than nginx remembers who failed


@dataclass
class Sick:
    """The first of two hosts. It has a role of its own, a way of its own to the database, and its outbox on a small disk."""

    fleet: Fleet
    host: Gateway
    way: DatabaseProxy
    outbox: Path

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.fleet.server.rows(statement)

    def end_sessions(self) -> None:
        self.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IN ('sick', 'gone')")

    @contextmanager
    def first_rule(self, rule: str) -> Iterator[None]:
        """Put a line before all others of pg_hba.conf."""
        file = self.fleet.server.directory / "data" / "pg_hba.conf"
        before = file.read_text()
        file.write_text(f"{rule}\n{before}")
        self.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            file.write_text(before)
            self.execute("SELECT pg_reload_conf()")

    def is_ready(self) -> bool:
        """Return whether all workers are, as far as several questions tell."""
        return [self.host.request("GET", "/readyz").status for _ in range(6)] == [200] * 6


@contextmanager
def sick_host(fleet: Fleet, directory: Path) -> Iterator[Sick]:
    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", fleet.server.port))

    fleet.server.rows("CREATE ROLE sick LOGIN PASSWORD 'known' IN ROLE postgres")
    with disk(directory) as outbox, running_proxy(connect) as way:
        url = f"postgresql://sick:known@127.0.0.1:{way.port}/postgres?sslmode=disable"
        yield Sick(fleet, fleet.begin(DATABASE_URL=url, GATEWAY_OUTBOX_DIR=str(outbox), **BEHIND_PROXY), way, outbox)


# --- The faults ---------------------------------------------------------------------------------------------------

Kind = Callable[[Sick], AbstractContextManager[None]]


def role(broken: str, mended: str, *, ends_sessions: bool = True, rule: str = "") -> Kind:
    """Change the host's role, or how it must identify itself, and end its sessions."""

    @contextmanager
    def breaking(sick: Sick) -> Iterator[None]:
        with sick.first_rule(rule):
            sick.execute(broken)
            if ends_sessions:
                sick.end_sessions()
            yield
            sick.execute(mended)
        sick.end_sessions()

    return breaking


@contextmanager
def cut(sick: Sick) -> Iterator[None]:
    sick.way.cut()
    yield
    sick.way.restore()


@contextmanager
def frozen(sick: Sick) -> Iterator[None]:
    sick.way.freeze()
    yield
    sick.way.restore()


@contextmanager
def full_disk(sick: Sick) -> Iterator[None]:
    (sick.outbox / ".reserve").write_bytes(b"")
    fill(sick.outbox)
    yield
    (sick.outbox / "full").unlink()


SCRAM = "host all sick all scram-sha-256"
KINDS: dict[str, Kind] = {
    "the role may not log in": role("ALTER ROLE sick NOLOGIN", "ALTER ROLE sick LOGIN"),
    "the role may not log in, and keeps its sessions": role(
        "ALTER ROLE sick NOLOGIN", "ALTER ROLE sick LOGIN", ends_sessions=False
    ),
    "too many connections": role("ALTER ROLE sick CONNECTION LIMIT 0", "ALTER ROLE sick CONNECTION LIMIT -1"),
    "one connection": role("ALTER ROLE sick CONNECTION LIMIT 1", "ALTER ROLE sick CONNECTION LIMIT -1"),
    "another password": role("ALTER ROLE sick PASSWORD 'other'", "ALTER ROLE sick PASSWORD 'known'", rule=SCRAM),
    "an expired password": role(
        "ALTER ROLE sick VALID UNTIL '2020-01-01'", "ALTER ROLE sick VALID UNTIL 'infinity'", rule=SCRAM
    ),
    "pg_hba rejects the role": role("SELECT 1", "SELECT 1", rule="host all sick all reject"),
    "pg_hba asks for a certificate": role("SELECT 1", "SELECT 1", rule="hostssl all sick all cert\nhost all sick all reject"),
    "the role is renamed": role("ALTER ROLE sick RENAME TO gone", "ALTER ROLE gone RENAME TO sick"),
    "the role lost its rights": role("REVOKE postgres FROM sick", "GRANT postgres TO sick"),
    "the role may only read": role(
        "ALTER ROLE sick SET default_transaction_read_only = on", "ALTER ROLE sick RESET default_transaction_read_only"
    ),
    "the way to the database is cut": cut,
    "the database does not answer": frozen,
    "the disk of the outbox is full": full_disk,
}


@fault(
    "Deployment",
    "One of two hosts behind nginx cannot serve: the database refuses its role in eleven ways or is unreachable, or"
    " the outbox's disk is full",
    "At least nine of ten requests are served, first waits included: nginx hands the rest to the other host. Each"
    " reply is charged once",
)
def test_callers_of_a_host_that_cannot_serve_are_served_by_the_other(fleet, tmp_path, measured, subtests):
    calls: list[Call] = []
    shares = {}
    proxy, outbox = Proxy(tmp_path), tmp_path / "outbox"
    outbox.mkdir()
    with sick_host(fleet, outbox) as sick:
        proxy.use([sick.host.port, fleet.begin(**BEHIND_PROXY).port])
        with proxy.running():
            for name, breaking in KINDS.items():
                with subtests.test(name), fleet.load([proxy], trust=proxy.trust, pace_seconds=0.5, keyed=0.3) as load:
                    time.sleep(1)
                    with breaking(sick):
                        broken_at = time.monotonic()
                        time.sleep(SECONDS)
                        known = fleet.ask(sick.host)
                        mended_at = time.monotonic()
                    waiting.until(sick.is_ready, waiting.PROCESS_SECONDS_MAX)
                waiting.until(lambda: not list(outbox.glob("*.json")), waiting.PROCESS_SECONDS_MAX)
                fleet.settle()
                calls += [*load.calls, known]
                shares[name] = served(load, broken_at, mended_at)
                assert shares[name] >= SERVED_MIN
                assert known.replied_at - known.called_at < KNOWN_SECONDS_MAX, "somebody waited in vain again"
        assert list(outbox.glob("*.json")) + list(outbox.glob("*.dead")) == []
    measured(fleet.assert_consistent(calls), f"{min(shares.values()):.2f} served")


def served(load: Load, since: float, until: float) -> float:
    """Return the share of the requests sent between two moments that were served."""
    asked = [call for call in load.calls if since <= call.called_at < until]
    return sum(call.status == 200 for call in asked) / len(asked)
