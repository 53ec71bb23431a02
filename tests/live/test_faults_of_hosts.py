"""What happens to one of two hosts that are used: it is frozen, its clock is wrong, it runs out of memory, its disk is full.

Run by ``make faults``, like ``test_faults_under_load``, whose remarks hold here, too.
"""

import http.client
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import psutil
import pytest

from tests import waiting
from tests.faults import fault
from tests.live import history_programs
from tests.live.fleet import Fleet, wait_seconds
from tests.live.full_disk import disk, fill
from tests.live.gateway import QUESTION, Gateway, eventually, read_all, read_until
from tests.live.history import Call
from tests.live.history_programs import Ask
from tests.live.load import ECHO, SECONDS

pytestmark = pytest.mark.long

FROZEN_SECONDS = 120
AHEAD_SECONDS = 3_600
WRONG_CLOCK = Path(__file__).with_name("wrong_clock.c")
CONTROL_GROUPS = Path("/sys/fs/cgroup/memory")
MEMORY_BYTES = 2**20  # beside what the worker has already


# --- Frozen -------------------------------------------------------------------------------------------------------


@fault(
    "Web process",
    "A host is frozen under load for two minutes while another host sweeps its requests",
    "The other host serves as before. The sweeper's charges are corrected; no reply is free or charged twice",
)
def test_what_a_frozen_host_settles_late_corrects_what_another_swept(fleet, measured):
    frozen, other = fleet.begin(), fleet.begin()
    with fleet.load([frozen]) as late, fleet.load([other], pace_seconds=0.5) as run:
        wait_seconds(run, 10)
        with suspended(fleet, frozen):
            frozen_at = time.monotonic()
            time.sleep(FROZEN_SECONDS - 50)
            swept = fleet.manage("sweep_holds")["resolved"]
            time.sleep(max(frozen_at + FROZEN_SECONDS - time.monotonic(), 0))
            thawed_at = time.monotonic()
        eventually(lambda: late.seconds_until_served(thawed_at) < FROZEN_SECONDS)
        wait_seconds(run, 2)
    assert set(run.statuses()) == {200}
    fleet.settle()
    assert "WORKER TIMEOUT" not in frozen.log()
    books = fleet.assert_consistent(late.calls + run.calls, deaths=True)
    corrected = fleet.server.rows("SELECT count(*) FROM completions_completion WHERE settlement = 'corrected'")[0][0]
    assert swept
    measured(
        books,
        f"{swept} swept, {corrected} corrected",
        others=run.kept(frozen_at, thawed_at),
        back_seconds=late.seconds_until_served(thawed_at),
    )


@contextmanager
def suspended(fleet: Fleet, host: Gateway) -> Iterator[None]:
    """Stop a host's processes. They go on one after the other: the master first, which must not take its workers for hung."""
    processes = fleet.processes(host)
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()
            time.sleep(1)


# --- Clock --------------------------------------------------------------------------------------------------------


