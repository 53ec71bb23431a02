"""In a flood of refused requests, the refusal is replayed from memory for a second, without a query."""

import gc
import weakref
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from billing.models import Account
from gateway_project import errors
from keys import lifecycle
from keys.limits import limit_state_cache, refusal_cache
from keys.limits.limit_state_cache import CachedRateLimit
from keys.limits.rate_limits import RateLimits, RateLimitState
from keys.limits.refusal_cache import FLOOD_REFUSALS, AdmissionDemand, RefusalCache
from keys.models import ApiKey
from keys.spending_limit import SpendingLimit
from tests import chat, factories
from tests.conftest import client_for
from tests.keys.limits.stopped_keys import no_query_of_keys_or_accounts, stopped

__all__ = ["stopped"]

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DEMAND = AdmissionDemand(model_ids=("a/b",), tokens=10, amount_nanos=1_000, is_capped=True, run="nightly")


class Clock:
    seconds = 50.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def memory(clock):
    return RefusalCache(clock)


def broke() -> errors.ApiError:
    return errors.InsufficientQuota("too few")


def flood(memory, refusal, demand=DEMAND, times=FLOOD_REFUSALS):
    for _ in range(times):
        memory.record("key", refusal, demand)


def answer(memory, demand=DEMAND, key_id="key", cached=None) -> str:
    """Return the class of the replayed refusal, or "asked" if admission must decide."""
    try:
        memory.replay(key_id, demand, cached)
    except errors.ApiError as refusal:
        return type(refusal).__name__
    return "asked"


# --- Limits per minute ---------------------------------------------------------------------------------------------


def cached_limit(clock, **full_in: float) -> CachedRateLimit:
    """Return the state of a key with 60 requests and tokens per minute, all available again after ``full_in`` seconds."""
    full_at = {name: NOW + timedelta(seconds=seconds) for name, seconds in full_in.items()}
    state = RateLimitState(RateLimits(60, 60), full_at.get("requests"), full_at.get("tokens"))
    return CachedRateLimit(state, NOW, clock())


def test_requests_per_minute_are_refused_until_the_next_one_is_free(memory, clock):
    cached = cached_limit(clock, requests=59.4)  # the next request is available in 0.4 seconds
    assert answer(memory, cached=cached) == "RateLimitExceeded"
    clock.seconds += 0.39
    assert answer(memory, cached=cached) == "RateLimitExceeded"
    clock.seconds += 0.02
    assert answer(memory, cached=cached) == "asked"


def test_a_replayed_refusal_reports_the_remaining_wait(memory, clock):
    cached = cached_limit(clock, requests=60.5)
    clock.seconds += 0.25
    with pytest.raises(errors.RateLimitExceeded) as refused:
        memory.replay("key", DEMAND, cached)
    headers = refused.value.headers
    assert 1_249 <= int(headers["retry-after-ms"]) <= 1_251
    assert (headers["Retry-After"], headers["x-ratelimit-remaining-requests"]) == ("2", "0")


def test_cached_state_refuses_requests_for_one_second(memory, clock):
    cached = cached_limit(clock, requests=60.9)
    clock.seconds += 0.99
    assert answer(memory, cached=cached) == "RateLimitExceeded"
    clock.seconds += 0.02
    assert answer(memory, cached=cached) == "asked"


def test_tokens_per_minute_are_decided_by_admission_before_a_flood(memory, clock):
    cached = cached_limit(clock, tokens=51)  # 9 tokens are left
    for _ in range(FLOOD_REFUSALS):
        assert answer(memory, cached=cached) == "asked"
        memory.record("key", errors.RateLimitExceeded("wait"), DEMAND)
    assert answer(memory, cached=cached) == "RateLimitExceeded"
    assert answer(memory, replace(DEMAND, tokens=9), cached=cached) == "asked"


def test_a_request_with_an_idempotency_key_reaches_admission_before_a_flood(memory, clock):
    attempt, cached = replace(DEMAND, idempotency_key="retry"), cached_limit(clock, requests=60.9)
    for _ in range(FLOOD_REFUSALS):
        assert answer(memory, attempt, cached=cached) == "asked"
        memory.record("key", errors.RateLimitExceeded("wait"), attempt)
    assert answer(memory, attempt, cached=cached) == "RateLimitExceeded"


