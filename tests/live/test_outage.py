"""The database fails in the middle of replies and returns: replies do not wait for it, and every charge is settled."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import connection, transaction

from billing.models import Account, Hold, LedgerEntry
from completions.models import Completion, IdempotentRequest
from gateway_project.monitoring import processes
from keys.models import SpendingDay
from tests import factories, waiting
from tests.completions.rows import assert_charged
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.live.database_proxy import running_proxy
from tests.live.gateway import eventually, read_all, read_until, wait_until_settled
from tests.upstream import DONE, FINISH, HANG, ROLE, refusal, stream, usage, whole, words

pytestmark = pytest.mark.system

COST_NANOS = 9 * 3_000 + 2 * 15_000  # of the usage that the scripted upstream reports


@pytest.fixture(scope="module")
def proxy():
    with running_proxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def outbox(tmp_path_factory):
    """The outbox of all gateways of this module."""
    return tmp_path_factory.mktemp("outbox")


@pytest.fixture(scope="module")
def behind_proxy(gateways, django_db_blocker, proxy, outbox):
    """The settings of a gateway behind the proxy. It has time enough to end."""
    with django_db_blocker.unblock():
        settings = {"DATABASE_URL": proxy.database_url, "GATEWAY_OUTBOX_DIR": str(outbox)}
    settings["GATEWAY_GRACEFUL_TIMEOUT_SECONDS"] = "300"
    yield settings
    gateways.end(**settings)


@pytest.fixture
def gateway(transactional_db, gateways, behind_proxy, outbox, upstream):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url)
    factories.make_model("acme/large", provider=provider, input="3.00", output="15.00")
    served = gateways(**behind_proxy)
    mark = len(served.log())
    yield served
    assert "Traceback" not in served.log()[mark:]
    for path in outbox.iterdir():
        path.unlink()


@pytest.fixture
def secret(alice):
    return factories.make_key(alice)[1]


def held_up(gate):
    return stream(ROLE, words("Hello "), gate, words("you"), FINISH, usage(), DONE)


@contextmanager
def three_replies(gateway, secret, upstream):
    """Begin a stream, a whole reply and one that fails. What is yielded lets them end, and returns the last two."""
    gate = threading.Event()
    upstream.will(held_up(gate), [gate, *whole()], [gate, *refusal(500)])
    with gateway.open_stream(secret, model="acme/large", max_tokens=10) as client, ThreadPoolExecutor(2) as pool:
        read_until(client, b"Hello ")
        answers = []
        for requests in (2, 3):
            answers.append(pool.submit(gateway.ask, secret, model="acme/large", max_tokens=10))
            eventually(lambda: len(upstream.requests) == requests)  # noqa: B023  ends within the iteration

        def end():
            gate.set()
            assert read_all(client).count(b"data: [DONE]\n\n") == 1
            return [answer.result() for answer in answers]

        yield end


def stored(outbox):
    return sorted(path.name for path in outbox.iterdir() if path.suffix)


@fault(
    "Database",
    "All connections to the database are cut while replies run",
    "The replies are sent whole; their settlements wait on disk and are charged once",
)
def test_replies_that_end_in_an_outage_are_sent_and_settled_afterwards(gateway, proxy, alice, secret, upstream, outbox):
    with three_replies(gateway, secret, upstream) as end:
        proxy.cut()
        answered, failed = end()
    assert (answered.status, answered.json()["usage"]["total_tokens"]) == (200, 11)
    assert (failed.status, failed.json()["error"]["code"]) == (502, "upstream_error")
    assert gateway.request("GET", "/readyz").status == 503
    assert stored(outbox) == sorted(f"{completion.pk}.json" for completion in Completion.objects.all())
    shown = gateway.request("GET", "/metrics").body.decode()
    assert f'gateway_outbox_waiting{{host="{processes.host()}"}} 3.0' in shown
    assert "gateway_database_up 0.0" in shown
    assert "gateway_ledger_violations" not in shown  # what it cannot read now, it does not show
    assert Hold.objects.filter(state="HELD").count() == 3
    proxy.restore()
    eventually(lambda: stored(outbox) == [])
    wait_until_settled(alice)
    alice.refresh_from_db()
    assert alice.balance_nanos == 10_000_000_000 - 2 * COST_NANOS
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 2
    assert sorted(Completion.objects.values_list("settlement", flat=True)) == ["released", "reported", "reported"]
    eventually(lambda: b"gateway_ledger_violations 0.0" in gateway.request("GET", "/metrics").body)
    assert f'gateway_outbox_waiting{{host="{processes.host()}"}} 0.0' in gateway.request("GET", "/metrics").body.decode()


def forget_admissions():
    """Leave the database as a crash does that loses the admissions: their transactions did not wait for the disk."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # no trigger, as in a crash
        for rows in (IdempotentRequest, Completion, Hold, SpendingDay):
            rows.objects.all().delete()
        Account.objects.update(held_nanos=0, open_holds=0)


