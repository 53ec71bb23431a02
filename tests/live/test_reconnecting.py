"""The database ends the gateway's connections and is there: callers do not notice. It is frozen, takes no writes or has no
connection left: callers and probes get a 503 without waiting for long, until the database is back.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection

from billing import locks
from billing.models import Account, Hold, LedgerEntry
from completions.models import Completion
from gateway_project.monitoring import processes
from tests import factories
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.live.conftest import start
from tests.live.database_proxy import DatabaseProxy, running_proxy
from tests.live.gateway import Answer, Gateway, eventually, read_all, read_until, wait_until_settled
from tests.upstream import DONE, FINISH, ROLE, stream, usage, words
from tests.waiting import meanwhile, somebody_waits, until

pytestmark = pytest.mark.system

NAME = "gateway_that_reconnects"  # of the gateway's connections, by which the tests find them


@pytest.fixture(scope="module")
def proxy() -> Iterator[DatabaseProxy]:
    with running_proxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def role(django_db_setup: None, django_db_blocker) -> Iterator[str]:
    """A role that the gateway connects as. It may do what the tests' own role may, but a limit of connections binds it."""
    with django_db_blocker.unblock():
        name, user, password = (connection.settings_dict[each] for each in ("NAME", "USER", "PASSWORD"))
        role = f"{name}_limited"
        execute(f"DROP ROLE IF EXISTS {role}")
        execute(f"CREATE ROLE {role} LOGIN IN ROLE {user}" + (f" PASSWORD '{password}'" if password else ""))
        yield role
        execute(f"DROP ROLE {role}")


@pytest.fixture(scope="module")
def outbox(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("outbox")


@pytest.fixture(scope="module")
def served(role: str, django_db_blocker, proxy, outbox, tmp_path_factory) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("reconnecting")
    settings = {
        "DATABASE_URL": proxy.url(user=role, application_name=NAME),
        "GATEWAY_OUTBOX_DIR": str(outbox),
        "GATEWAY_ACCOUNT_READS_IN_FLIGHT": "20",  # as many as a test sends at once
    }
    with django_db_blocker.unblock():
        gateway = start(directory / "log", settings)
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(transactional_db, served: Gateway, outbox: Path, echo_model) -> Iterator[Gateway]:
    mark = len(served.log())
    yield served
    eventually(lambda: not list(outbox.rglob("*.json")))  # before its rows are deleted: it would be unknown what they settle
    assert "Traceback" not in served.log()[mark:]


@pytest.fixture
def secret(alice: Account) -> str:
    return factories.make_key(alice)[1]


def execute(sql: str, *parameters: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)


@contextmanager
def one_connection(role: str) -> Iterator[None]:
    execute(f"ALTER ROLE {role} CONNECTION LIMIT 1")
    try:
        yield
    finally:
        execute(f"ALTER ROLE {role} CONNECTION LIMIT -1")


def end_connections() -> None:
    """End all connections of the gateway, as a restart of the database does. Return when they have ended."""
    mine = "FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
    execute(f"SELECT pg_terminate_backend(pid) {mine}", NAME)

    def have_ended() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) {mine} AND backend_start < statement_timestamp() - interval '1 second'", [NAME])
            return not cursor.fetchone()[0]

    until(have_ended)


def ask_everything(gateway: Gateway, secret: str) -> list[Callable[[], Answer]]:
    paths = ["/v1/models", "/v1/usage", "/api/billing/balance", "/readyz"]
    return [
        lambda: gateway.ask(secret, max_tokens=10),
        *(lambda path=path: gateway.request("GET", path, secret=secret) for path in paths),
    ]


def statuses(asks: list[Callable[[], Answer]], times: int = 1) -> list[int]:
    with ThreadPoolExecutor(8) as threads:
        return [answer.status for answer in threads.map(lambda ask: ask(), asks * times)]


