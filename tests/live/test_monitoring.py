"""What operators watch, through real processes: web, worker and beat with a broker, and two hosts with different secrets."""

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.beat import PersistentScheduler
from cryptography.fernet import Fernet
from django.conf import settings
from django.db import connection

from billing.models import Account
from gateway_project import celery_app
from gateway_project.local import redis
from gateway_project.monitoring import processes, task_runs
from gateway_project.monitoring.models import Process, TaskRun
from tests import waiting
from tests.faults import fault
from tests.gateway_project.local.launch import free_port
from tests.live.conftest import ROOT, SETTINGS, database_url, start
from tests.live.database_proxy import running_proxy

VERIFIED = "gateway_ledger_verified_timestamp_seconds"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    process = redis.start(tmp_path)
    assert process
    yield redis.url(tmp_path)
    process.terminate()
    process.wait(60)


@pytest.fixture
def celery(broker: str, tmp_path: Path) -> Iterator[Any]:
    """A function that starts Celery with these arguments and settings, and returns the path of its log."""
    running = []

    def begin(*arguments: str, **variables: str) -> Path:
        log = tmp_path / f"{arguments[0]}-{len(running)}.log"
        environ = {**os.environ, **SETTINGS, "DATABASE_URL": database_url(), "REDIS_URL": broker}
        environ |= {"GATEWAY_RANKINGS_FETCH": "0", **variables}
        command = [sys.executable, "-m", "celery", "--quiet", "--app", "gateway_project", *arguments]
        with log.open("wb") as file:
            running.append(subprocess.Popen(command, cwd=ROOT, env=environ, stdout=file, stderr=file))
        return log

    yield begin
    for process in running:
        process.terminate()
    for process in running:
        process.wait(60)


def worker(pool: str, port: int, metrics: Path) -> tuple[list[str], dict[str, str]]:
    arguments = ["worker", "--pool", pool, "--concurrency", "2", "--without-gossip", "--without-mingle"]
    return arguments, {"GATEWAY_WORKER_METRICS_BIND": str(port), "PROMETHEUS_MULTIPROC_DIR": str(metrics)}


def send(broker: str, task: str) -> None:
    with Celery(broker=broker.replace("unix://", "redis+socket://"), set_as_current=False) as sender:
        sender.send_task(task)


