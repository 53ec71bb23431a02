"""`make run`: what it starts, when it fails, and that it leaves no process behind."""

import math
import signal
import socket
import stat
from collections.abc import Iterator

import pytest

from gateway_project.local import preparation
from gateway_project.local.embedded import CannotStart
from tests.faults import fault
from tests.gateway_project.local.launch import STOP_SECONDS_MAX, Launch

pytestmark = pytest.mark.system

MINE = """
[models."demo/echo"]
name = "Echo"
provider = "Demo"
context_window = 128000
max_output_tokens = 16384
price = { input = "7", output = "7" }
routes = [ { provider = "echo", upstream_model = "echo" } ]
"""


# `make run` with a process that only sleeps in place of web and worker, and without the steps that fill the database.
SLEEPING = """
from gateway_project.local import supervisor

supervisor._run_child = lambda *arguments: 0
supervisor._commands = lambda *arguments, **options: {"web": ["-c", "import time; time.sleep(3_600)"]}
supervisor.READY_SECONDS_MAX = 3_600
supervisor.main()
"""


def start(launch: Launch, **variables: str) -> None:
    """Start with a catalog of its own, which changes the price of a built-in model."""
    catalog = launch.var / "mine.toml"
    catalog.write_text(MINE)
    launch.start(CATALOG=str(catalog), **variables)


@pytest.fixture(scope="module")
def running() -> Iterator[Launch]:
    """A gateway that is started once for all tests that leave it running."""
    launch = Launch()
    start(launch)
    yield launch
    launch.clean_up()


@pytest.fixture
def stopped(running: Launch) -> Launch:
    running.stop()
    return running


@pytest.fixture
def idle() -> Iterator[Launch]:
    launch = Launch()
    yield launch
    launch.clean_up()


def test_the_gateway_serves_and_prints_what_to_try(running):
    assert running.get("/readyz").status_code == 200
    facts, log = running.quickstart(), running.log()
    for hint in ("curl ", "OpenAI(", "/dashboard/", "/admin/", facts["api_key"], facts["owner"]["password"], "quickstart.json"):
        assert hint in log


def test_the_announcement_fits_on_one_screen(running):
    facts, log = running.quickstart(), running.log()
    announcement = log[log.index("The gateway is ready") : log.index("Ctrl-C stops everything")].splitlines()
    assert sum(max(math.ceil(len(line) / 80), 1) for line in announcement) <= 22  # of 24
    assert announcement[0] == f"The gateway is ready at {facts['api_url']}"
    assert f"Data       {running.var} " in "\n".join(announcement)
    for person in ("owner", "admin"):
        assert [line for line in announcement if line.endswith(f"{facts[person]['email']}  {facts[person]['password']}")]


@pytest.fixture(scope="module")
def waited(running: Launch) -> str:
    """What a command says that waits until the worker has run a task which did nothing, and until all processes report."""
    code = """
import time
from completions.tasks import release_expired_holds
from gateway_project.celery import app
from gateway_project.monitoring.models import Process
release_expired_holds.delay()
while not any(release_expired_holds.name in worker["total"] for worker in (app.control.inspect().stats() or {}).values()):
    pass
print("THE WORKER RAN IT")
while set(Process.objects.alive().values_list("role", flat=True)) != {"web", "worker", "beat"}:
    time.sleep(0.1)
print("ALL REPORT")
"""
    return running.manage("shell", "-c", code).stdout


def test_background_work_that_did_nothing_is_not_in_the_log(running, waited):
    assert "THE WORKER RAN IT" in waited
    assert "release_expired_holds" not in running.log()
    assert "Sending due task" not in running.log()
    assert running.get("/readyz").status_code == 200  # a command shares the running database, and leaves it running


def test_the_quickstart_file_is_complete_and_readable_by_its_owner_only(running):
    facts = running.quickstart()
    assert list(facts) == ["base_url", "api_url", "api_key", "model", "admin", "owner"]
    assert facts["base_url"] == facts["api_url"] == running.url
    assert facts["model"] == "demo/echo"
    assert list(facts["admin"]) == list(facts["owner"]) == ["email", "password"]
    for name in ("quickstart.json", "secrets.env"):
        assert stat.S_IMODE((running.var / name).stat().st_mode) == 0o600


def test_the_demo_key_opens_an_account_with_ten_dollars(running):
    reply = running.get("/api/billing/balance", headers={"Authorization": f"Bearer {running.quickstart()['api_key']}"})
    assert (reply.status_code, reply.json()) == (200, {"balanceInCents": 1000, "balanceInDollars": 10.0})


