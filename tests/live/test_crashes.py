"""SIGKILL at every step of a request: the ledger stays consistent, no hold is left, and with its retry it is charged once."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db.models import F

from billing.models import Account, Hold
from completions import estimates, tasks
from completions.models import Completion
from tests import factories
from tests.completions.rows import assert_charged, assert_released
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.live import conftest, crashes
from tests.live.crashes import POINTS, ROUNDS, Armed, Charge, Fuse, Point
from tests.live.gateway import QUESTION, Answer, Gateway, answer, eventually, head, read_until, wait_until_settled
from tests.upstream import DONE, FINISH, ROLE, Upstream, stream, usage, whole, words

pytestmark = pytest.mark.system

TEXT = "Hello you"
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
FULL_NANOS = 9 * 3_000 + 4 * 15_000


@pytest.fixture(scope="module")
def fuse(tmp_path_factory: pytest.TempPathFactory) -> Fuse:
    return Fuse(tmp_path_factory.mktemp("crashes") / "fuse")


@pytest.fixture(scope="module")
def mortal(django_db_setup: None, fuse: Fuse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with three workers: while one restarts, the others serve."""
    settings = {"WEB_CONCURRENCY": "3", crashes.FILE_ENV: str(fuse.path)}
    gateway = conftest.start(tmp_path_factory.mktemp("mortal") / "log", settings, "tests/live/crashing.conf.py")
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(transactional_db: None, mortal: Gateway) -> Iterator[Gateway]:
    mark = len(mortal.log())
    yield mortal
    assert "Traceback" not in mortal.log()[mark:]


@fault(
    "Web process",
    "A worker is killed at any step between the first byte in and the last byte out",
    "The ledger is consistent at once. After the sweeper no hold is left, and the request and its retry have cost one",
)
@pytest.mark.parametrize("point", POINTS, ids=[point.name.replace(" ", "-") for point in POINTS])
def test_a_killed_worker_leaves_a_consistent_ledger_at_most_one_charge_and_no_hold(point, fuse, gateway, large, upstream):
    for turn in range(ROUNDS):
        account = factories.make_account(f"turn {turn}", cents=1_000)
        asking = Asking(gateway, factories.make_key(account)[1], point)
        received = die(asking, fuse, upstream, account)
        assert is_complete(received) == (point.name == "the end was sent")
        eventually(lambda: holds(account) == HOLDS[point.charge])  # noqa: B023  the database still executes what was sent to it
        assert_ledger_is_consistent()
        if "HELD" in holds(account):
            assert_refused(asking.again())  # its outcome is not known yet, so it may not run again
            recover()
        assert_paid(point, account)
        again = asking.again()
        assert (again.status, again.headers.get("idempotent-replayed")) == (200, REPLAYED[point.charge])
        wait_until_settled(account)
        assert_paid_once_in_all(account)
        assert_ledger_is_consistent()


HOLDS = {Charge.NO_HOLD: [], Charge.NOTHING: ["HELD"], Charge.NOTED: ["HELD"], Charge.FULL: ["SETTLED"]}
REPLAYED = {Charge.NO_HOLD: None, Charge.NOTHING: None, Charge.NOTED: None, Charge.FULL: "true"}


@dataclass(frozen=True)
class Asking:
    """A request and its retries: the same body, the same Idempotency-Key."""

    gateway: Gateway
    secret: str
    point: Point

    def open(self) -> socket.socket:
        fields = {"model": "acme/large", "messages": QUESTION, "max_tokens": 10, "stream": self.point.is_stream}
        body = json.dumps(fields).encode()
        client = self.gateway.dial()
        client.sendall(head(self.secret, f"Content-Length: {len(body)}", "Idempotency-Key: again") + body)
        return client

    def again(self) -> Answer:
        return answer(self.open())


def die(asking: Asking, fuse: Fuse, upstream: Upstream, account: Account) -> bytes:
    """Let a worker die at the point. Return what its client received."""
    point, gate = asking.point, threading.Event()
    upstream.will(stream(ROLE, words(TEXT), gate, FINISH, usage(USAGE), DONE) if point.is_stream else whole(TEXT, usage=USAGE))
    if point.armed is Armed.AT_ONCE:
        fuse.arm(point)
    with asking.open() as client:
        received = b""
        if point.armed is not Armed.AT_ONCE:
            received += read_until(client, TEXT.encode())
            if point.armed is Armed.NOTED:
                eventually(lambda: account.completions.get().relayed_bytes == len(TEXT))
            fuse.arm(point)
        if point.armed is Armed.NOTED:
            gate.set()
        with suppress(ConnectionResetError):
            while data := client.recv(65_536):
                received += data
    eventually(fuse.has_burnt)
    gate.set()
    return received


def is_complete(received: bytes) -> bool:
    return received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def holds(account: Account) -> list[str]:
    return list(account.holds.values_list("state", flat=True))


def recover() -> None:
    """Run the sweeper: it does nothing at first, as the worker may only be slow, and later resolves the hold, once."""
    assert tasks.release_expired_holds() == 0
    an_hour = timedelta(hours=1)
    Hold.objects.filter(state="HELD").update(expires_at=F("expires_at") - an_hour)
    Completion.objects.filter(settlement=None).update(checkpointed_at=F("checkpointed_at") - an_hour)
    assert [tasks.release_expired_holds() for _ in range(2)] == [1, 0]


def assert_paid(point: Point, account: Account) -> None:
    done = account.completions.first()
    if point.charge is Charge.NO_HOLD:
        assert (done, account.last_seq) == (None, 1)
    elif point.charge is Charge.FULL:
        assert_charged(account, "reported", prompt=9, completion=4, nanos=FULL_NANOS)
    elif point.charge is Charge.NOTHING or (point.armed is Armed.AT_ONCE and done.relayed_bytes is None):
        assert done.relayed_bytes is None
        assert_released(account, "expired")
    else:
        assert done.relayed_bytes == len(TEXT) or point.armed is Armed.AT_ONCE
        tokens = estimates.estimate_tokens(done.relayed_bytes)
        assert_charged(account, "recovered", prompt=4, completion=tokens, nanos=4 * 3_000 + tokens * 15_000)


def assert_refused(again: Answer) -> None:
    assert (again.status, 1 <= int(again.headers["retry-after"]) <= 60) == (409, True)


def assert_paid_once_in_all(account: Account) -> None:
    """Assert that both runs together cost what one costs."""
    account.refresh_from_db()
    assert account.balance_nanos == 10_000_000_000 - FULL_NANOS
    assert account.entries.filter(type="USAGE_DEBIT").count() == account.completions.exclude(settlement="expired").count()
