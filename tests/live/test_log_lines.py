"""All that a web process writes in a deployment, from its start to its end, is lines of JSON; each failed request has one."""

import json
import os
import subprocess
import sys

import pytest

from gateway_project.local import redis as embedded_redis
from tests import factories, waiting
from tests.live.conftest import AS_DEPLOYED, ROOT, SETTINGS, database_url, start
from tests.live.database_proxy import running_proxy
from tests.live.gateway import Gateway, eventually, read_all
from tests.upstream import HANG, refusal

pytestmark = pytest.mark.system

DEPLOYMENT = {
    "GATEWAY_DEVELOPMENT": "0",
    "GATEWAY_ALLOWED_HOSTS": "127.0.0.1",
    "GATEWAY_PRIVATE_UPSTREAMS": "*",
    "GATEWAY_UPSTREAM_TOTAL_SECONDS": "3",
    "GATEWAY_GRACEFUL_TIMEOUT_SECONDS": "300",  # gunicorn kills a worker that takes longer to end, and then it logs no end
    "GATEWAY_UPSTREAM_ATTEMPTS_MAX": "1",
}
SAID = "whisper-7f3a"
QUESTION = [{"role": "user", "content": SAID}]


@pytest.fixture
def proxy():
    with running_proxy() as proxy:
        yield proxy


def lines(gateway: Gateway) -> list[dict]:
    parsed = [json.loads(line) for line in gateway.log().splitlines()]
    for line in parsed:
        assert {"timestamp", "level", "logger", "message", "request_id"} <= set(line)
        assert line["message"].strip()
    return parsed


def failures(gateway: Gateway) -> list[tuple]:
    """Return what the lines of failed requests say, in the order of the requests."""
    failed = [line for line in lines(gateway) if line.get("status", 0) >= 400]
    assert all({"status", "route", "error"} <= set(line) for line in failed)
    return [(line["status"], line["error"], line.get("reason", "")) for line in failed]


def test_a_web_process_writes_only_json_and_one_line_for_each_failed_request(
    transactional_db, alice, proxy, tmp_path, upstream
):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url)
    factories.make_model("acme/large", provider=provider)
    secret = factories.make_key(alice)[1]
    gateway = start(tmp_path / "log", {**DEPLOYMENT, "DATABASE_URL": proxy.database_url}, AS_DEPLOYED)
    try:
        replies = [gateway.ask(secret, messages=QUESTION, temperature=SAID), gateway.ask(f"{secret[:-1]}!", messages=QUESTION)]
        upstream.will(refusal(500, "out of order"), [HANG])
        replies += [gateway.ask(secret, model="acme/large", messages=QUESTION) for _ in range(2)]
        unreadable = []
        for sent in (b"SPEAK\r\n\r\n", f"GET / HTTP/1.1\r\nAuthorization {secret}\r\n\r\n".encode()):
            with gateway.dial() as client:
                client.sendall(sent)
                unreadable.append(read_all(client))
        proxy.cut()
        replies += [gateway.ask(secret, messages=QUESTION), gateway.request("GET", f"/v1/usage?{SAID}", secret=secret)]
        eventually(lambda: "the database does not answer" in gateway.log())
        replies.append(gateway.request("GET", "/readyz"))
    finally:
        gateway.terminate()
    assert gateway._process.wait(waiting.PROCESS_SECONDS_MAX) == 0

    assert [reply.status for reply in replies] == [400, 401, 502, 504, 503, 503, 503]
    assert all(reply.startswith(b"HTTP/1.1 400 ") for reply in unreadable)
    told = failures(gateway)
    assert told[:2] == [(400, "InvalidRequest", ""), (401, "InvalidApiKey", "")]
    assert told[2][:2] == (502, "UpstreamFailed")
    assert told[3][:2] == (504, "UpstreamTimeout")
    assert [fact[:2] for fact in told[4:6]] == [(400, "InvalidRequestLine"), (400, "InvalidHeader")]
    assert [fact[:2] for fact in told[6:]] == [(503, "OperationalError")] * 3
    assert all(reason for status, _, reason in told if status >= 500)
    assert all("\n" not in reason for *_, reason in told)

    ids = [reply.headers["x-request-id"] for reply in replies]
    about = [line for line in lines(gateway) if line["request_id"] in ids and line["logger"] != "gateway.settlement"]
    assert [line["request_id"] for line in about] == ids  # one line each
    assert not any("exc_info" in line for line in lines(gateway))
    assert {"Starting gunicorn", "Booting worker", "Worker exiting", "Shutting down"} <= {
        " ".join(line["message"].split()[:2]).rstrip(":") for line in lines(gateway) if line["logger"] == "gunicorn.error"
    }
    for hidden in (SAID, secret, secret[-38:-8], os.environ["GATEWAY_SECRET_KEY"]):
        assert hidden not in gateway.log()


@pytest.fixture
def redis_url(tmp_path):
    process = embedded_redis.start(tmp_path)
    yield embedded_redis.url(tmp_path)
    embedded_redis.stop(tmp_path)
    process.wait(waiting.PROCESS_SECONDS_MAX)


def test_worker_and_beat_write_only_json(transactional_db, redis_url, tmp_path):
    environ = {**os.environ, **SETTINGS, **DEPLOYMENT, "DATABASE_URL": database_url(), "REDIS_URL": redis_url}
    commands = {
        "worker": (["worker", "--pool", "threads"], " ready."),
        "beat": (["beat", "--schedule", f"{tmp_path}/schedule"], "Starting"),
    }
    running = {}
    for name, (arguments, _) in commands.items():
        command = [sys.executable, "-m", "celery", "-A", "gateway_project", *arguments]
        with (tmp_path / name).open("wb") as file:
            running[name] = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=file, stderr=file)
    try:
        for name, (_, started) in commands.items():
            eventually(lambda: started in (tmp_path / name).read_text())  # noqa: B023  ends within the iteration
    finally:
        for process in running.values():
            process.terminate()
        ends = {name: process.wait(waiting.PROCESS_SECONDS_MAX) for name, process in running.items()}
    assert ends == {"worker": 0, "beat": 0}
    for name, process in running.items():
        lines(Gateway(0, process, tmp_path / name))