def test_redis_listens_on_a_unix_socket_only(running):
    [redis] = [process for process in running.processes() if "redis.sock" in " ".join(process.cmdline())]
    assert redis.net_connections("tcp") == []


def test_a_second_start_fails_in_one_line(running):
    status, output = running.fail(PORT="1")
    assert (status, output) == (1, f"The gateway is already running at {running.url} (data in {running.var}).\n")
    assert running.get("/readyz").status_code == 200


def test_the_worker_sends_the_periodic_tasks(running, waited):
    assert "ALL REPORT" in waited
    commands = [process.cmdline() for process in running.processes()]
    assert [command for command in commands if "beat" in command] == []
    assert len([command for command in commands if "celery" in command]) == 1  # the worker, and beat in it


def test_metrics_of_all_processes_are_served(running):
    running.get("/healthz")
    assert 'gateway_requests_total{method="GET",route="healthz",status="200"}' in running.get("/metrics").text


def test_a_busy_port_fails_in_one_line_before_anything_starts(idle):
    with socket.create_server(("127.0.0.1", idle.port)):
        status, output = idle.fail()
    assert (status, output) == (1, f"Cannot listen on 127.0.0.1:{idle.port}: Address already in use. Try another PORT.\n")
    assert idle.processes() == []
    assert not (idle.var / "postgresql").exists()


def test_an_invalid_variable_fails_in_one_line(idle):
    assert idle.fail(CATALOG="absent.toml") == (1, "CATALOG: there is no file absent.toml.\n")
    assert idle.processes() == []


@pytest.mark.parametrize("port", ["eighty", "65536"])
def test_an_invalid_port_is_refused(port):
    with pytest.raises(CannotStart, match=f"^PORT must be a number from 1 to 65535; it is '{port}'.$"):
        preparation.requested_address({"PORT": port})


# --- How it ends. Each start finds the database of the one before: to make one takes seconds -------------------------------


@fault(
    "Redis",
    "There is no Redis",
    "The gateway serves; background tasks run in beat's own process",
)
def test_a_start_after_a_kill_keeps_key_and_prices_and_needs_no_redis(running):
    before = running.quickstart()
    running.signal(signal.SIGKILL)
    assert running.get("/readyz").status_code == 200  # its children still hold the port

    start(running, REDIS_URL="", WEB_CONCURRENCY="1")
    assert "worker started" not in running.log()
    assert running.quickstart() == before
    bearer = {"Authorization": f"Bearer {before['api_key']}"}
    assert running.get("/api/billing/balance", headers=bearer).json()["balanceInCents"] == 1000
    assert running.get("/v1/models/demo/echo", headers=bearer).json()["pricing"]["prompt"] == "0.000007"
    emails = running.rows("SELECT email FROM billing_user ORDER BY email")
    assert emails == [("admin@example.com",), ("owner@example.com",)]
    assert running.rows("SELECT count(*) FROM completions_price WHERE model_id = 'demo/echo'") == [(1,)]


def test_ctrl_c_leaves_no_process(running):
    assert running.signal(signal.SIGINT) == 0
    assert running.processes() == []
    assert not (running.var / "postgresql" / "postmaster.pid").exists()


@pytest.fixture
def sleeping() -> Iterator[Launch]:
    launch = Launch("-c", SLEEPING)
    launch.begin(DATABASE_URL="postgresql://nobody@localhost/nothing")
    launch.wait_for("web started")
    yield launch
    launch.clean_up()


@pytest.mark.parametrize(("mark", "said"), [("redis.sock", "Redis has ended."), ("time.sleep(3_600)", "web")])
def test_it_ends_when_a_store_or_a_process_dies(sleeping, mark, said):
    [victim] = [
        process
        for process in sleeping.processes()
        if mark in " ".join(process.cmdline()) and process.pid != sleeping.process.pid
    ]
    victim.kill()
    assert sleeping.process.wait(timeout=STOP_SECONDS_MAX) == 1
    assert said in sleeping.log()
    assert sleeping.processes() == []


def test_an_invalid_catalog_stops_the_start_and_all_its_processes(stopped):
    (stopped.var / "invalid.toml").write_text("[models.'x/y']\nname = 3\n")
    status, output = stopped.fail(CATALOG=str(stopped.var / "invalid.toml"))
    assert status == 1
    assert "catalog: " in output.splitlines()[-1] or "invalid.toml" in output
    assert "Traceback" not in output
    assert stopped.processes() == []
