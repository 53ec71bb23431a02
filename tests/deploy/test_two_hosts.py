"""Two hosts behind the nginx that ships, under load: releases as docs/operating/installing.md describes them."""

import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psutil
import pytest

from tests import waiting
from tests.deploy.proxy import NGINX, Proxy
from tests.faults import fault
from tests.live.fleet import Fleet, template
from tests.live.gateway import QUESTION, Gateway
from tests.live.load import ECHO

pytestmark = [pytest.mark.skipif(NGINX is None, reason="nginx is not installed"), pytest.mark.long]

CLIENTS = 6
SETTINGS = {"GATEWAY_BEHIND_PROXY": "1", "GATEWAY_GRACEFUL_TIMEOUT_SECONDS": "30"}


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with template() as prepared, prepared.fleet() as fleet:
        yield fleet


class Clients:
    """Clients that send whole and streamed completions, one after the other, and note every reply that is not right."""

    def __init__(self, proxy: Proxy, secret: str) -> None:
        self.proxy, self.secret = proxy, secret
        self.served, self.failures = 0, []
        self._over = threading.Event()

    @contextmanager
    def running(self) -> Iterator["Clients"]:
        threads = [threading.Thread(target=self._run, args=[client]) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def wait_for(self, served: int) -> None:
        """Wait until so many more requests are served."""
        wanted = self.served + served
        waiting.until(lambda: self.served >= wanted or self.failures, waiting.PROCESS_SECONDS_MAX)

    def _run(self, client: int) -> None:
        trust, number = self.proxy.trust, client
        while not self._over.is_set():
            number += 1
            fields = {"model": ECHO, "messages": QUESTION, "max_tokens": 50, "stream": number % 2 == 0}
            fields["echo"] = {"delay_seconds": 0.02}
            try:
                connection = http.client.HTTPSConnection(
                    "127.0.0.1", self.proxy.port, context=trust, timeout=waiting.PROCESS_SECONDS_MAX
                )
                with closing(connection):
                    headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
                    connection.request("POST", "/v1/chat/completions", json.dumps(fields), headers)
                    reply = connection.getresponse()
                    body = reply.read()
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
            else:
                is_whole = body.endswith(b"data: [DONE]\n\n") if fields["stream"] else b'"choices"' in body
                if reply.status == 200 and is_whole:
                    self.served += 1
                else:
                    self.failures.append(f"{reply.status} {body[:300]!r}")


def wait_for_new_workers(fleet: Fleet, host: Gateway, old: set[int]) -> None:
    waiting.until(lambda: not old & {each.pid for each in fleet.workers(host)}, waiting.PROCESS_SECONDS_MAX)
    assert not old & {each.pid for each in fleet.workers(host)}


@fault(
    "Deployment",
    "Two hosts behind nginx get new code one after the other, and then each is taken out, restarted and put back, under load",
    "No request fails, and each reply is charged once",
)
def test_a_rolling_release_behind_nginx_fails_no_request(fleet, tmp_path, record_property):
    hosts = [fleet.begin(**SETTINGS) for _ in range(2)]
    proxy = Proxy(tmp_path)
    proxy.use([host.port for host in hosts])
    with proxy.running(), Clients(proxy, fleet.secret).running() as clients:
        clients.wait_for(30)
        for host in hosts:  # new code
            old = {child.pid for child in fleet.workers(host)}
            os.kill(host._process.pid, signal.SIGHUP)
            wait_for_new_workers(fleet, host, old)
            clients.wait_for(30)
        for place in range(2):  # new settings
            proxy.use([host.port for host in hosts], down=[hosts[place].port])
            hosts[place].stop()
            assert hosts[place]._process.returncode == 0
            clients.wait_for(10)
            hosts[place] = fleet.begin(**SETTINGS)
            proxy.use([host.port for host in hosts])
            clients.wait_for(30)
    assert clients.failures == []
    fleet.settle()
    [(charged,)] = fleet.server.rows("SELECT count(*) FROM billing_ledgerentry WHERE type = 'USAGE_DEBIT'")
    assert charged == clients.served
    assert fleet.manage("verify_ledger")["ok"]
    record_property("measured", f"{clients.served} requests")


@fault(
    "Deployment",
    "One of two hosts behind nginx is killed under load",
    "Only requests that ran there fail. The other host gets all others, and none is charged twice",
)
def test_a_killed_host_behind_nginx_fails_only_what_ran_there(fleet, tmp_path, record_property):
    hosts = [fleet.begin(**SETTINGS) for _ in range(2)]
    proxy = Proxy(tmp_path)
    proxy.use([host.port for host in hosts])
    with proxy.running(), Clients(proxy, fleet.secret).running() as clients:
        clients.wait_for(30)
        for process in [psutil.Process(hosts[0]._process.pid), *fleet.workers(hosts[0])]:
            process.suspend()
        hosts[0].kill()
        served = clients.served
        waiting.until(lambda: clients.served >= served + 60, waiting.PROCESS_SECONDS_MAX)
    assert clients.served >= served + 60
    assert len(clients.failures) <= CLIENTS
    fleet.recover()
    [(charged, distinct)] = fleet.server.rows(
        "SELECT count(*), count(DISTINCT reference) FROM billing_ledgerentry WHERE type = 'USAGE_DEBIT'"
    )
    assert clients.served <= charged <= clients.served + len(clients.failures)
    assert distinct == charged
    assert fleet.manage("verify_ledger")["ok"]
    record_property("measured", f"{clients.served} requests, {len(clients.failures)} cut off")
