"""What operators watch, through real processes: web, worker and beat with a broker, and two hosts with different secrets."""

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.beat import PersistentScheduler
from cryptography.fernet import Fernet
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from billing.models import Account
from gateway_project.celery import app
from gateway_project.local import redis
from gateway_project.monitoring import processes
from gateway_project.monitoring.models import Process, TaskRun
from tests import waiting
from tests.faults import fault
from tests.gateway_project.local.launch import free_port
from tests.live.conftest import ROOT, SETTINGS, database_url, start
from tests.live.database_proxy import DatabaseProxy, running_proxy
from tests.live.gateway import Gateway, eventually

pytestmark = pytest.mark.system

VERIFIED = "gateway_ledger_verified_timestamp_seconds"


class Broker:
    """A Redis of these tests, and its queues of tasks."""

    def __init__(self, directory: Path) -> None:
        self._process = redis.start(directory)
        self.url = redis.url(directory)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(waiting.PROCESS_SECONDS_MAX)

    def send(self, task: str, queue: str = "celery") -> None:
        with Celery(broker=self.url.replace("unix://", "redis+socket://"), set_as_current=False) as sender:
            sender.send_task(task, queue=queue)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("redis"))
    yield broker
    broker.stop()


class Celeries:
    """Processes of Celery, and the directory of their logs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._running: list[subprocess.Popen[bytes]] = []

    def begin(self, *arguments: str, **variables: str) -> Path:
        """Start Celery with these arguments and settings. Return the path of its log."""
        log = self.directory / f"{len(self._running)}.log"
        environ = {**os.environ, **SETTINGS, "DATABASE_URL": database_url(), "GATEWAY_RANKINGS_FETCH": "0", **variables}
        command = [sys.executable, "-m", "celery", "--quiet", "--app", "tests.live.hurried_celery", *arguments]
        with log.open("wb") as file:
            self._running.append(subprocess.Popen(command, cwd=ROOT, env=environ, stdout=file, stderr=file))
        return log

    def end(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait(waiting.PROCESS_SECONDS_MAX)


@pytest.fixture
def celeries(tmp_path: Path) -> Iterator[Celeries]:
    celeries = Celeries(tmp_path)
    yield celeries
    celeries.end()


@dataclass(frozen=True)
class Workers:
    """A worker of each pool, with a queue of its own, behind one proxy. A child of the prefork pool runs one task."""

    ports: dict[str, int]
    logs: dict[str, Path]
    proxy: DatabaseProxy
    metrics: Path  # of both


QUEUES = {"threads": "celery", "prefork": "forked"}


@pytest.fixture(scope="module")
def started_workers(
    django_db_setup: None, broker: Broker, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any
) -> Iterator[Workers]:
    directory = tmp_path_factory.mktemp("workers")
    celeries, metrics = Celeries(directory), directory / "metrics"
    with running_proxy() as proxy:
        workers = Workers({pool: free_port() for pool in QUEUES}, {}, proxy, metrics)
        for pool, queue in QUEUES.items():
            arguments = ["--pool", pool, "--queues", queue, "--concurrency", "2", "--max-tasks-per-child", "1"]
            workers.logs[pool] = celeries.begin(
                *("worker", *arguments, "--hostname", f"{pool}@%h", "--without-gossip", "--without-mingle"),
                DATABASE_URL=proxy.url(application_name=pool),
                REDIS_URL=broker.url,
                GATEWAY_WORKER_METRICS_BIND=str(workers.ports[pool]),
                PROMETHEUS_MULTIPROC_DIR=str(metrics),
            )
        yield workers
        celeries.end()
    with django_db_blocker.unblock():
        Process.objects.all().delete()


@pytest.fixture
def workers(transactional_db: None, started_workers: Workers) -> Workers:
    for port in started_workers.ports.values():
        scrape_facts(port)
    return started_workers


def scrape(port: int) -> dict[str, float]:
    """Return the numbers by metric and labels; nothing while the address does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=waiting.PROCESS_SECONDS_MAX) as reply:
            lines = reply.read().decode().splitlines()
    except OSError:
        return {}
    return {name: float(value) for line in lines if line[0] != "#" for name, _, value in [line.rpartition(" ")]}


