"""`make run`: what it starts, when it fails, and that it leaves no process behind."""

import math
import os
import signal
import socket
import stat
from collections.abc import Iterator

import pytest

from tests.gateway_project.local.launch import STOP_SECONDS_MAX, Launch


@pytest.fixture(scope="module")
def running() -> Iterator[Launch]:
    """A gateway that is started once for all tests that leave it running."""
    launch = Launch()
    launch.start()
    yield launch
    launch.clean_up()


@pytest.fixture
def idle() -> Iterator[Launch]:
    launch = Launch()
    yield launch
    launch.clean_up()


@pytest.fixture(scope="module")
def _prepared() -> Iterator[Launch]:
    launch = Launch()
    yield launch
    launch.clean_up()


@pytest.fixture
def stopped(_prepared: Launch) -> Iterator[Launch]:
    """A data directory that other tests have used, too: all but the first start find its database prepared."""
    yield _prepared
    _prepared.stop()


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


def test_background_work_that_did_nothing_is_not_in_the_log(running):
    code = """
from completions.tasks import release_expired_holds
from gateway_project.celery import app
release_expired_holds.delay()
while not any(release_expired_holds.name in worker["total"] for worker in (app.control.inspect().stats() or {}).values()):
    pass
print("THE WORKER RAN IT")
"""
    assert "THE WORKER RAN IT" in running.manage("shell", "-c", code).stdout
    assert "release_expired_holds" not in running.log()
    assert "Sending due task" not in running.log()


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


def test_the_worker_takes_tasks_from_redis_over_a_unix_socket(running):
    code = "from gateway_project.celery import app; print('PONG', len(app.control.ping(timeout=60, limit=1)))"
    assert "PONG 1" in running.manage("shell", "-c", code).stdout
    [redis] = [process for process in running.processes() if "redis.sock" in " ".join(process.cmdline())]
    assert redis.net_connections("tcp") == []


def test_commands_share_the_running_database(running):
    code = "from billing.models import User; print('PEOPLE', sorted(User.objects.values_list('email', flat=True)))"
    done = running.manage("shell", "-c", code)
    assert "PEOPLE ['admin@example.com', 'owner@example.com']" in done.stdout
    assert running.get("/readyz").status_code == 200


def test_a_second_start_fails_in_one_line(running):
    status, output = running.fail(PORT="1")
    assert (status, output) == (1, f"The gateway is already running at {running.url} (data in {running.var}).\n")
    assert running.get("/readyz").status_code == 200


def test_metrics_of_all_processes_are_served(running):
    running.get("/healthz")
    assert 'gateway_requests_total{method="GET",route="healthz",status="200"}' in running.get("/metrics").text


def test_a_busy_port_fails_in_one_line_before_anything_starts(idle):
    with socket.create_server(("127.0.0.1", idle.port)):
        status, output = idle.fail()
    assert (status, output) == (1, f"Cannot listen on 127.0.0.1:{idle.port}: Address already in use. Try another PORT.\n")
    assert idle.processes() == []
    assert not (idle.var / "postgresql").exists()


@pytest.mark.parametrize(
    ("variables", "refusal"),
    [
        ({"PORT": "eighty"}, "PORT must be a number from 1 to 65535; it is 'eighty'.\n"),
        ({"PORT": "65536"}, "PORT must be a number from 1 to 65535; it is '65536'.\n"),
        ({"CATALOG": "absent.toml"}, "CATALOG: there is no file absent.toml.\n"),
    ],
)
def test_an_invalid_variable_fails_in_one_line(idle, variables, refusal):
    assert idle.fail(**variables) == (1, refusal)
    assert idle.processes() == []


def test_an_invalid_catalog_stops_the_start_and_all_its_processes(idle):
    (idle.var / "mine.toml").write_text("[models.'x/y']\nname = 3\n")
    status, output = idle.fail(CATALOG=str(idle.var / "mine.toml"))
    assert status == 1
    assert "catalog: " in output.splitlines()[-1] or "mine.toml" in output
    assert "Traceback" not in output
    assert idle.processes() == []


def test_a_price_of_the_own_catalog_stays_in_force_after_a_restart(idle):
    (idle.var / "mine.toml").write_text(MINE)
    for again in (False, True):
        idle.start(CATALOG=str(idle.var / "mine.toml"), REDIS_URL="")
        reply = idle.get("/v1/models/demo/echo", headers={"Authorization": f"Bearer {idle.quickstart()['api_key']}"})
        assert reply.json()["pricing"]["prompt"] == "0.000007"
        if again:
            count = "from completions.models import Price; print('PRICES', Price.objects.filter(model='demo/echo').count())"
            assert "PRICES 1\n" in idle.manage("shell", "-c", count).stdout
        assert idle.signal(signal.SIGINT) == 0


MINE = """
[models."demo/echo"]
name = "Echo"
provider = "Demo"
context_window = 128000
max_output_tokens = 16384
price = { input = "7", output = "7" }
routes = [ { provider = "echo", upstream_model = "echo" } ]
"""


def test_a_restart_after_a_kill_keeps_the_key_and_leaves_no_process(stopped):
    stopped.start()
    before = stopped.quickstart()
    stopped.signal(signal.SIGKILL)
    assert stopped.get("/readyz").status_code == 200  # its children still hold the port

    stopped.start()
    assert stopped.quickstart() == before
    reply = stopped.get("/api/billing/balance", headers={"Authorization": f"Bearer {before['api_key']}"})
    assert reply.json()["balanceInCents"] == 1000

    assert stopped.signal(signal.SIGINT) == 0
    assert stopped.processes() == []
    assert not (stopped.var / "postgresql" / "postmaster.pid").exists()


def test_the_gateway_serves_without_redis_and_fails_when_web_dies(stopped):
    stopped.start(REDIS_URL="")
    assert "worker started" not in stopped.log()
    assert stopped.get("/readyz").status_code == 200
    master = min(process.pid for process in stopped.processes() if "gunicorn" in process.cmdline())
    os.kill(master, signal.SIGKILL)
    assert stopped.process.wait(timeout=STOP_SECONDS_MAX) == 1
    assert stopped.processes() == []


def test_the_gateway_fails_when_a_store_dies(stopped):
    stopped.start()
    [redis] = [process for process in stopped.processes() if "redis.sock" in " ".join(process.cmdline())]
    redis.kill()
    assert stopped.process.wait(timeout=STOP_SECONDS_MAX) == 1
    assert "Redis has ended." in stopped.log()
    assert stopped.processes() == []