@fault(
    "Database",
    "A database crash forgets admissions of running replies",
    "The callers get their replies. Each is admitted again, and charged",
)
def test_replies_whose_admission_a_crash_forgot_are_sent_and_charged(gateway, alice, secret, upstream, outbox):
    with three_replies(gateway, secret, upstream) as end:
        forget_admissions()
        answered, failed = end()
    assert (answered.status, answered.json()["usage"]["total_tokens"]) == (200, 11)
    assert "x-gateway-cost" not in answered.headers
    assert (failed.status, failed.json()["error"]["code"]) == (502, "upstream_error")
    eventually(lambda: LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 2 and stored(outbox) == [])
    assert answered.json()["id"] in LedgerEntry.objects.filter(type="USAGE_DEBIT").values_list("reference", flat=True)
    assert set(Completion.objects.values_list("settlement", "cost_nanos")) == {("reported", COST_NANOS)}
    assert b"gateway_operator_loss_nanos_total 0.0" in gateway.request("GET", "/metrics").body
    assert gateway.log().count("is stored in the outbox, to be admitted again") == 2
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (10_000_000_000 - 2 * COST_NANOS, 0)
    assert_ledger_is_consistent()


# --- Ends: the next test begins with another gateway ---------------------------------------------------------------------


@fault(
    "Database",
    "The gateway is killed while the database is unavailable",
    "The next one charges the settlements on disk, once",
)
def test_settlements_left_on_disk_by_a_killed_server_are_settled_by_the_next(
    gateways, behind_proxy, gateway, proxy, alice, secret, upstream, outbox
):
    gate = threading.Event()
    upstream.will(held_up(gate))
    with gateway.open_stream(secret, model="acme/large", max_tokens=10) as client:
        read_until(client, b"Hello ")
        proxy.cut()
        gate.set()
        assert b"[DONE]" in read_all(client)
    gateway.kill()
    [name] = stored(outbox)
    assert json.loads((outbox / name).read_text())["cost_nanos"] == COST_NANOS
    proxy.restore()
    gateways(**behind_proxy)
    eventually(lambda: stored(outbox) == [])
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=COST_NANOS)
    assert_ledger_is_consistent()


@fault(
    "Deployment",
    "A host is shut down during an outage of the database",
    "Streams end with an error event, and their settlements wait on disk",
)
def test_a_shutdown_during_an_outage_stores_the_settlement(gateway, proxy, alice, secret, upstream, outbox):
    upstream.will(stream(ROLE, words("Hello you"), HANG))
    with gateway.open_stream(secret, model="acme/large", max_tokens=10) as client:
        read_until(client, b"Hello you")
        proxy.cut()
        gateway.terminate()
        assert b"The gateway is being restarted." in read_all(client)
    assert gateway._process.wait(waiting.PROCESS_SECONDS_MAX) == 0
    proxy.restore()
    [name] = stored(outbox)
    assert json.loads((outbox / name).read_text())["settlement"] == "partial"
    assert Completion.objects.get(pk=name.removesuffix(".json")).settlement is None
