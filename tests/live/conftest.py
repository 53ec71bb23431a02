"""Real gunicorns on the test database. One serves all tests of the folder that need the same settings."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection

from gateway_project.monitoring.models import Process
from tests import waiting
from tests.browser import chromium
from tests.document_server import reply, serving
from tests.live.gateway import Gateway
from tests.upstream import KEY, KEY_ENV, Upstream, upstream

__all__ = ["chromium", "upstream"]

ROOT = Path(__file__).resolve().parent.parent.parent
OTHERS_MIN, BACK_SECONDS_MAX, READY_SECONDS_MAX = 0.9, 10, 2  # the goals of every fault under load
REQUEST_BYTES_MAX = 1_000_000
SETTINGS = {
    "WEB_CONCURRENCY": "1",
    "GATEWAY_DATABASE_POOL_SIZE": "4",
    "GATEWAY_REQUEST_BYTES_MAX": str(REQUEST_BYTES_MAX),
    "GATEWAY_BYTES_IN_FLIGHT_MAX": str(3 * REQUEST_BYTES_MAX),
    "GATEWAY_ACCOUNT_BYTES_IN_FLIGHT_MAX": str(3 * REQUEST_BYTES_MAX),
    "GATEWAY_REQUEST_BODY_TIMEOUT": "600",  # a slow machine is no slow client
    "GATEWAY_STREAM_HEARTBEAT_SECONDS": "1",
    "GATEWAY_GRACEFUL_TIMEOUT_SECONDS": "2",
    "GATEWAY_KEY_READS_PER_MINUTE": "1000000",  # readers of the ledger poll without a pause
    "REDIS_URL": "",
    KEY_ENV: KEY,
}
IMPATIENT = {"GATEWAY_REQUEST_BODY_TIMEOUT": "1", "GATEWAY_UPSTREAM_TOTAL_SECONDS": "3", "GATEWAY_KEEPALIVE_SECONDS": "3600"}
HURRIED, AS_DEPLOYED = "tests/live/hurried.conf.py", "deploy/gunicorn.conf.py"


class Gateways:
    """Running gateways, by how their settings differ from SETTINGS."""

    def __init__(self, directories: pytest.TempPathFactory, everywhere: dict[str, str]) -> None:
        self._directories, self._everywhere = directories, everywhere
        self._running: dict[tuple[tuple[str, str], ...], Gateway] = {}

    def __call__(self, **settings: str) -> Gateway:
        """Return the gateway that has these settings. Start one if there is none, or if a test has ended it."""
        name = tuple(sorted((each, value) for each, value in settings.items() if SETTINGS.get(each) != value))
        if name not in self._running or not self._running[name].runs():
            self._running[name] = start(self._directories.mktemp("gateway") / "log", {**self._everywhere, **settings})
        return self._running[name]

    def start_anew(self, **settings: str) -> Gateway:
        """Start a gateway that no test has used, in place of the one that has these settings."""
        self.end(**settings)
        return self(**settings)

    def end(self, **settings: str) -> None:
        """Stop the gateway that has these settings, if it runs."""
        for name, gateway in self._running.items():
            if dict(name) == settings:
                gateway.stop()

    def stop(self, *, kept: Collection[dict[str, str]] = ()) -> None:
        """Stop all gateways but those with these settings."""
        ending = {name: gateway for name, gateway in self._running.items() if dict(name) not in kept}
        for gateway in ending.values():
            gateway.terminate()
        for name, gateway in ending.items():
            gateway.stop()
            del self._running[name]


@pytest.fixture(scope="package")
def origins() -> Iterator[list[str]]:
    """The origins of two sites. Pages of the first may call the gateways."""
    with serving() as one, serving() as other:
        for server in (one, other):
            server.will(reply("<!doctype html><title>An application</title>", Content_Type="text/html"))
        yield [one.origin, other.origin]


@pytest.fixture(scope="package")
def gateways(
    django_db_setup: None, django_db_blocker: Any, origins: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateways]:
    """A function that returns a gateway with the given settings.

    They end with the tests of this folder: their reports in the database would be those of other hosts to tests elsewhere.
    """
    gateways = Gateways(tmp_path_factory, {"GATEWAY_CORS_ORIGINS": origins[0]})
    yield gateways
    gateways.stop()
    with django_db_blocker.unblock():
        Process.objects.all().delete()


@pytest.fixture(autouse=True, scope="module")
def _ended_gateways(gateways: Gateways) -> Iterator[None]:
    """Stop the gateways with settings that no other file uses: an idle one takes a thirtieth of a core."""
    yield
    gateways.stop(kept=({}, IMPATIENT))


@pytest.fixture
def gateway(transactional_db: None, gateways: Gateways) -> Iterator[Gateway]:
    served = gateways()
    mark = len(served.log())
    yield served
    assert "Traceback" not in served.log()[mark:]


@pytest.fixture
def impatient(transactional_db: None, gateways: Gateways) -> Iterator[Gateway]:
    """A gateway that soon gives up, except on idle connections: only for tests whose clients are late on purpose."""
    served = gateways(**IMPATIENT)
    mark = len(served.log())
    yield served
    assert "Traceback" not in served.log()[mark:]


@pytest.fixture
def large(upstream: Upstream, gateway: Gateway) -> Any:
    """A model of the scripted upstream, at 3,000 nanodollars per prompt token and 15,000 per generated token."""
    from tests import factories

    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    return factories.make_model("acme/large", provider=provider, input="3.00", output="15.00", upstream_model="large-2026")


# --- Hosts that share a database of their own: ``fleet`` imports this module ---------------------------------------


@pytest.fixture(scope="session")
def prepared() -> Iterator[Any]:
    from tests.live.fleet import template

    with template() as prepared:
        yield prepared


@pytest.fixture
def fleet(prepared: Any) -> Iterator[Any]:
    with prepared.fleet() as fleet:
        yield fleet


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """A function that adds to the page what was counted and measured, and asserts that it reaches the goals."""
    from tests.live.load import SEED

    sys.stdout.write(f"FAULT_SEED={SEED}\n")  # pytest shows it when the test fails

    def record(
        books: Any,
        *remarks: str,
        others: float | None = None,
        back_seconds: float | None = None,
        probed_seconds: Sequence[float] | None = None,
    ) -> None:
        probed = [f"`/readyz` within {max(probed_seconds):.1f} s"] if probed_seconds else []
        record_property("figures", replace(books.figures(), others=others, back_seconds=back_seconds))
        record_property("measured", "; ".join([*filter(None, [books.refusals()]), *remarks, *probed]))
        assert probed_seconds is None or 0 < max(probed_seconds) < READY_SECONDS_MAX
        assert others is None or others > OTHERS_MIN
        assert back_seconds is None or back_seconds < BACK_SECONDS_MAX

    return record


# --- Starting one -------------------------------------------------------------------------------------------------


def start(log: Path, settings: dict[str, str], configuration: str = HURRIED) -> Gateway:
    """Start gunicorn. Return when every worker has loaded the gateway."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = {**os.environ, **SETTINGS, "DATABASE_URL": database_url(), "PORT": str(port), **settings}
    environ["PROMETHEUS_MULTIPROC_DIR"] = str(log.with_name("metrics"))
    command = [sys.executable, "-m", "gunicorn", "gateway_project.wsgi", "-c", configuration]
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=file, stderr=file)
    gateway = Gateway(port, process, log)
    deadline = time.monotonic() + waiting.PROCESS_SECONDS_MAX
    while len(gateway.loaded()) < int(environ["WEB_CONCURRENCY"]) or not _is_ready(gateway.url):
        if not gateway.runs() or time.monotonic() > deadline:
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
        with urllib.request.urlopen(f"{url}/readyz", timeout=waiting.PROCESS_SECONDS_MAX) as reply:
            return reply.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