def scrape(port: int) -> dict[str, float]:
    """Return the numbers by metric and labels; nothing while the address does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=waiting.SECONDS_MAX) as reply:
            lines = reply.read().decode().splitlines()
    except OSError:
        return {}
    return {name: float(value) for line in lines if line[0] != "#" for name, _, value in [line.rpartition(" ")]}


def scrape_facts(port: int) -> dict[str, float]:
    """Return the first numbers that have the facts: on a busy machine, a scrape may give up on the database."""
    shown: list[dict[str, float]] = []
    waiting.until(lambda: shown.append(scrape(port)) or shown[-1].get("gateway_database_up"))
    return shown[-1]


@fault(
    "Deployment",
    "Web processes restart, and the folder of the metrics is emptied",
    "Each host shows the findings and times of the audit as before",
)
@pytest.mark.parametrize("pool", ["threads", "prefork"])
@pytest.mark.usefixtures("transactional_db")
def test_the_audit_is_shown_although_the_metrics_folder_is_emptied(broker, celery, alice, tmp_path, pool):
    shared, log, port = tmp_path / "metrics", tmp_path / "log", free_port()
    web = {"REDIS_URL": broker, "GATEWAY_OUTBOX_DIR": str(tmp_path / "outbox")}
    Account.objects.update(open_holds=1)  # it has none
    gateway = start(log, web)
    try:
        first = scrape_facts(gateway.port)
        assert (first["gateway_ledger_violations"], first[VERIFIED]) == (0, 0)
        arguments, variables = worker(pool, port, shared)
        celery(*arguments, **variables)
        began_at = time.time()
        send(broker, "billing.tasks.verify_ledger")
        waiting.until(lambda: scrape(port).get(VERIFIED))
        shown = scrape_facts(port)
        audited = {name: shown[name] for name in ("gateway_ledger_violations", VERIFIED)}
        assert audited["gateway_ledger_violations"] == 1
        assert audited[VERIFIED] >= began_at - 1
    finally:
        gateway.stop()
    shutil.rmtree(shared)
    gateway = start(log, web)
    try:
        first = scrape_facts(gateway.port)
        assert {name: first[name] for name in audited} == audited
        assert first['gateway_task_timestamp_seconds{task="billing.tasks.verify_ledger"}'] == audited[VERIFIED]
        assert (first["gateway_database_up"], first["gateway_broker_up"], first["gateway_queue_waiting"]) == (1, 1, 0)
        shown = scrape_facts(port)
        assert {name: shown[name] for name in audited} == audited
    finally:
        gateway.stop()


@pytest.mark.usefixtures("transactional_db")
def test_prefork_children_inherit_no_connection_of_their_parent(broker, celery, tmp_path):
    port, sweeps = free_port(), TaskRun.objects.filter(name="completions.tasks.release_expired_holds")
    arguments, variables = worker("prefork", port, tmp_path / "metrics")
    variables["DATABASE_URL"] = f"{database_url()}&application_name=prefork"
    log = celery(*arguments, "--max-tasks-per-child", "1", **variables)
    scrape_facts(port)
    for _ in range(4):
        before = list(sweeps.values_list("finished_at", flat=True))
        send(broker, "completions.tasks.release_expired_holds")
        waiting.until(lambda: list(sweeps.values_list("finished_at", flat=True)) != before)  # noqa: B023  ends within the iteration
        assert scrape_facts(port)["gateway_database_up"] == 1
    kept_open: list[int] = []
    waiting.until(lambda: kept_open.append(connections_of("prefork")) or kept_open[-1] == 0)
    assert kept_open[-1] == 0
    assert "cannot" not in log.read_text()


def connections_of(application: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [application])
        return int(cursor.fetchone()[0])


@fault(
    "Redis",
    "No worker runs, and then Redis is stopped",
    "`gateway_queue_waiting` shows the length of the queue; then `gateway_broker_up` is 0",
)
@pytest.mark.usefixtures("transactional_db")
def test_a_queue_that_nobody_works_off_is_shown_by_its_length(broker, tmp_path):
    gateway = start(tmp_path / "log", {"REDIS_URL": broker})
    try:
        for _ in range(3):
            send(broker, "billing.tasks.verify_ledger")
        waiting.until(lambda: scrape(gateway.port).get("gateway_queue_waiting") == 3)
        assert scrape(gateway.port)["gateway_queue_waiting"] == 3
        redis.stop(tmp_path)
        waiting.until(lambda: scrape(gateway.port)["gateway_broker_up"] == 0)
        shown = scrape_facts(gateway.port)
        assert (shown["gateway_broker_up"], shown["gateway_database_up"]) == (0, 1)
        assert "gateway_queue_waiting" not in shown
    finally:
        gateway.stop()


@fault(
    "Database",
    "The database does not answer while `/metrics` is read",
    "The scrape ends with `gateway_database_up` 0, and has all facts when the database is back",
)
@pytest.mark.parametrize("pool", ["threads", "prefork"])
@pytest.mark.usefixtures("transactional_db")
def test_scrapes_end_while_the_database_does_not_answer(celery, broker, tmp_path, pool):
    port = free_port()
    with running_proxy() as proxy:
        arguments, variables = worker(pool, port, tmp_path / "metrics")
        celery(*arguments, **variables, DATABASE_URL=proxy.database_url)
        waiting.until(lambda: scrape(port).get("gateway_database_up"))
        for fail in (proxy.freeze, proxy.cut):
            fail()
            waiting.until(lambda: scrape(port).get("gateway_database_up") == 0)
            shown = scrape(port)
            assert shown["gateway_database_up"] == 0
            assert VERIFIED not in shown
            assert shown[f'gateway_outbox_waiting{{host="{processes.host()}"}}'] == 0
            proxy.restore()
            assert scrape_facts(port)[VERIFIED] == 0


def late_schedule(directory: Path) -> str:
    """Make a schedule file of a beat that was stopped two hours ago, so that tasks are due at once. Return its path."""
    path = str(directory / "schedule")
    late = PersistentScheduler(celery_app, schedule_filename=path)
    for entry in late.schedule.values():
        entry.last_run_at -= timedelta(hours=2)
    late.close()
    return path


@pytest.mark.usefixtures("transactional_db")
def test_beat_shows_when_it_last_sent_a_task_and_every_process_reports(broker, celery, tmp_path):
    port = free_port()
    arguments, variables = worker("threads", port, tmp_path / "metrics")
    celery(*arguments, **variables)
    began_at = time.time()
    celery("beat", "--schedule", late_schedule(tmp_path), "--pidfile=")
    sweep = 'gateway_task_timestamp_seconds{task="completions.tasks.release_expired_holds"}'
    waiting.until(lambda: (shown := scrape(port)).get("gateway_beat_timestamp_seconds") and shown[sweep])
    shown = scrape_facts(port)
    assert min(shown["gateway_beat_timestamp_seconds"], shown[sweep]) >= began_at - 1
    waiting.until(lambda: set(Process.objects.values_list("role", flat=True)) >= {"worker", "beat"})
    assert set(Process.objects.alive().values_list("role", flat=True)) >= {"worker", "beat"}


@pytest.mark.usefixtures("transactional_db")
def test_beat_without_a_broker_records_that_it_runs_tasks(celery, tmp_path):
    celery("beat", "--schedule", late_schedule(tmp_path), "--pidfile=", REDIS_URL="")
    recorded = TaskRun.objects.values_list("name", flat=True)
    waiting.until(lambda: set(recorded.all()) >= {task_runs.BEAT, "completions.tasks.release_expired_holds"})
    assert set(recorded.all()) >= {task_runs.BEAT, "completions.tasks.release_expired_holds"}


@fault(
    "Deployment",
    "A host uses an encryption key that another host lacks",
    "`gateway_secrets_missing`, the log and a check say so, without the key",
)
@pytest.mark.usefixtures("transactional_db")
def test_a_host_that_uses_a_key_which_another_lacks_is_found(tmp_path):
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    missing = 'gateway_secrets_missing{secret="encryption_key"}'
    first = start(tmp_path / "log", {"GATEWAY_ENCRYPTION_KEYS": old})
    (tmp_path / "b").mkdir()
    second = start(tmp_path / "b" / "log", {"GATEWAY_ENCRYPTION_KEYS": f"{new},{old}"})
    try:
        waiting.until(lambda: scrape(first.port).get(missing))
        assert scrape_facts(first.port)[missing] >= 1
        waiting.until(lambda: "gateway.W009" in second.log())
        assert f"is missing at {processes.host()} (web)." in second.log()
        environ = {**os.environ, **SETTINGS, "DATABASE_URL": database_url(), "GATEWAY_ENCRYPTION_KEYS": old}
        command = [sys.executable, "manage.py", "check", "--database", "default"]
        checked = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60)
        assert "gateway.W009" in checked.stderr
        for secret in (old, new, settings.ENCRYPTION_KEYS[0]):
            assert secret not in checked.stderr + first.log() + second.log()
    finally:
        first.stop()
        second.stop()