# --- All others ----------------------------------------------------------------------------------------------------

KINDS = {
    "key": errors.InvalidApiKey("revoked"),
    "model": errors.ModelNotAllowed("not for this key", param="model"),
    "in flight": errors.TooManyInFlight("as many as it may"),
    "in flight of a model": errors.TooManyInFlightOfModel("as many as each key may"),
    "funds": broke(),
    "tied up": errors.TiedUp("held"),
    "limit": errors.SpendingLimitReached("spent", resets_at="2026-12-01T00:00:00.000Z"),
    "run": errors.BudgetExceeded("spent"),
    "run tied up": errors.TiedUp("held", limit_source="run"),
    "month": errors.BudgetExceeded("spent", limit_source="budget"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_is_replayed_after_the_flood_threshold(memory, kind):
    for _ in range(FLOOD_REFUSALS):
        assert answer(memory) == "asked"
        memory.record("key", KINDS[kind], DEMAND)
    with pytest.raises(type(KINDS[kind])) as repeated:
        memory.replay("key", DEMAND)
    assert repeated.value is not KINDS[kind]
    assert (repeated.value.body(), repeated.value.headers) == (KINDS[kind].body(), KINDS[kind].headers)


def test_refusals_expire_after_a_second(memory, clock):
    flood(memory, broke())
    clock.seconds += 0.99
    assert answer(memory) == "InsufficientQuota"
    clock.seconds += 0.02
    for _ in range(FLOOD_REFUSALS):
        assert answer(memory) == "asked"
        memory.record("key", broke(), DEMAND)
    assert answer(memory) == "InsufficientQuota"


def test_refusals_of_one_key_do_not_affect_another(memory):
    flood(memory, errors.InvalidApiKey("revoked"))
    assert answer(memory, key_id="another") == "asked"


OTHERS = {
    "the same": DEMAND,
    "for less": replace(DEMAND, amount_nanos=999),
    "for more": replace(DEMAND, amount_nanos=1_001),
    "without a cap": replace(DEMAND, is_capped=False, amount_nanos=1_001),
    "of another model": replace(DEMAND, model_ids=("c/d",), amount_nanos=1_001),
    "of another provider": replace(DEMAND, preferences="only this"),
    "of another run": replace(DEMAND, run="daily"),
    "without a run": replace(DEMAND, run=None),
}


@pytest.mark.parametrize(
    ("kind", "alike"),
    [
        ("key", set(OTHERS)),
        ("model", set(OTHERS) - {"of another model"}),
        ("in flight", set(OTHERS)),
        ("in flight of a model", set(OTHERS) - {"of another model"}),
        *[
            (kind, {"the same", "for more", "of another run", "without a run"})
            for kind in ("funds", "tied up", "limit", "month")
        ],
        ("run", {"the same", "for more"}),
        ("run tied up", {"the same", "for more"}),
    ],
)
def test_only_requests_like_a_refused_one_are_refused(memory, kind, alike):
    flood(memory, KINDS[kind])
    assert {name for name, demand in OTHERS.items() if answer(memory, demand) != "asked"} == alike


def test_the_smallest_refused_amount_decides(memory):
    flood(memory, broke(), replace(DEMAND, amount_nanos=5_000))
    assert answer(memory, replace(DEMAND, amount_nanos=2_000)) == "asked"
    memory.record("key", broke(), replace(DEMAND, amount_nanos=2_000))
    memory.record("key", broke(), replace(DEMAND, amount_nanos=9_000))
    assert answer(memory, replace(DEMAND, amount_nanos=2_000)) == "InsufficientQuota"


@pytest.mark.parametrize("refusal", [errors.RequestInProgress("runs"), errors.InvalidRequest("another body")])
def test_a_refused_idempotency_key_affects_only_that_key(memory, refusal):
    flood(memory, refusal, replace(DEMAND, idempotency_key="first"))
    assert answer(memory, replace(DEMAND, idempotency_key="first")) == type(refusal).__name__
    assert answer(memory, replace(DEMAND, idempotency_key="second")) == "asked"
    assert answer(memory, DEMAND) == "asked"


@pytest.mark.parametrize("kind", ["in flight", "tied up"])
def test_a_settlement_forgets_refusals_that_ended_requests_caused(memory, kind):
    flood(memory, KINDS[kind])
    memory.forget_held("another")
    assert answer(memory) == type(KINDS[kind]).__name__
    memory.forget_held("key")
    assert answer(memory) == "asked"
    flood(memory, broke())
    memory.forget_held("key")
    assert answer(memory) == "InsufficientQuota"


@pytest.mark.parametrize("kind", ["in flight", "funds", "tied up", "limit"])
def test_a_request_with_a_possible_stored_reply_gets_a_retryable_error(memory, kind):
    flood(memory, KINDS[kind])
    with pytest.raises(errors.RateLimitExceeded) as refused:
        memory.replay("key", replace(DEMAND, idempotency_key="retry"))
    assert type(refused.value) is errors.RateLimitExceeded
    assert refused.value.headers == {"Retry-After": "1", "retry-after-ms": "1000"}


def test_a_server_error_is_never_replayed(memory):
    flood(memory, errors.ServiceUnavailable("down"))
    assert answer(memory) == "asked"


def test_a_refused_key_is_refused_before_its_status_is_read(memory):
    flood(memory, errors.InvalidApiKey("revoked"))
    with pytest.raises(errors.InvalidApiKey):
        memory.replay_for_models("key", AdmissionDemand())
    memory.clear()
    flood(memory, broke())
    memory.replay_for_models("key", AdmissionDemand())


def test_a_cached_refusal_keeps_no_request_alive(memory):
    def refuse():
        request = Request()
        gone.append(weakref.ref(request))
        raise broke()

    class Request:
        """A request body that takes much memory."""

    gone: list = []
    try:
        refuse()
    except errors.ApiError as refusal:
        memory.record("key", refusal, DEMAND)
    gc.collect()
    assert gone[0]() is None


# --- Over HTTP -------------------------------------------------------------------------------------------------------


def revoked(account: Account, key: ApiKey) -> None:
    lifecycle.revoke_key(key)


def not_allowed(account: Account, key: ApiKey) -> None:
    ApiKey.objects.update(allowed_models=["a/b"])


def limit_reached(account: Account, key: ApiKey) -> None:
    lifecycle.set_spending_limit(key, SpendingLimit(0, "FIXED"))


def without_credit(account: Account, key: ApiKey) -> None:
    ApiKey.objects.update(account=factories.make_account("Broke"))


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize(
    ("arrange", "status", "code", "param"),
    [
        (revoked, 401, "invalid_api_key", None),
        (not_allowed, 404, "model_not_found", "model"),
        (limit_reached, 402, "insufficient_quota", None),
        (without_credit, 402, "insufficient_quota", None),
    ],
)
def test_a_flood_of_refused_requests_costs_a_bounded_number_of_transactions(alice, echo_model, arrange, status, code, param):
    key, secret = factories.make_key(alice)
    arrange(alice, key)
    client = client_for(secret)
    decided = [chat.ask(client, max_tokens=1) for _ in range(FLOOD_REFUSALS)]
    before = chat.everything_written()
    with no_query_of_keys_or_accounts():
        repeated = [chat.ask(client, max_tokens=1) for _ in range(5)]
    assert chat.everything_written() == before
    for reply in [*decided, *repeated]:
        chat.assert_error(reply, status, code, param)
        assert (reply.json(), reply.get("x-should-retry")) == (decided[0].json(), decided[0].get("x-should-retry"))


TOO_LITTLE = (402, "insufficient_quota")


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("source", ["account", "key"])
def test_a_replayed_refusal_for_money_names_no_figure_of_another_request(charlie, bob, source):
    factories.make_model("acme/large", input="3", output="15")
    key, secret = factories.make_key(bob if source == "account" else charlie)
    if source == "key":
        lifecycle.set_spending_limit(key, SpendingLimit(1, "FIXED"))
    client = client_for(secret)
    decided = [chat.ask(client, model="acme/large", max_tokens=3_000) for _ in range(FLOOD_REFUSALS)]
    assert all("may cost up to $0.045" in chat.assert_error(reply, *TOO_LITTLE)["message"] for reply in decided)
    same, other = (chat.ask(client, model="acme/large", max_tokens=max_tokens) for max_tokens in (3_000, 4_000))
    assert same.json() == decided[-1].json()
    error = chat.assert_error(other, *TOO_LITTLE)
    message = error["message"]
    assert error["limit_source"] == source
    assert "for this request" in message
    assert "$" not in message
    assert "max_tokens" not in message


@pytest.mark.usefixtures("stopped")
def test_a_flood_for_an_unknown_model_costs_a_bounded_number_of_queries(alice, echo_model, django_assert_num_queries):
    client = client_for(factories.make_key(alice)[1])
    assert chat.ask(client).status_code == 200
    decided = [chat.ask(client, model="demo/nobody") for _ in range(FLOOD_REFUSALS)]
    with django_assert_num_queries(0):
        repeated = [chat.ask(client, model="demo/nobody") for _ in range(5)]
    for reply in [*decided, *repeated]:
        chat.assert_error(reply, 404, "model_not_found", "model")
    assert chat.ask(client).status_code == 200


@pytest.mark.usefixtures("stopped")
def test_a_key_over_its_requests_per_minute_is_refused_without_a_query(alice, echo_model):
    key, secret = factories.make_key(alice, requests_per_minute=1)
    client = client_for(secret)
    assert chat.ask(client).status_code == 200
    with no_query_of_keys_or_accounts():
        reply = chat.ask(client)
    assert "requests per minute" in chat.assert_error(reply, 429, "rate_limit_exceeded")["message"]
    assert 59_000 < int(reply["retry-after-ms"]) < 61_000
    assert reply["x-ratelimit-remaining-requests"] == "0"


def test_a_key_revoked_in_a_flood_is_refused_as_such_within_a_second(alice, echo_model, stopped):
    key, secret = factories.make_key(alice, requests_per_minute=1)
    client = client_for(secret)
    assert [chat.ask(client).status_code for _ in range(2)] == [200, 429]
    lifecycle.revoke_key(key)
    assert chat.ask(client).status_code == 429
    stopped.move_on(1)
    assert [chat.ask(client).status_code for _ in range(3)] == [401, 401, 401]


def test_a_limit_removed_in_a_flood_has_no_effect_after_a_second(alice, echo_model, stopped):
    key, secret = factories.make_key(alice, requests_per_minute=1)
    client = client_for(secret)
    assert [chat.ask(client).status_code for _ in range(2)] == [200, 429]
    ApiKey.objects.update(requests_per_minute=None)
    assert chat.ask(client).status_code == 429
    stopped.move_on(1)
    assert chat.ask(client).status_code == 200


@pytest.mark.usefixtures("stopped")
def test_unused_tokens_are_available_again_in_the_same_flood(alice, echo_model):
    client = client_for(factories.make_key(alice, tokens_per_minute=1_000)[1])
    refused = [chat.ask(client, max_tokens=1_000).status_code for _ in range(FLOOD_REFUSALS)]
    served = [chat.ask(client, max_tokens=900).status_code for _ in range(3)]  # each is counted as 904 tokens, and uses 9
    assert (set(refused), served) == ({429}, [200, 200, 200])


@pytest.mark.usefixtures("stopped")
def test_a_stored_reply_is_given_to_a_key_over_its_limit(alice, echo_model):
    client = client_for(factories.make_key(alice, requests_per_minute=1)[1])
    first = chat.send(client, chat.body(), HTTP_IDEMPOTENCY_KEY="once")
    assert [chat.ask(client).status_code for _ in range(2)] == [429, 429]
    again = chat.send(client, chat.body(), HTTP_IDEMPOTENCY_KEY="once")
    assert (again.status_code, again["idempotent-replayed"]) == (200, "true")
    assert again.json() == first.json()


@pytest.mark.usefixtures("stopped")
def test_reading_with_a_revoked_key_costs_a_bounded_number_of_queries(alice, django_assert_num_queries):
    key, secret = factories.make_key(alice)
    client = client_for(secret)
    assert client.get("/v1/usage").status_code == 200
    lifecycle.revoke_key(key)
    with django_assert_num_queries(FLOOD_REFUSALS):
        for _ in range(FLOOD_REFUSALS + 5):
            chat.assert_error(client.get("/v1/usage"), 401, "invalid_api_key")


def test_the_caches_of_keys_are_bounded():
    assert refusal_cache.process_cache._recent._entries_max == 10_000
    assert limit_state_cache._cache._entries_max == 65_536
