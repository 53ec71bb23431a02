"""A circuit that one worker opens is open in all workers."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from completions.models import Route
from tests import factories
from tests.live.gateway import eventually, wait_until_settled
from tests.upstream import refusal


@pytest.fixture
def gateway(transactional_db, gateways):
    served = gateways(WEB_CONCURRENCY="4", GATEWAY_CIRCUIT_OPEN_SECONDS="60")
    mark = len(served.log())
    yield served
    assert "Traceback" not in served.log()[mark:]


def test_a_circuit_opened_by_one_worker_is_open_in_all(gateway, upstream, large, alice, charlie):
    upstream.will(refusal(500))
    secrets = [factories.make_key(account)[1] for account in (alice, charlie)]

    def ask_many(times):
        with ThreadPoolExecutor(16) as threads:
            answers = threads.map(lambda number: gateway.ask(secrets[number % 2], model="acme/large"), range(times))
            return [answer.status for answer in answers]

    assert set(ask_many(48)) <= {502, 503}
    eventually(lambda: Route.objects.get().rests_until is not None)
    ask_many(16)  # by now every worker has read the catalog
    asked = len(upstream.requests)
    assert ask_many(48) == [503] * 48
    assert len(upstream.requests) == asked
    assert len(gateway.involved()) > 1
    for account in (alice, charlie):
        wait_until_settled(account)
        assert not account.entries.filter(type="USAGE_DEBIT").exists()
