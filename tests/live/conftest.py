"""A real gunicorn on the test database. One serves all tests of the folder; its settings are small, so that tests are fast."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection

from gateway_project.monitoring.models import Process
from tests import waiting
from tests.browser import chromium
from tests.live.gateway import Gateway
from tests.upstream import KEY, KEY_ENV, Upstream, upstream

__all__ = ["chromium", "upstream"]

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = {
    "WEB_CONCURRENCY": "1",
    "GATEWAY_DATABASE_POOL_SIZE": "4",
    "GATEWAY_REQUEST_BYTES_MAX": "100000",
    "GATEWAY_REQUEST_BODY_TIMEOUT": "1",
    "GATEWAY_STREAM_HEARTBEAT_SECONDS": "1",
    "GATEWAY_GRACEFUL_TIMEOUT_SECONDS": "2",
    "GATEWAY_KEY_READS_PER_MINUTE": "1000000",  # readers of the ledger poll without a pause
    "REDIS_URL": "",
    KEY_ENV: KEY,
}


@pytest.fixture(scope="package")
def gateways(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Gateway]]:
    """Return a function that starts a gateway with the given settings, or returns the running one that has them.

    They end with the tests of this folder: their reports in the database would be those of other hosts to tests elsewhere.
    """
    running: dict[tuple[tuple[str, str], ...], Gateway] = {}

    def started(**settings: str) -> Gateway:
        name = tuple(sorted((each, value) for each, value in settings.items() if SETTINGS.get(each) != value))
        if name not in running:
            running[name] = start(tmp_path_factory.mktemp("gateway") / "log", settings)
        return running[name]

    yield started
    for gateway in running.values():
        gateway.terminate()
    for gateway in running.values():
        gateway.stop()
    with django_db_blocker.unblock():
        Process.objects.all().delete()


@pytest.fixture
def gateway(transactional_db: None, gateways: Callable[..., Gateway]) -> Iterator[Gateway]:
    served = gateways()
    mark = len(served.log())
    yield served
    assert "Traceback" not in served.log()[mark:]


@pytest.fixture
def large(upstream: Upstream, gateway: Gateway) -> Any:
    """A model of the scripted upstream, at 3,000 nanodollars per prompt token and 15,000 per generated token."""
    from tests import factories

    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    return factories.make_model("acme/large", provider=provider, input="3.00", output="15.00", upstream_model="large-2026")


def start(log: Path, settings: dict[str, str], configuration: str = "deploy/gunicorn.conf.py") -> Gateway:
    """Start gunicorn. Return when every worker has loaded the gateway."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = {**os.environ, **SETTINGS, "DATABASE_URL": database_url(), "PORT": str(port), **settings}
    environ["PROMETHEUS_MULTIPROC_DIR"] = str(log.with_name("metrics"))
    command = [sys.executable, "-m", "gunicorn", "gateway_project.wsgi", "-c", configuration]
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=file, stderr=file)
    gateway = Gateway(port, process, log)
    deadline = time.monotonic() + 2 * waiting.SECONDS_MAX
    while len(gateway.loaded()) < int(environ["WEB_CONCURRENCY"]) or not _is_ready(gateway.url):
        if process.poll() is not None or time.monotonic() > deadline:
            gateway.stop()
            pytest.fail(f"gunicorn does not start:\n{gateway.log()}")
        time.sleep(0.05)
    return gateway


def database_url() -> str:
    database = connection.settings_dict
    parts = {name: database[name.upper()] for name in ("host", "port", "user", "password") if database[name.upper()]}
    return f"postgresql:///{database['NAME']}?{urlencode(parts)}"


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=waiting.SECONDS_MAX) as reply:
            return reply.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