def scrape_until(port: int, condition: Callable[[dict[str, float]], Any]) -> dict[str, float]:
    """Return the first numbers for which the condition is true."""
    shown: list[dict[str, float]] = []
    eventually(lambda: shown.append(scrape(port)) or condition(shown[-1]))
    return shown[-1]


def scrape_facts(port: int) -> dict[str, float]:
    """Return the first numbers that have the facts: on a busy machine, a scrape may give up on the database."""
    return scrape_until(port, lambda shown: shown.get("gateway_database_up"))


@fault(
    "Deployment",
    "Web processes restart, and the folder of the metrics is emptied",
    "Each host shows the audit's findings and times as before",
)
def test_the_audit_is_shown_although_the_metrics_folder_is_emptied(workers, broker, alice):
    Account.objects.update(open_holds=1)  # it has none
    for port in workers.ports.values():
        before = scrape_facts(port)
        assert (before["gateway_ledger_violations"], before[VERIFIED]) == (0, 0)
    verified_at = [time.time() - 1]
    for pool, port in workers.ports.items():
        broker.send("billing.tasks.verify_ledger", QUEUES[pool])
        shown = scrape_until(port, lambda shown: shown.get(VERIFIED, 0) > verified_at[-1])
        assert shown["gateway_ledger_violations"] == 1
        verified_at.append(shown[VERIFIED])
    audited = {"gateway_ledger_violations": 1, VERIFIED: verified_at[-1]}

    shutil.rmtree(workers.metrics)
    gateway = start(workers.metrics.with_name("log"), {"REDIS_URL": broker.url})  # with the same folder
    try:
        for port in (gateway.port, *workers.ports.values()):
            shown = scrape_until(port, lambda shown: shown.get("gateway_database_up") and shown.get("gateway_broker_up"))
            assert {name: shown[name] for name in audited} == audited
            assert shown['gateway_task_timestamp_seconds{task="billing.tasks.verify_ledger"}'] == audited[VERIFIED]
            assert shown["gateway_queue_waiting"] == 0
    finally:
        gateway.stop()


def test_prefork_children_inherit_no_connection_of_their_parent(workers, broker):
    sweeps = TaskRun.objects.filter(name="completions.tasks.release_expired_holds")
    for _ in range(4):
        before = list(sweeps.values_list("finished_at", flat=True))
        broker.send("completions.tasks.release_expired_holds", QUEUES["prefork"])
        eventually(lambda: list(sweeps.values_list("finished_at", flat=True)) != before)  # noqa: B023  ends within the iteration
        assert scrape_facts(workers.ports["prefork"])["gateway_database_up"] == 1
    eventually(lambda: connections_of("prefork") == 0)
    assert "cannot" not in workers.logs["prefork"].read_text()


def connections_of(application: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [application])
        return int(cursor.fetchone()[0])


def is_without_database(shown: dict[str, float]) -> bool:
    return shown.get("gateway_database_up") == 0


@fault(
    "Database",
    "The database does not answer while `/metrics` is read",
    "The scrape ends with `gateway_database_up` 0, and has all facts when the database is back",
)
def test_scrapes_end_while_the_database_does_not_answer(workers):
    ports = workers.ports.values()
    with ThreadPoolExecutor(2) as threads:
        for fail in (workers.proxy.freeze, workers.proxy.cut):
            fail()
            for shown in threads.map(scrape_until, ports, [is_without_database] * 2):
                assert VERIFIED not in shown
                assert shown[f'gateway_outbox_waiting{{host="{processes.host()}"}}'] == 0
            workers.proxy.restore()
            for shown in threads.map(scrape_facts, ports):
                assert shown[VERIFIED] == 0


@fault(
    "Redis",
    "A worker starts while Redis is unavailable",
    "It serves metrics with `gateway_broker_up` 0, and takes tasks as soon as Redis is back",
)
@pytest.mark.parametrize("pool", QUEUES)
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_starts_without_redis_serves_metrics_and_connects_later(celeries, tmp_path_factory, pool):
    directory, port = tmp_path_factory.mktemp("late"), free_port()
    log = celeries.begin(
        *("worker", "--pool", pool, "--concurrency", "1", "--without-gossip", "--without-mingle"),
        REDIS_URL=f"unix://{redis._socket(directory)}",  # which is not there yet
        GATEWAY_WORKER_METRICS_BIND=str(port),
        PROMETHEUS_MULTIPROC_DIR=str(directory / "metrics"),
    )
    shown = scrape_until(port, lambda shown: "gateway_broker_up" in shown and shown.get("gateway_database_up"))
    assert shown["gateway_broker_up"] == 0
    broker = Broker(directory)
    try:
        scrape_until(port, lambda shown: shown.get("gateway_broker_up"))
        broker.send("completions.tasks.release_expired_holds")
        runs = TaskRun.objects.filter(name="completions.tasks.release_expired_holds")
        eventually(runs.exists)
    finally:
        celeries.end()
        broker.stop()
    assert "Traceback" not in log.read_text()
    Process.objects.all().delete()


