"""An account that never paid has few requests waiting for a route, and all go on once it has paid."""

import threading

import gevent
import pytest

from completions.relay import new_accounts
from tests import factories
from tests.completions.routes import change_provider, wait_until
from tests.completions.rows import ask
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import HANG, whole

pytestmark = pytest.mark.usefixtures("large")


@pytest.fixture(autouse=True)
def _two(settings):
    settings.NEW_ACCOUNT_ROUTE_REQUESTS = 2
    settings.UPSTREAM_ATTEMPTS_MAX = 1


@pytest.fixture
def newcomer(db):
    return factories.make_account("New", cents=1000, is_new=True)


def waiting():
    return sum(len(queue.waiting) for queue in new_accounts._queues.values())


def test_requests_of_a_new_account_wait_until_it_has_paid_and_then_all_go_on(newcomer, api, upstream):
    client = client_for(factories.make_key(newcomer)[1])
    first, others = threading.Event(), threading.Event()
    upstream.will([first, *whole()], [others, *whole()])
    running = [gevent.spawn(ask, client) for _ in range(5)]
    wait_until(lambda: waiting() == 3 and len(upstream.requests) == 2)
    neighbour = gevent.spawn(ask, api)
    wait_until(lambda: len(upstream.requests) == 3)  # another account's do not wait
    first.set()
    wait_until(lambda: len(upstream.requests) == 6)  # more than two at a time: it has paid
    others.set()
    assert [answer.get().status_code for answer in (*running, neighbour)] == [200] * 6
    assert new_accounts._queues == {}
    newcomer.refresh_from_db()
    assert newcomer.has_paid
    assert_ledger_is_consistent()


def test_a_request_whose_turn_does_not_come_is_refused_and_costs_nothing(newcomer, large, upstream):
    change_provider(large, first_byte_seconds=1, total_seconds=3)
    client = client_for(factories.make_key(newcomer)[1])
    upstream.will([HANG])
    running = [gevent.spawn(ask, client) for _ in range(2)]
    wait_until(lambda: len(upstream.requests) == 2)
    answer = ask(client)
    assert (answer.status_code, answer.json()["error"]["code"], answer["Retry-After"]) == (429, "rate_limit_exceeded", "1")
    assert "The account has 2 requests waiting for this model's provider" in answer.json()["error"]["message"]
    assert [answer.get().status_code for answer in running] == [504, 504]
    assert len(upstream.requests) == 2
    assert new_accounts._queues == {}
    assert list(newcomer.completions.order_by("created_at").values_list("settlement", flat=True))[2] == "released"
    assert_ledger_is_consistent()