@fault(
    "Clock",
    "One of two hosts' clocks is an hour ahead, or behind",
    "Both serve as before: holds, sweeps, limits, expiries and spending days use the database's clock",
)
@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
@pytest.mark.parametrize("seconds", [AHEAD_SECONDS, -AHEAD_SECONDS], ids=["ahead", "behind"])
def test_a_host_whose_clock_is_wrong_serves_as_the_other(fleet, measured, tmp_path, seconds):
    wrong_clock = clock_apart(tmp_path, seconds)
    hosts = [fleet.begin(**wrong_clock), fleet.begin()]
    assert abs(clock_of(hosts[0]) - clock_of(hosts[1]) - seconds) < 60
    began_at = fleet.server.rows("SELECT now()")[0][0]
    with fleet.load() as run:
        wait_seconds(run, SECONDS / 3)
        swept = [fleet.manage("sweep_holds", **clock)["resolved"] for clock in (wrong_clock, {})]
        wait_seconds(run, SECONDS / 3)
    assert swept == [0, 0]
    assert (set(run.statuses()) <= {200, None}, run.cut_off) == (True, [])
    fleet.settle()
    assert_times(fleet, began_at)
    limited, valid, expired = (fleet.key(f"{kind}-{seconds}") for kind in ("limited", "valid", "expired"))
    for name, change in (
        ("limited", "requests_per_minute = 30"),
        ("valid", "expires_at = now() + interval '30 minutes'"),
        ("expired", "expires_at = now() - interval '30 minutes'"),
    ):
        fleet.server.rows(f"UPDATE keys_apikey SET {change} WHERE name = '{name}-{seconds}'")
    assert [fleet.ask(host, valid).status for host in hosts] == [200, 200]
    assert [fleet.ask(host, expired).status for host in hosts] == [401, 401]
    limited_at = time.monotonic()
    calls = [fleet.ask(host, limited) for _ in range(30) for host in hosts]
    served = sum(call.status == 200 for call in calls)
    assert 30 <= served <= 31 + (time.monotonic() - limited_at) / 2, "the hosts do not count together"
    # The rows of running processes, by the database's clock.
    alive = "SELECT count(*) FROM monitoring_process WHERE seen_at BETWEEN now() - interval '30 seconds' AND now()"
    assert fleet.server.rows(alive)[0][0] >= 2 * len(hosts)
    measured(fleet.assert_consistent(run.calls + calls))


def clock_apart(directory: Path, seconds: int) -> dict[str, str]:
    """Return the environment of a process whose clock is wrong by so many seconds."""
    library = directory / "wrong_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, WRONG_CLOCK, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "WRONG_CLOCK_SECONDS": str(seconds)}


@fault(
    "Clock",
    "The database fails over under load to a server whose clock is an hour ahead, and later back",
    "The sweeper takes running requests for dead; its charges are corrected when they end. Times of the ledger never run back",
)
@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_replies_that_run_while_the_clock_of_the_database_leaps_are_charged_once(fleet, measured):
    hosts = [fleet.begin(), fleet.begin()]
    fields = {"model": ECHO, "messages": QUESTION, "max_tokens": 2_000, "stream": True}
    fields |= {"echo": {"reply": "word " * 300, "delay_seconds": 0.1}, "stream_options": {"include_usage": True}}
    with fleet.load() as run, ThreadPoolExecutor(6) as threads:
        wait_seconds(run, SECONDS / 10)
        asks = [(host.port, fleet.secret, Ask("first", fields), f"long/{number}") for number in range(3) for host in hosts]
        long = [threads.submit(history_programs.call, *ask) for ask in asks]
        wait_seconds(run, 3)
        fleet.server.stop()
        fleet.server.start(**clock_apart(fleet.server.directory, AHEAD_SECONDS))
        swept = fleet.manage("sweep_holds")["resolved"]
        calls = [each.result() for each in long]
        wait_seconds(run, SECONDS / 10)
        fleet.server.stop()
        fleet.server.start()
        started_at = time.monotonic()
        wait_seconds(run, SECONDS / 3)
    assert (set(run.statuses()) <= {200, 503, None}, run.cut_off) == (True, [])
    assert (swept >= len(long), [call.status for call in calls]) == (True, [200] * len(long))
    fleet.settle()
    assert (fleet.files("dead"), fleet.metric("gateway_operator_loss_nanos_total")) == ([], 0)
    back_seconds = run.seconds_until_served(started_at)
    measured(fleet.assert_consistent(run.calls + calls), f"{swept} swept", back_seconds=back_seconds)


def clock_of(host: Gateway) -> float:
    """Return what the host's clock says, in seconds, as its replies do."""
    return parsedate_to_datetime(host.request("GET", "/healthz").headers["date"]).timestamp()


