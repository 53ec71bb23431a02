"""Faults of hosts that are used meanwhile: each reply that a caller got is compared with the ledger afterwards.

Run by ``make faults``. FAULT_SECONDS is the length of a load, a quarter of that of the longest. FAULT_SEED repeats the order of
requests and kills.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gateway_project.local import redis
from tests.faults import fault
from tests.live import load
from tests.live.database_server import DatabaseServer
from tests.live.fleet import Fleet, wait_seconds
from tests.live.gateway import Gateway, eventually
from tests.live.load import SECONDS

pytestmark = pytest.mark.long


@fault(
    "Web process",
    "Two workers serve whole and streamed requests for minutes, and clients leave midway",
    "Every reply is charged once. Memory, descriptors, threads, connections and holds do not grow after the first quarter",
)
def test_a_gateway_that_is_used_for_long_needs_no_more_than_in_the_beginning(fleet, measured):
    host = fleet.begin()
    with fleet.load() as first:
        wait_seconds(first, SECONDS)
    before = usage_at_rest(fleet, host)
    with fleet.load() as second:
        wait_seconds(second, 3 * SECONDS)
    assert first.cut_off + second.cut_off == []
    after = usage_at_rest(fleet, host)
    books = fleet.assert_consistent(first.calls + second.calls)
    measured(books, f"{before['megabytes']} MB, then {after['megabytes']} MB")
    assert after["megabytes"] < 1.2 * before["megabytes"]
    assert {name: after[name] for name in after if name != "megabytes" and after[name] > before[name] + 4} == {}


def usage_at_rest(fleet: Fleet, host: Gateway) -> dict[str, int]:
    """Return what the workers use when no request runs."""
    fleet.settle()
    workers = fleet.workers(host)
    connections = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    return {
        "megabytes": sum(worker.memory_info().rss for worker in workers) // 1_000_000,
        "descriptors": sum(worker.num_fds() for worker in workers),
        "threads": sum(worker.num_threads() for worker in workers),
        "connections": fleet.server.rows(connections)[0][0],
    }


@fault(
    "Database",
    "PostgreSQL is killed under load, several times",
    "Requests get 503 meanwhile. Forgotten ones are admitted again, with or without an Idempotency-Key: each reply is"
    " charged once",
)
def test_what_a_killed_database_forgets_is_admitted_again_and_charged(fleet, measured):
    fleet.begin()
    with fleet.load(keyed=0.5) as run:
        for _ in range(3):
            wait_seconds(run, SECONDS / 3)
            fleet.server.kill()
            time.sleep(1)
            fleet.server.start()
            started_at = time.monotonic()
        wait_seconds(run, 1)
    assert (set(run.statuses()) <= {200, 503, None}, run.cut_off) == (True, [])
    fleet.recover()
    assert (fleet.files("dead"), fleet.metric("gateway_operator_loss_nanos_total")) == ([], 0)
    back_seconds = run.seconds_until_served(started_at)
    measured(fleet.assert_consistent(run.calls), back_seconds=back_seconds, probed_seconds=run.probed_seconds)


@fault(
    "Database",
    "A standby that lacks the last seconds is promoted under load; hosts keep journals",
    "Requests get 503 meanwhile. Known holds are charged again, unknown requests admitted again: each reply is charged once",
)
def test_what_a_failover_loses_is_in_the_journals_of_the_hosts(fleet, measured):
    take_the_place(fleet, measured, DatabaseServer.stand_in_for)


@fault(
    "Database",
    "The database returns to a snapshot of its disk under load, in its timeline; hosts keep journals",
    "Requests get 503 meanwhile. Charges after the snapshot are made again, none twice",
)
def test_what_a_snapshot_lacks_is_in_the_journals_of_the_hosts(fleet, measured):
    take_the_place(fleet, measured, DatabaseServer.start_in_place_of)


def take_the_place(fleet: Fleet, measured: Any, take: Callable[[DatabaseServer, DatabaseServer], None]) -> None:
    """Let an older copy of the database take its place while it is used, and compare what hosts with journals charge."""
    for _ in range(2):
        fleet.begin(GATEWAY_SETTLEMENT_JOURNAL_MINUTES="5")
    with fleet.load(keyed=0.5) as run:
        wait_seconds(run, 1)
        fleet.server.stop()
        older = fleet.server.copy(fleet.server.directory.with_name("older"))
        fleet.server.start()
        wait_seconds(run, SECONDS)
        fleet.server.kill()
        take(older, fleet.server)
        fleet.server = older
        took_at = time.monotonic()
        wait_seconds(run, 10)  # the hosts look every five seconds
    assert (set(run.statuses()) <= {200, 503, None}, run.cut_off) == (True, [])
    fleet.recover()
    readmitted = sum(host.log().count("charges: they are given to the outbox again") for host in fleet.hosts)
    assert readmitted
    assert (fleet.files("dead"), fleet.metric("gateway_operator_loss_nanos_total")) == ([], 0)
    back_seconds = run.seconds_until_served(took_at)
    measured(fleet.assert_consistent(run.calls), back_seconds=back_seconds, probed_seconds=run.probed_seconds)


@fault(
    "Web process",
    "Workers of two hosts are killed at random under load",
    "Connections break. Whole replies are charged once, broken ones at most once",
)
def test_replies_of_hosts_whose_workers_are_killed_are_charged_once(fleet, measured):
    hosts = [fleet.begin(), fleet.begin()]
    chance, kills = random.Random(load.SEED), 0
    with fleet.load() as run:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline or kills < 4:
            time.sleep(chance.uniform(0.5, 2))
            if workers := fleet.workers(chance.choice(hosts)):
                os.kill(chance.choice(workers).pid, signal.SIGKILL)
                kills, killed_at = kills + 1, time.monotonic()
        eventually(lambda: run.seconds_until_served(killed_at) < SECONDS)
        wait_seconds(run, 1)
    assert set(run.statuses()) <= {200, None}
    fleet.recover()
    books = fleet.assert_consistent(run.calls, deaths=True)
    measured(books, f"{kills} kills, {run.seconds_until_served(killed_at):.1f} s from the last until every host served")


@fault(
    "Database",
    "A session blocks writes to the ledger under load while another host sweeps",
    "Settlements wait on disk, and are exact: no reply is free or estimated",
)
def test_what_waits_on_disk_is_given_away_by_no_other_host(fleet, measured):
    hosts = [fleet.begin(), fleet.begin()]
    with fleet.load() as run:
        wait_seconds(run, 2)
        with fleet.server.holding("LOCK TABLE billing_ledgerentry IN SHARE MODE"):
            outboxes = [fleet.directory(number) / "outbox" for number, _ in enumerate(hosts)]
            eventually(lambda: all(list(outbox.glob("*.json")) for outbox in outboxes))
            assert fleet.server.rows(
                "UPDATE completions_completion SET checkpointed_at = statement_timestamp() - interval '1 hour'"
                " WHERE settlement IS NULL RETURNING id"
            )
            eventually(lambda: not fleet.has_old_signs())
            swept = fleet.manage("sweep_holds")
        unlocked_at = time.monotonic()
        eventually(lambda: run.seconds_until_served(unlocked_at) < SECONDS)
    fleet.settle()
    assert swept == {"resolved": 0}
    settled_by = fleet.server.rows("SELECT DISTINCT settlement FROM completions_completion")
    assert not {("expired",), ("recovered",)} & set(settled_by)
    back_seconds = run.seconds_until_served(unlocked_at)
    measured(fleet.assert_consistent(run.calls), back_seconds=back_seconds, probed_seconds=run.probed_seconds)


@fault(
    "Database",
    "A session locks the row of an account under load",
    "Its requests get 503, the first after five seconds, others at once. Other accounts are served as before",
)
def test_an_account_that_is_locked_under_load_is_refused_alone(fleet, measured):
    fleet.begin()
    secret = fleet.account("locked@example.org")
    [(account,)] = fleet.server.rows("SELECT account_id FROM keys_apikey ORDER BY created_at DESC LIMIT 1")
    with fleet.load(secret=secret, pace_seconds=0.2) as run, fleet.load(pace_seconds=0.5) as beside:
        wait_seconds(beside, SECONDS / 3)
        locked_at = time.monotonic()
        with fleet.server.holding(f"SELECT id FROM billing_account WHERE id = '{account}' FOR UPDATE"):
            time.sleep(SECONDS / 2)
            others = beside.kept(locked_at, time.monotonic())
        unlocked_at = time.monotonic()
        eventually(lambda: run.seconds_until_served(unlocked_at) < SECONDS)
        wait_seconds(run, 1)
    assert (set(run.statuses()), run.cut_off, set(beside.statuses())) == ({200, 503}, [], {200})
    fleet.settle()
    books = fleet.assert_consistent(run.calls + beside.calls)
    back_seconds = run.seconds_until_served(unlocked_at)
    measured(books, others=others, back_seconds=back_seconds, probed_seconds=run.probed_seconds)


@fault(
    "Provider",
    "A provider hangs under load",
    "504 at the deadline, or 503, free. Other providers' models are served as before",
)
def test_a_hung_provider_costs_nothing_and_holds_up_no_other(prepared, fleet, measured):
    fleet.begin(GATEWAY_UPSTREAM_TOTAL_SECONDS="8")
    with (
        fleet.load(models=[load.REMOTE], pace_seconds=0.2) as run,
        fleet.load(models=[load.ECHO], pace_seconds=0.5) as beside,
    ):
        wait_seconds(beside, SECONDS / 3)
        hung_at = time.monotonic()
        with prepared.hung_provider():
            time.sleep(SECONDS / 2)
            others = beside.kept(hung_at, time.monotonic())
        resumed_at = time.monotonic()
        eventually(lambda: run.seconds_until_served(resumed_at) < SECONDS)
        wait_seconds(run, 1)
    assert (set(run.statuses()) <= {200, 503, 504}, set(beside.statuses())) == (True, {200}), run.statuses()
    fleet.settle()
    books = fleet.assert_consistent(run.calls + beside.calls, deaths=True)
    back_seconds = run.seconds_until_served(resumed_at)
    measured(books, others=others, back_seconds=back_seconds, probed_seconds=run.probed_seconds)


@fault(
    "Web process",
    "A worker has no file descriptor left",
    "New connections wait, requests that need one get 502 or 503. Then the worker serves all again",
)
def test_a_worker_without_file_descriptors_serves_again_when_it_has_some(fleet, measured):
    host, other = fleet.begin(WEB_CONCURRENCY="1"), fleet.begin(WEB_CONCURRENCY="1")
    before = fleet.ask(host)
    [worker] = fleet.workers(host)
    with fleet.load([host]) as run, fleet.load([other], pace_seconds=0.5) as beside:
        wait_seconds(beside, SECONDS / 3)
        few = (worker.num_fds() + 8, worker.num_fds() + 8)
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, few)
        used_at = time.monotonic()
        idle = [host.dial() for _ in range(16)]
        time.sleep(SECONDS / 3)
        others = beside.kept(used_at, time.monotonic())
        for client in idle:
            client.close()
        closed_at = time.monotonic()
        eventually(lambda: run.seconds_until_served(closed_at) < SECONDS)
        wait_seconds(run, 1)
    assert (set(run.statuses()) - {200, 502, 503, None}, run.cut_off) == (set(), []), run.statuses()
    assert set(beside.statuses()) == {200}
    after = fleet.ask(host)
    assert (before.status, after.status) == (200, 200)
    assert fleet.workers(host) == [worker]
    assert "Too many open files" in host.log()
    fleet.settle()
    books = fleet.assert_consistent([before, *run.calls, *beside.calls, after])
    measured(books, others=others, back_seconds=run.seconds_until_served(closed_at))


@fault("Redis", "Redis is killed under load", "Completions and rankings are served as before")
def test_nothing_fails_when_redis_is_killed(fleet, tmp_path, measured):
    process = redis.start(tmp_path)
    assert process
    try:
        host = fleet.begin(REDIS_URL=redis.url(tmp_path))
        with fleet.load(pace_seconds=0.5) as run:
            wait_seconds(run, SECONDS / 3)
            killed_at = time.monotonic()
            process.kill()
            process.wait()
            assert host.request("GET", "/api/rankings").status == 200
            wait_seconds(run, SECONDS / 3)
            others = run.kept(killed_at, time.monotonic())
    finally:
        process.kill()
        process.wait()
    assert set(run.statuses()) == {200}
    fleet.settle()
    measured(fleet.assert_consistent(run.calls), others=others, probed_seconds=run.probed_seconds)


@fault(
    "Network",
    "All packets between a gateway and its database are lost for some seconds",
    "A probe finds out; then requests get 503 at once. When packets arrive again, all is served and charged",
)
def test_a_gateway_cut_off_from_its_database_refuses_at_once_and_returns(prepared, measured):
    with (
        namespace() as (name, addresses, inside),
        prepared.fleet(address=",".join(addresses), namespace=["ip", "netns", "exec", name]) as fleet,
    ):
        hosts = [fleet.begin(WEB_CONCURRENCY="1", DATABASE_URL=fleet.server.url_at(address)) for address in addresses]
        host, other = hosts
        with fleet.load([host]) as run, fleet.load([other], pace_seconds=0.5) as beside:
            wait_seconds(run, SECONDS / 3)
            cut_at = time.monotonic()
            ip("-n", name, "link", "set", inside, "down")
            eventually(lambda: host.request("GET", "/readyz").status == 503)
            time.sleep(SECONDS / 3)
            began_at = time.monotonic()
            assert fleet.ask(host).status == 503
            refused_seconds = time.monotonic() - began_at
            others = beside.kept(cut_at, time.monotonic())
            ip("-n", name, "link", "set", inside, "up")
            linked_at = time.monotonic()
            eventually(lambda: host.request("GET", "/readyz").status == 200)
            eventually(lambda: run.seconds_until_served(linked_at) < SECONDS)
            wait_seconds(run, 2)
        assert (set(run.statuses()) <= {200, 503, None}, run.cut_off, set(beside.statuses())) == (True, [], {200})
        assert "is known for" in host.log()
        assert "did not answer within" not in host.log()
        fleet.recover()
        measured(
            fleet.assert_consistent(run.calls + beside.calls),
            f"refused within {1_000 * refused_seconds:.0f} ms",
            others=others,
            back_seconds=run.seconds_until_served(linked_at),
            probed_seconds=run.probed_seconds,
        )


@contextmanager
def namespace() -> Iterator[tuple[str, list[str], str]]:
    """Make a network namespace with two links. Yield its name, its addresses, and the name of the first interface inside."""
    name = f"gw{os.getpid()}"
    if not shutil.which("ip") or subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        pytest.skip("no network namespace can be made here")
    try:
        links = [_link(name, number) for number in range(2)]
        yield name, [address for address, _ in links], links[0][1]
    finally:
        for number in range(2):
            subprocess.run(["ip", "link", "delete", f"{name}h{number}"], capture_output=True)
        ip("netns", "delete", name)


def _link(name: str, number: int) -> tuple[str, str]:
    """Link this machine with the namespace. Return the address and the name of the interface inside."""
    near, far, subnet = f"{name}h{number}", f"{name}n{number}", f"198.18.{213 + number}"
    ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
    ip("addr", "add", f"{subnet}.1/30", "dev", near)
    ip("link", "set", near, "up")
    ip("-n", name, "addr", "add", f"{subnet}.2/30", "dev", far)
    ip("-n", name, "link", "set", far, "up")
    return f"{subnet}.2", far


def ip(*arguments: Any) -> None:
    subprocess.run(["ip", *arguments], check=True)
