"""Two hosts behind the nginx that ships, under load: releases and rotations as the pages of docs/operating describe them."""

import os
import signal
import ssl
import time
from http.cookies import SimpleCookie

import psutil
import pytest
from cryptography.fernet import Fernet

from bench import run
from tests import waiting
from tests.deploy.proxy import NGINX, Proxy
from tests.faults import fault
from tests.live import history_programs
from tests.live.fleet import BEHIND_PROXY, Fleet, environment, wait_seconds
from tests.live.gateway import QUESTION, Gateway
from tests.live.history import Call
from tests.live.history_programs import Ask
from tests.live.load import CLIENTS, ECHO, Load

pytestmark = [pytest.mark.skipif(NGINX is None, reason="nginx is not installed"), pytest.mark.long]


@pytest.fixture
def proxy(tmp_path) -> Proxy:
    return Proxy(tmp_path)


def wait_for_new_workers(fleet: Fleet, host: Gateway, old: set[int]) -> None:
    waiting.until(lambda: not old & {each.pid for each in fleet.workers(host)}, waiting.PROCESS_SECONDS_MAX)
    assert not old & {each.pid for each in fleet.workers(host)}


def replace(fleet: Fleet, proxy: Proxy, hosts: list[Gateway], place: int, **settings: str) -> None:
    """Take a host out, let it end what runs there, and put one with other settings in its place."""
    proxy.use([host.port for host in hosts], down=[hosts[place].port])
    hosts[place].stop()
    assert hosts[place]._process.returncode == 0
    hosts[place] = fleet.begin(**BEHIND_PROXY, **settings)
    proxy.use([host.port for host in hosts])


def failures(load: Load) -> list[Call]:
    """Return the requests that were not served to their end. A client may leave before there is a status."""
    return [call for call in load.calls if call.status not in (200, None)] + load.cut_off


@fault(
    "Deployment",
    "Two hosts behind nginx get new code in turn, then each is taken out, restarted and put back, under load",
    "No request fails; each reply is charged once",
)
def test_a_rolling_release_behind_nginx_fails_no_request(fleet, proxy, measured):
    hosts = [fleet.begin(**BEHIND_PROXY) for _ in range(2)]
    proxy.use([host.port for host in hosts])
    with proxy.running(), fleet.load([proxy], trust=proxy.trust) as load:
        wait_seconds(load, 2)
        for host in hosts:  # new code
            old = {child.pid for child in fleet.workers(host)}
            os.kill(host._process.pid, signal.SIGHUP)
            wait_for_new_workers(fleet, host, old)
            wait_seconds(load, 2)
        for place in range(2):  # new settings
            replace(fleet, proxy, hosts, place)
            wait_seconds(load, 2)
    assert failures(load) == []
    fleet.settle()
    measured(fleet.assert_consistent(load.calls))


@fault(
    "Deployment",
    "One of two hosts behind nginx is killed under load",
    "Only its running requests fail. The other host gets all others; none is charged twice",
)
def test_a_killed_host_behind_nginx_fails_only_what_ran_there(fleet, proxy, measured):
    hosts = [fleet.begin(**BEHIND_PROXY) for _ in range(2)]
    proxy.use([host.port for host in hosts])
    with proxy.running(), fleet.load([proxy], trust=proxy.trust, pace_seconds=0.5) as load:
        wait_seconds(load, 10)
        for process in [psutil.Process(hosts[0]._process.pid), *fleet.workers(hosts[0])]:
            process.suspend()
        hosts[0].kill()
        killed_at = time.monotonic()
        wait_seconds(load, 10)
        others = load.kept(killed_at, time.monotonic())
    assert len(failures(load)) <= CLIENTS
    fleet.recover()
    books = fleet.assert_consistent(load.calls, deaths=True)
    measured(books, f"{len(failures(load))} cut off", others=others, back_seconds=load.seconds_until_served(killed_at))


# --- Rotation -----------------------------------------------------------------------------------------------------

OLD = {name: os.environ[name] for name in ("GATEWAY_SECRET_KEY", "GATEWAY_KEY_PEPPERS", "GATEWAY_ENCRYPTION_KEYS")}
NEW = dict(zip(OLD, ["a new secret " * 5, "a new pepper " * 5, Fernet.generate_key().decode()], strict=True))
SIGN_IN = """
import time
from allauth.usersessions.models import UserSession
from django.contrib.sessions.backends.db import SessionStore
from billing.models import User
user, now, store = User.objects.get(email="bench@example.org"), int(time.time()), SessionStore()
store.update(dict(_auth_user_id=str(user.pk), _auth_user_backend="billing.sign_in.backend.LimitedBackend",
    _auth_user_hash=user.get_session_auth_hash(), signed_in_at=now, used_at=now, password_given_at=now))
store.create()
UserSession.objects.create(user=user, ip="127.0.0.1", session_key=store.session_key, user_agent="test")
print(store.session_key)
"""
ROTATE_KEY = """
from datetime import timedelta
from keys import rotation
from keys.models import ApiKey
print(rotation.rotate_secret(ApiKey.objects.earliest("created_at"), grace=timedelta(hours=1)))
"""