def assert_times(fleet: Fleet, began_at: datetime) -> None:
    """Assert that all times of the book are those of the database."""
    for table, column in (
        ("billing_hold", "expires_at - interval '1 hour'"),
        ("completions_completion", "created_at"),
        ("completions_completion", "finished_at"),
        ("completions_completion", "spending_day::timestamptz"),
        ("billing_ledgerentry", "created_at"),
    ):
        late = f"SELECT count(*) FROM {table} WHERE {column} > statement_timestamp()"
        assert fleet.server.rows(late) == [(0,)], column
    assert fleet.server.rows(f"SELECT count(*) FROM completions_completion WHERE created_at < '{began_at}'") == [(0,)]


# --- Memory -------------------------------------------------------------------------------------------------------


@fault(
    "Web process",
    "The kernel kills a worker under load for its memory",
    "Other workers and hosts continue; a new worker starts. Whole replies are charged once, broken ones at most once",
)
def test_a_worker_without_memory_is_killed_and_costs_nobody_a_reply(fleet, measured):
    with cgroup() as limited:
        host, other = fleet.begin(), fleet.begin()
        with fleet.load([host]) as hit, fleet.load([other], pace_seconds=0.5) as run:
            wait_seconds(run, SECONDS / 3)
            [victim, *_] = fleet.workers(host)
            (limited / "cgroup.procs").write_text(str(victim.pid))
            killed_at = time.monotonic()
            (limited / "memory.limit_in_bytes").write_text(str(MEMORY_BYTES))
            large = {"model": ECHO, "messages": [{"role": "user", "content": "word " * 150_000}], "max_tokens": 1}
            while victim in fleet.workers(host):
                with suppress(OSError, http.client.HTTPException):  # it may be killed by this request
                    host.ask(fleet.secret, **large)
            eventually(lambda: len(fleet.workers(host)) == 2)
            wait_seconds(hit, SECONDS / 3)
            until = time.monotonic()
    assert "SIGKILL" in host.log()
    assert set(run.statuses()) == {200}
    fleet.recover()
    books = fleet.assert_consistent(hit.calls + run.calls, deaths=True)
    measured(books, others=run.kept(killed_at, until), back_seconds=hit.seconds_until_served(killed_at))


@contextmanager
def cgroup() -> Iterator[Path]:
    """Make a control group that limits memory. What a process had before it came in does not count."""
    directory = CONTROL_GROUPS / f"gateway-{os.getpid()}"
    try:
        directory.mkdir()
    except OSError:
        pytest.skip("no control group can be made here")
    try:
        yield directory
    finally:
        waiting.until(lambda: not (directory / "cgroup.procs").read_text())
        directory.rmdir()


# --- Disk ---------------------------------------------------------------------------------------------------------


@fault(
    "Disk",
    "The outbox's disk is full, and then the database is unavailable under load",
    "Settlements use the reserve: no reply is free or ends with an error",
)
def test_settlements_have_room_on_a_full_disk(fleet, tmp_path, measured):
    with disk(tmp_path) as outbox:
        fleet.begin(GATEWAY_OUTBOX_DIR=str(outbox))
        with fleet.load() as run:
            wait_seconds(run, SECONDS / 10)
            fill(outbox)
            wait_seconds(run, SECONDS / 10)
            fleet.server.kill()
            eventually(lambda: bool(list(outbox.glob("*.json"))))
            time.sleep(2)
            fleet.server.start()
            started_at = time.monotonic()
            eventually(lambda: run.seconds_until_served(started_at) < 300)
            eventually(lambda: not list(outbox.glob("*.json")))
        (outbox / "full").unlink()
        assert (set(run.statuses()) <= {200, 503, None}, run.cut_off) == (True, [])
        fleet.recover()
        assert fleet.files("dead") == list(outbox.glob("*.dead")) == []
        measured(fleet.assert_consistent(run.calls), back_seconds=run.seconds_until_served(started_at))


