"""A circuit that one process opens is its own. To the processes of other hosts it is a hint."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from completions.models import Completion, Route
from tests import factories
from tests.faults import fault
from tests.live.gateway import eventually, wait_until_settled
from tests.upstream import KEY_ENV, refusal

pytestmark = pytest.mark.system

FAULTY_KEY = "sk-of-the-faulty-host"


@pytest.fixture
def faulty(transactional_db, gateways):
    """A gateway on the same database, on a host for which every request to the upstream fails."""
    served = gateways(**{KEY_ENV: FAULTY_KEY}, GATEWAY_CIRCUIT_OPEN_SECONDS="60", GATEWAY_CIRCUIT_ACCOUNTS="2")
    mark = len(served.log())
    yield served
    assert "Traceback" not in served.log()[mark:]


@fault(
    "Network",
    "A provider fails for one host and not for another",
    "The other host continues without one refused request",
)
def test_a_host_for_which_a_provider_fails_takes_it_from_no_other_host(gateway, faulty, upstream, large, alice, charlie):
    upstream.will_for(f"Bearer {FAULTY_KEY}", refusal(500))
    secrets = [factories.make_key(account)[1] for account in (alice, charlie)]

    def ask_many(host, times):
        with ThreadPoolExecutor(4) as threads:
            answers = threads.map(lambda number: host.ask(secrets[number % 2], model="acme/large"), range(times))
            return [answer.status for answer in answers]

    assert ask_many(gateway, 2) == [200] * 2
    mark = len(gateway.log())
    assert set(ask_many(faulty, 16)) <= {502, 503}
    eventually(lambda: Route.objects.get().rests_until is not None)
    assert faulty.ask(secrets[0], model="acme/large").status == 503
    assert ask_many(gateway, 24) == [200] * 24
    assert "circuit" not in gateway.log()[mark:]
    assert "circuit open: large-2026 at scripted for 60 s, in this process; a hint to other processes" in faulty.log()
    for account in (alice, charlie):
        wait_until_settled(account)
    assert Completion.objects.exclude(settlement="released").count() == 26
