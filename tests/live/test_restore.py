"""The primary's disk is lost under load, and the database comes back from the archive, by the files and commands of the docs.

Run by ``make faults``, with Debian's packages postgresql and pgbackrest: the embedded PostgreSQL is newer than that pgBackRest.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import waiting
from tests.faults import fault
from tests.live.conftest import ROOT
from tests.live.database_server import DatabaseServer
from tests.live.fleet import Fleet, template, wait_seconds
from tests.live.load import SECONDS

pytestmark = pytest.mark.long

SHIPPED = ROOT / "deploy" / "postgresql"
PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/lib/postgresql"))


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    assert PROGRAMS.is_dir(), "apt-get install postgresql"
    assert shutil.which("pgbackrest"), "apt-get install pgbackrest"
    with template(programs=PROGRAMS) as prepared, prepared.fleet() as fleet:
        yield fleet


def pgbackrest(server: DatabaseServer, *command: str) -> None:
    server.run("pgbackrest", "--stanza=gateway", *command)


@pytest.fixture
def archived(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> DatabaseServer:
    """The fleet's server with the shipped configuration. What the environment changes are places and the port alone."""
    server = fleet.server
    server.stop()
    with (server.directory / "data" / "postgresql.conf").open("a") as file:
        file.write((SHIPPED / "gateway.conf").read_text())
    places = {"REPO1_PATH": "repository", "LOG_PATH": "", "LOCK_PATH": "lock", "SPOOL_PATH": "spool", "PG1_PATH": "data"}
    for name, place in places.items():
        monkeypatch.setenv(f"PGBACKREST_{name}", str(server.directory / place))
    monkeypatch.setenv("PGBACKREST_CONFIG", str(SHIPPED / "pgbackrest.conf"))
    monkeypatch.setenv("PGBACKREST_PG1_SOCKET_PATH", str(server.directory))
    monkeypatch.setenv("PGBACKREST_PG1_PORT", str(server.port))
    monkeypatch.setenv("PGBACKREST_PG1_USER", "postgres")
    server.start()
    pgbackrest(server, "stanza-create")
    pgbackrest(server, "check")
    return server


@fault(
    "Database",
    "The primary's disk is lost under load, and the database restored to an earlier moment; hosts keep journals",
    "Requests get 503 meanwhile. The restored ledger verifies; later charges are made again from the journals",
)
def test_what_was_charged_after_the_moment_of_a_restore_is_in_the_journals(fleet, archived, measured):
    fleet.begin(GATEWAY_SETTLEMENT_JOURNAL_MINUTES="15")
    with fleet.load() as run:
        wait_seconds(run, 1)
        pgbackrest(archived, "backup", "--type=full")
        wait_seconds(run, SECONDS / 3)
        [(moment, charged)] = archived.rows("SELECT statement_timestamp()::text, count(*) FROM billing_ledgerentry")
        wait_seconds(run, SECONDS / 3)
        [(segment,)] = archived.rows("SELECT pg_walfile_name(pg_switch_wal())")
        waiting.until(lambda: archived.rows(f"SELECT FROM pg_stat_archiver WHERE last_archived_wal >= '{segment}'"))
        archived.kill()
        shutil.move(archived.directory / "data", archived.directory / "burnt")
        pgbackrest(archived, "restore", "--type=time", f"--target={moment}", "--target-action=promote")
        archived.start()
        waiting.until(lambda: not archived.rows("SELECT pg_is_in_recovery()")[0][0])
        promoted_at = time.monotonic()
        wait_seconds(run, 10)  # the hosts look every five seconds
    assert (set(run.statuses()) <= {200, 503, None}, run.cut_off) == (True, [])
    fleet.recover()
    assert "charges: they are given to the outbox again" in fleet.hosts[0].log()
    assert (fleet.files("dead"), fleet.metric("gateway_operator_loss_nanos_total")) == ([], 0)
    books, back_seconds = fleet.assert_consistent(run.calls), run.seconds_until_served(promoted_at)
    measured(books, f"{charged} entries at the moment", back_seconds=back_seconds)