@fault(
    "Disk",
    "The outbox's disk and its reserve are full, and then the database is unavailable",
    "Requests get 503 before any hold, and `/readyz` says why. A running stream ends with an error event, charged"
    " once, by its last checkpoint. With room again all is served",
)
def test_nothing_is_admitted_whose_settlement_fits_on_no_disk(fleet, tmp_path, measured):
    calls: list[Call] = []

    def all_reply(status: int) -> bool:
        """Return whether all workers of the host do."""
        calls.extend(asked := [fleet.ask(host) for _ in range(8)])
        return [call.status for call in asked] == [status] * 8

    with disk(tmp_path) as outbox:
        host, other = fleet.begin(GATEWAY_OUTBOX_DIR=str(outbox)), fleet.begin()
        with (
            fleet.load([other], pace_seconds=0.5) as run,
            host.open_stream(fleet.secret, max_tokens=2_000, echo={"reply": "word " * 1_200, "delay_seconds": 0.1}) as client,
        ):
            received = read_until(client, b"word")
            wait_seconds(run, SECONDS / 3)
            (outbox / ".reserve").write_bytes(b"")
            fill(outbox)
            filled_at = time.monotonic()
            eventually(lambda: all_reply(503))
            assert b"no settlement can be kept on disk" in host.request("GET", "/readyz").body
            wait_seconds(run, SECONDS / 3)
            others = run.kept(filled_at, time.monotonic())
            assert set(run.statuses()) == {200}
            eventually(lambda: bool(fleet.server.rows("SELECT id FROM completions_completion WHERE relayed_bytes > 0")))
            fleet.server.kill()
            received += read_all(client)
            assert b"[DONE]" not in received
            assert b'"error"' in received
            assert "No space left on device" in host.log()
            fleet.server.start()
            (outbox / "full").unlink()
            freed_at = time.monotonic()
            eventually(lambda: all_reply(200))
            back_seconds = time.monotonic() - freed_at
        assert (set(run.statuses()) <= {200, 503}, run.cut_off) == (True, [])
        fleet.recover()
        [(recovered,)] = fleet.server.rows("SELECT count(*) FROM completions_completion WHERE settlement = 'recovered'")
        assert recovered == 1
        stream = Call("stream", "first", ECHO, filled_at, status=200)
        books = fleet.assert_consistent([*run.calls, *calls, stream])
        measured(books, "1 stream ended with an error, and was charged as recovered", others=others, back_seconds=back_seconds)


@fault(
    "Database",
    "PostgreSQL's disk of the ledger is full under load",
    "All is served; settlements wait on the hosts' disks, and are charged once there is room",
)
def test_what_the_database_has_no_room_for_is_charged_when_it_has_some(fleet, measured):
    directory = fleet.server.directory / "ledger"
    directory.mkdir()
    fleet.begin()
    with disk(directory):
        fleet.server.own(directory)
        fleet.server.rows(f"CREATE TABLESPACE ledger LOCATION '{directory}'")
        fleet.server.rows("ALTER TABLE billing_ledgerentry SET TABLESPACE ledger")
        with fleet.load() as run:
            wait_seconds(run, SECONDS / 10)
            fill(directory)
            eventually(lambda: bool(fleet.files("json")))
            time.sleep(SECONDS / 3)
            waiting_files = len(fleet.files("json"))
            (directory / "full").unlink()
            freed_at = time.monotonic()
            eventually(lambda: run.seconds_until_served(freed_at) < SECONDS)
            wait_seconds(run, 1)
        assert (set(run.statuses()) <= {200, 503, None}, run.cut_off) == (True, [])
        fleet.settle()
        assert fleet.files("dead") == []
        books, back_seconds = fleet.assert_consistent(run.calls), run.seconds_until_served(freed_at)
        measured(books, f"{waiting_files} settlements waited", back_seconds=back_seconds, probed_seconds=run.probed_seconds)
        fleet.server.rows("ALTER TABLE billing_ledgerentry SET TABLESPACE pg_default")