def late_schedule(directory: Path) -> str:
    """Make a schedule file of a beat that was stopped two hours ago, so that tasks are due at once. Return its path."""
    path = str(directory / "schedule")
    late = PersistentScheduler(app, schedule_filename=path)
    for entry in late.schedule.values():
        entry.last_run_at -= timedelta(hours=2)
    late.close()
    return path


def test_beat_shows_when_it_last_sent_a_task_and_every_process_reports(workers, broker, celeries, tmp_path):
    began_at = time.time()
    celeries.begin("beat", "--schedule", late_schedule(tmp_path), "--pidfile=", REDIS_URL=broker.url)
    sweep = 'gateway_task_timestamp_seconds{task="completions.tasks.release_expired_holds"}'
    shown = scrape_until(
        workers.ports["threads"], lambda shown: shown.get("gateway_beat_timestamp_seconds") and shown.get(sweep)
    )
    assert min(shown["gateway_beat_timestamp_seconds"], shown[sweep]) >= began_at - 1
    eventually(lambda: set(Process.objects.alive().values_list("role", flat=True)) >= {"worker", "beat"})


def test_beat_without_a_broker_records_that_it_runs_tasks(transactional_db, celeries, tmp_path):
    celeries.begin("beat", "--schedule", late_schedule(tmp_path), "--pidfile=", REDIS_URL="")
    recorded = TaskRun.objects.values_list("name", flat=True)
    eventually(lambda: set(recorded.all()) >= {TaskRun.BEAT, "completions.tasks.release_expired_holds"})


NEW_KEY = Fernet.generate_key().decode()


@pytest.fixture(scope="module")
def lonely_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of no worker."""
    broker = Broker(tmp_path_factory.mktemp("lonely"))
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def other(
    django_db_setup: None, lonely_broker: Broker, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any
) -> Iterator[Gateway]:
    """A gateway with a new encryption key and the broker of no worker."""
    keys = ",".join([NEW_KEY, *settings.ENCRYPTION_KEYS])
    gateway = start(tmp_path_factory.mktemp("other") / "log", {"GATEWAY_ENCRYPTION_KEYS": keys, "REDIS_URL": lonely_broker.url})
    yield gateway
    gateway.stop()
    with django_db_blocker.unblock():
        Process.objects.all().delete()


@fault(
    "Deployment",
    "A host uses an encryption key that another host lacks",
    "`gateway_secrets_missing`, the log and a check say so, without the key",
)
def test_a_host_that_uses_a_key_which_another_lacks_is_found(gateway, other):
    missing = 'gateway_secrets_missing{secret="encryption_key"}'
    scrape_until(gateway.port, lambda shown: shown.get(missing))
    eventually(lambda: f"is missing at {processes.host()} (web)" in other.log())
    assert "gateway.W009" in other.log()
    checked = StringIO()
    call_command("check", databases=["default"], stderr=checked)
    assert "gateway.W009" in checked.getvalue()
    for secret in (*settings.ENCRYPTION_KEYS, NEW_KEY):
        assert secret not in checked.getvalue() + gateway.log() + other.log()


@fault(
    "Redis",
    "No worker runs, and then Redis is stopped",
    "`gateway_queue_waiting` shows the length of the queue; then `gateway_broker_up` is 0",
)
def test_a_queue_that_nobody_works_off_is_shown_by_its_length(transactional_db, other, lonely_broker):
    for _ in range(3):
        lonely_broker.send("billing.tasks.verify_ledger")
    scrape_until(other.port, lambda shown: shown.get("gateway_queue_waiting") == 3)
    lonely_broker.stop()
    shown = scrape_until(
        other.port, lambda shown: shown.get("gateway_broker_up") == 0 and shown.get("gateway_database_up") == 1
    )
    assert "gateway_queue_waiting" not in shown
