"""The limit on a key's requests for models, usage, balance and ledger, which completions neither count nor obey."""

import pytest

from keys import lifecycle
from keys.limits import reads
from tests import chat, factories
from tests.conftest import client_for
from tests.monotonic_clock import use_clock

PATHS = [
    "/v1/models",
    "/v1/models/demo/echo",
    "/v1/usage",
    "/api/billing/balance",
    "/api/billing/ledger",
    "/api/billing/ledger.csv",
]

pytestmark = pytest.mark.usefixtures("echo_model")


@pytest.fixture(autouse=True)
def clock(monkeypatch, settings):
    settings.KEY_READS_PER_MINUTE = 6
    clock = use_clock(monkeypatch, reads)
    clock.stop()
    return clock


def test_all_reads_count_together_and_a_refused_one_makes_no_query(alice, api, django_assert_num_queries):
    assert [api.get(path).status_code for path in PATHS] == [200] * 6
    for path in PATHS:
        with django_assert_num_queries(0):
            refused = api.get(path)
        error = chat.assert_error(refused, 429, "rate_limit_exceeded")
        assert error["message"].startswith("The key is limited to 6 requests per minute for models, usage, balance and ledger")
        assert refused["retry-after"] == "10"
    assert chat.ask(api).status_code == 200
    assert client_for(factories.make_key(alice)[1]).get(PATHS[0]).status_code == 200


def test_the_allowance_returns_evenly(api, clock):
    assert [api.get("/v1/usage").status_code for _ in range(7)] == [200] * 6 + [429]
    clock.move_on(10)
    assert [api.get("/v1/usage").status_code for _ in range(2)] == [200, 429]
    clock.move_on(60)
    assert [api.get("/v1/usage").status_code for _ in range(7)] == [200] * 6 + [429]


def test_completions_do_not_count(api):
    assert [chat.ask(api).status_code for _ in range(7)] == [200] * 7
    assert api.get("/v1/usage").status_code == 200


def test_a_revoked_key_is_not_counted(alice):
    key, secret = factories.make_key(alice)
    lifecycle.revoke_key(key)
    assert [client_for(secret).get("/v1/usage").status_code for _ in range(8)] == [401] * 8
