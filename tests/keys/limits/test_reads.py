"""The limit on a key's requests for anything but a new completion, which completions neither count nor obey."""

import pytest
from django.db import connection

from gateway_project.web import in_flight
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
        assert error["message"].startswith(
            "The key is limited to 6 requests per minute for models, past completions, quotes, usage, balance and ledger"
        )
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


@pytest.fixture
def meanwhile(api):
    """Return a function that sends a read, and other requests while it waits for its first query. It returns all replies."""

    def send(path, *others):
        replies = []

        def wait(execute, sql, params, many, context):
            while len(replies) < len(others):
                client, other_path = others[len(replies)]
                replies.append(None)  # its own queries do not wait
                replies[-1] = client.get(other_path)
            return execute(sql, params, many, context)

        for client in (api, *(client for client, _ in others)):
            client.get("/v1/usage")  # so that their secrets are known
        with connection.execute_wrapper(wait):
            first = api.get(path)
        return first, *replies

    return send


@pytest.mark.parametrize("path", PATHS)
def test_one_more_read_of_an_account_than_may_be_in_flight_is_refused(alice, bob, api, meanwhile, settings, monkeypatch, path):
    settings.ACCOUNT_READS_IN_FLIGHT = 1
    monkeypatch.setattr(in_flight, "_WAIT_SECONDS", 0)
    second_key, neighbour = (client_for(factories.make_key(account)[1]) for account in (alice, bob))
    first, refused, other = meanwhile(path, (second_key, "/v1/usage"), (neighbour, path))
    assert (first.status_code, other.status_code) == (200, 200)
    error = chat.assert_error(refused, 429, "rate_limit_exceeded")
    assert error["message"].startswith(
        "The account has as many requests for models, past completions, quotes, usage, balance and ledger in flight"
    )
    assert refused["retry-after"] == "1"
    assert second_key.get("/v1/usage").status_code == 200


def test_a_read_is_in_flight_until_it_is_answered_whatever_the_answer(alice, api, settings):
    settings.ACCOUNT_READS_IN_FLIGHT = 1
    key, secret = factories.make_key(alice)
    assert api.get("/v1/models/demo/none").status_code == 404
    assert api.get("/api/billing/ledger?limit=0").status_code == 400
    assert api.post("/v1/usage").status_code == 405
    lifecycle.revoke_key(key)
    assert client_for(secret).get("/v1/usage").status_code == 401
    assert api.get("/v1/usage").status_code == 200