@fault(
    "Database",
    "A restart or failover ends all connections",
    "No request fails afterwards",
)
def test_no_request_fails_after_the_database_ended_all_connections(gateway, alice, secret):
    asks = ask_everything(gateway, secret)
    assert set(statuses(asks, 4)) == {200}  # the pool has as many connections as it may have
    for _ in range(2):
        end_connections()
        assert statuses(asks, 4) == [200] * 20
    wait_until_settled(alice)
    assert Completion.objects.filter(settlement="reported").count() == 12
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 12
    assert_ledger_is_consistent()


@fault(
    "Database",
    "The connection ends while an admission waits for a lock",
    "It is admitted once, on another connection",
)
def test_an_admission_whose_connection_ends_while_it_waits_is_admitted_once(gateway, alice, secret):
    with ThreadPoolExecutor(1) as threads:
        with meanwhile(lambda: locks.lock_account(alice.pk)):
            asked = threads.submit(gateway.ask, secret, max_tokens=10)
            until(somebody_waits)
            end_connections()
        assert asked.result().status == 200
    wait_until_settled(alice)
    assert Completion.objects.count() == Hold.objects.count() == LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1


@contextmanager
def read_only() -> Iterator[None]:
    """Make the database refuse writes on connections that are opened from now on."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        yield
    finally:
        execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


@fault(
    "Database",
    "The database takes no writes, as a standby",
    "Completions get 503 and `/readyz` says so; reads continue",
)
def test_a_database_that_takes_no_writes_is_unavailable(gateway, alice, secret):
    assert gateway.ask(secret, max_tokens=10).status == 200
    mark = len(gateway.log())
    with read_only():
        end_connections()
        assert set(statuses([lambda: gateway.ask(secret, max_tokens=10)], 20)) == {503}
        assert_unavailable(gateway, secret, "the database takes no writes")
        assert_shows_what_alerts_are_about(gateway)
        assert gateway.request("GET", "/v1/usage", secret=secret).status == 200  # reads go on
        assert Completion.objects.count() == 1
    end_connections()
    eventually(lambda: gateway.request("GET", "/readyz").status == 200)
    assert gateway.ask(secret, max_tokens=10).status == 200
    wait_until_settled(alice)
    assert gateway.log()[mark:].count("what would be is refused until it can") == 1  # the others were refused at once


@fault(
    "Database",
    "A session locks the ledger",
    "A settlement waits five seconds, then on disk. From then on completions and `/readyz` get 503 at once, until a"
    " probe gets the lock; then all is charged",
)
def test_requests_are_refused_at_once_while_the_ledger_is_locked(gateway, alice, secret):
    mark = len(gateway.log())
    with meanwhile(lambda: execute("LOCK TABLE billing_ledgerentry IN SHARE MODE")):
        assert gateway.ask(secret, max_tokens=10).status == 200
        assert set(statuses([lambda: gateway.ask(secret, max_tokens=10)], 20)) == {503}
        assert_unavailable(gateway, secret, "another session keeps a table locked")
        assert_shows_what_alerts_are_about(gateway)
        eventually(lambda: f'gateway_outbox_waiting{{host="{processes.host()}"}} 1.0' in metrics(gateway))
        assert gateway.request("GET", "/v1/usage", secret=secret).status == 200  # reads go on
        assert Completion.objects.count() == 1
    eventually(lambda: gateway.request("GET", "/readyz").status == 200)
    assert gateway.ask(secret, max_tokens=10).status == 200
    wait_until_settled(alice)
    assert gateway.log()[mark:].count("what would be is refused until it can") == 1  # nobody else waited
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == Completion.objects.count() == 2
    assert_ledger_is_consistent()


def assert_shows_what_alerts_are_about(gateway: Gateway) -> None:
    """NotReady and CompletionsRefused; and OutboxWaits is silent unless the database could be read."""
    for method, route in (("GET", "readyz"), ("POST", "v1/chat/completions")):
        assert f'gateway_requests_total{{method="{method}",route="{route}",status="503"}}' in metrics(gateway)
    assert "gateway_database_up 1.0" in metrics(gateway)


def metrics(gateway: Gateway) -> str:
    return gateway.request("GET", "/metrics").body.decode()


def assert_unavailable(gateway: Gateway, secret: str, reason: str) -> None:
    refused, probed = gateway.ask(secret, max_tokens=10), gateway.request("GET", "/readyz")
    assert (refused.status, refused.json()["error"]["code"]) == (503, "service_unavailable")
    assert refused.headers["retry-after"]
    assert (probed.status, probed.json()["error"]["message"]) == (503, f"Not ready: {reason}.")


@fault(
    "Database",
    "The database has no connection left for admissions",
    "Completions get 503, and `/readyz` too",
)
def test_a_gateway_whose_batches_get_no_connection_is_not_ready(gateway, role, alice, secret):
    assert gateway.ask(secret, max_tokens=10).status == 200
    with one_connection(role):
        end_connections()
        # A probe of the database may have the connection for a moment. Then the pool has it, and keeps it.
        eventually(lambda: gateway.request("GET", "/v1/usage", secret=secret).status == 200)
        assert_unavailable(gateway, secret, "the database does not answer")
    assert gateway.ask(secret, max_tokens=10).status == gateway.request("GET", "/readyz").status == 200
    assert Completion.objects.count() == 2


@fault(
    "Database",
    "The database freezes: connections stay open without answers",
    "One probe finds out; then requests get 503 at once. Running streams are sent whole and charged afterwards",
)
def test_a_frozen_database_is_noticed_once_and_then_known(gateway, proxy, alice, secret, upstream):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url)
    factories.make_model("acme/large", provider=provider, input="3.00", output="15.00")
    gate = threading.Event()
    upstream.will(stream(ROLE, words("Hello "), gate, words("you"), FINISH, usage(), DONE))
    asks = ask_everything(gateway, secret)
    assert set(statuses(asks)) == {200}
    with gateway.open_stream(secret, model="acme/large", max_tokens=10) as client:
        read_until(client, b"Hello ")
        mark, opened = len(gateway.log()), circuit_openings(gateway)
        proxy.freeze()
        assert set(statuses(asks, 2)) == {503}  # these wait until a probe failed, too
        assert_unavailable(gateway, secret, "the database does not answer")
        gate.set()
        assert read_all(client).count(b"data: [DONE]") == 1
    assert gateway.log()[mark:].count("what needs it is refused until it does") == 1
    assert "is known for" in gateway.log()[mark:]  # refused without waiting
    assert "did not answer within" not in gateway.log()[mark:]  # nobody waited for the time limit
    proxy.restore()
    eventually(lambda: gateway.request("GET", "/readyz").status == 200)
    assert set(statuses(asks, 2)) == {200}
    wait_until_settled(alice)
    assert Completion.objects.filter(settlement="reported").count() == Completion.objects.count() == 4
    assert circuit_openings(gateway) == opened + 1


def connections() -> set[int]:
    """Return the server processes of the gateway's connections."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", [NAME])
        return {pid for (pid,) in cursor.fetchall()}


@fault(
    "Network",
    "The database takes more than a second for each answer, too long for a probe",
    "Requests are served, slowly: no circuit opens, no connection is cut",
)
def test_a_slow_database_that_answers_is_used_on_its_connections(gateway, proxy, alice, secret):
    asks = ask_everything(gateway, secret)
    assert set(statuses(asks)) == {200}
    wait_until_settled(alice)
    before, opened = connections(), circuit_openings(gateway)
    mark = len(gateway.log())
    proxy.delay_seconds = 1.3  # a new connection takes two answers, and its first row a third
    assert gateway.ask(secret, max_tokens=10).status == 200
    assert gateway.request("GET", "/v1/usage", secret=secret).status == 200
    proxy.restore()
    wait_until_settled(alice)
    assert before <= connections()
    assert circuit_openings(gateway) == opened
    assert "gateway.database" not in gateway.log()[mark:]
    assert Completion.objects.filter(settlement="reported").count() == 2


def circuit_openings(gateway: Gateway) -> float:
    [count] = [
        line.split()[1] for line in metrics(gateway).splitlines() if line.startswith("gateway_database_circuit_opened_total ")
    ]
    return float(count)