def both(first: dict[str, str], second: dict[str, str]) -> dict[str, str]:
    """Return the settings of a host that uses the first secrets, and knows the second."""
    settings = {name: f"{first[name]},{second[name]}" for name in ("GATEWAY_KEY_PEPPERS", "GATEWAY_ENCRYPTION_KEYS")}
    return settings | {
        "GATEWAY_SECRET_KEY": first["GATEWAY_SECRET_KEY"],
        "GATEWAY_SECRET_KEY_FALLBACKS": second["GATEWAY_SECRET_KEY"],
    }


class Customer:
    """Somebody who is signed in, and whose programs have keys and repeat requests: every host must know all of it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._cookies = SimpleCookie({"sessionid": self._run(SIGN_IN)})
        self._secrets, self._replies = [fleet.secret], {}
        self.calls: list[Call] = []

    def _run(self, code: str) -> str:
        environ = environment(self._fleet.server, self._fleet.directory(0))
        return run.manage(environ, "shell", "--verbosity=0", "-c", code).strip().splitlines()[-1]

    def rotate_key(self) -> None:
        self._secrets.append(self._run(ROTATE_KEY))

    def use(self, host: Gateway, settings: dict[str, str]) -> None:
        """Get a reply and a key from a host that has these settings."""
        retry_key = f"reply {len(self._replies)}"
        self._replies[retry_key] = self._ask(host, retry_key)
        self._secrets.append(self._fleet.manage("create_key", "bench@example.org", **settings)["secret"])

    def assert_known(self, hosts: list[Gateway]) -> None:
        for host in hosts:
            assert {retry_key: self._ask(host, retry_key) for retry_key in self._replies} == self._replies
            keys = [host.request("GET", "/v1/models", secret=secret).status for secret in self._secrets]
            assert keys == [200] * len(self._secrets)
            page = host.request("GET", "/dashboard/", Cookie=self._cookies.output(attrs=[], header="", sep=";").strip())
            assert page.status == 200, page.headers
            self._cookies.load(page.headers.get("set-cookie", ""))

    def _ask(self, host: Gateway, retry_key: str) -> str | None:
        fields = {"model": ECHO, "messages": QUESTION, "max_tokens": 10}
        call = history_programs.call(host.port, self._secrets[-1], Ask("first", fields, retry_key), "customer")
        self.calls.append(call)
        assert call.status == 200, call
        return call.completion_id


@fault(
    "Deployment",
    "All secrets of two hosts behind nginx, its certificate and a caller's key are rotated under load",
    "No request fails. At each step every host knows the keys, stored replies and sessions of all hosts",
)
def test_a_rotation_of_all_secrets_behind_nginx_fails_no_request(fleet, proxy, measured):
    hosts = [fleet.begin(**BEHIND_PROXY) for _ in range(2)]
    proxy.use([host.port for host in hosts])
    customer, trust = Customer(fleet), proxy.trust
    customer.use(hosts[0], OLD)
    without_old = {"GATEWAY_ENCRYPTION_KEYS": NEW["GATEWAY_ENCRYPTION_KEYS"], "GATEWAY_SECRET_KEY_FALLBACKS": ""}
    with proxy.running(), fleet.load([proxy], trust=trust) as load:
        wait_seconds(load, 2)
        customer.rotate_key()
        for settings in (both(OLD, NEW), both(NEW, OLD), both(NEW, OLD) | without_old):
            if settings == both(NEW, OLD) | without_old:
                assert fleet.manage("reencrypt_secrets", **both(NEW, OLD))["unreadable"] == 0
            for place in range(2):
                replace(fleet, proxy, hosts, place, **settings)
                customer.use(hosts[place], settings)
                customer.assert_known(hosts)
        certificate = proxy.renew_certificate(trust)
        assert ssl.get_server_certificate(("127.0.0.1", proxy.port)) == certificate
        wait_seconds(load, 2)
    assert failures(load) == []
    fleet.settle()
    measured(fleet.assert_consistent([*load.calls, *customer.calls]), "6 restarts")
