"""``models``: the fallbacks that answer when the requested model cannot, each under its own name and at its own price."""

import threading
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from billing.models import LedgerEntry
from completions import tasks
from completions.charging import batch
from completions.charging.recovery import checkpoints
from completions.models import Completion, LanguageModel, RoutableAlias
from gateway_project.db.group_commit import OutcomeUnknown
from keys.models import ApiKey
from tests import cells, factories
from tests.chat import assert_error, body, prompt_bytes
from tests.completions.routes import add, assert_answered, let_providers_cancel, once
from tests.completions.rows import MESSAGES, abandon, ask, ask_streamed, assert_charged, assert_released, begin, events, text
from tests.conftest import client_for
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import HANG, RESET, ROLE, refusal, stream, streamed, whole, words

pytestmark = pytest.mark.usefixtures("large")

STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
PNG = "data:image/png;base64,iVBORw0KGgo="
TOOLS = [{"type": "function", "function": {"name": "f"}}]
# Of 9 prompt tokens and 2 generated ones, in nanodollars.
PRICES = {"acme/small": ("1.00", "2.00", 9 * 1_000 + 2 * 2_000), "acme/dear": ("30.00", "150.00", 9 * 30_000 + 2 * 150_000)}


@pytest.fixture(autouse=True)
def small(large, spare):
    """A cheaper model than acme/large, at another provider."""
    return make("acme/small", spare)


@pytest.fixture
def dear(large, spare):
    return make("acme/dear", spare)


def make(model_id, server, **fields):
    provider = factories.make_provider("elsewhere", kind="openai", base_url=server.url)
    price = {"input": PRICES[model_id][0], "output": PRICES[model_id][1]}
    return factories.make_model(model_id, provider=provider, upstream_model=model_id.upper(), **price, **fields)


def worst(model_id, tokens, max_tokens):
    """Return the worst-case cost in nanodollars of these tokens of prompt and these generated tokens."""
    prices = {"acme/large": (3_000, 15_000), "acme/small": (1_000, 2_000), "acme/dear": (30_000, 150_000)}[model_id]
    return tokens * prices[0] + max_tokens * prices[1]


def held_nanos(account):
    return account.holds.get().amount_nanos


# --- Order -----------------------------------------------------------------------------------------------------


@fault(
    "Provider",
    "All routes of a model fail, and the request names fallback models",
    "A fallback answers under its own name and at its own price",
)
@STREAMED
@pytest.mark.parametrize(
    "failure", [refusal(500), refusal(429, retry_after="30"), refusal(401), [RESET]], ids=["500", "429", "401", "reset"]
)
def test_a_fallback_answers_under_its_own_name_and_at_its_own_price(api, alice, upstream, spare, failure, is_streamed):
    upstream.will(failure)
    spare.will(streamed() if is_streamed else whole())
    answer = ask(api, models=["acme/small"], stream=is_streamed, max_tokens=20)
    if is_streamed:
        *received, done = events(answer)
        assert ({chunk["model"] for chunk in received}, text(received), done) == ({"acme/small"}, "Hello you", "[DONE]")
    else:
        assert answer.json()["model"] == "acme/small"
    assert_answered(answer, "elsewhere", 2)
    assert spare.requests[0].body["model"] == "ACME/SMALL"
    assert "models" not in spare.requests[0].body
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=PRICES["acme/small"][2], model="acme/small")
    done = Completion.objects.get()
    assert (done.model_id, done.price.model_id) == ("acme/small", "acme/small")
    if not is_streamed:
        assert answer["x-gateway-cost"] == "0.000013"


def test_the_requested_model_answers_when_it_can(api, alice, upstream, spare):
    answer = ask(api, models=["acme/small"])
    assert answer.json()["model"] == "acme/large"
    assert_answered(answer, "scripted", 1)
    assert answer["x-gateway-cost"] == "0.000057"
    assert spare.requests == []
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.parametrize(
    ("models", "first"), [(["acme/dear", "acme/small"], "acme/dear"), (["acme/small", "acme/dear"], "acme/small")]
)
def test_fallbacks_are_tried_in_their_order(api, dear, alice, upstream, spare, models, first):
    upstream.will(refusal(401))
    assert ask(api, models=models).json()["model"] == first
    assert [asked.body["model"] for asked in spare.requests] == [first.upper()]


def test_the_next_fallback_is_tried_when_one_fails(api, dear, alice, upstream, spare):
    upstream.will(refusal(401))
    spare.will(refusal(403), whole())
    answer = ask(api, models=["acme/dear", "acme/small"])
    assert_answered(answer, "elsewhere", 3)
    assert [asked.body["model"] for asked in spare.requests] == ["ACME/DEAR", "ACME/SMALL"]
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=PRICES["acme/small"][2], model="acme/small")


def test_all_routes_of_a_model_are_tried_before_its_fallbacks(api, large, alice, upstream, spare):
    add(large, spare, "large-elsewhere")
    upstream.will(refusal(401))
    answer = ask(api, models=["acme/small"])
    assert_answered(answer, "large-elsewhere", 2)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_when_all_fail_nothing_is_charged(api, alice, upstream, spare):
    upstream.will(refusal(401))
    spare.will(refusal(403))
    assert_error(ask(api, models=["acme/small"]), 502, "upstream_error")
    assert_released(alice)


def test_an_invalid_request_is_sent_to_no_fallback(api, alice, upstream, spare):
    upstream.will(refusal(400, "It is too long."))
    assert_error(ask(api, models=["acme/small"]), 400, "invalid_request_error")
    assert spare.requests == []
    assert_released(alice)


def test_a_fallback_that_breaks_off_is_charged_at_its_own_price(api, alice, upstream, spare):
    upstream.will(refusal(500))
    spare.will(stream(ROLE, words("Hello "), 0.05, RESET))
    received = events(ask_streamed(api, models=["acme/small"]))
    assert received[-1]["error"]["code"] == "upstream_error"
    assert_charged(alice, "partial", prompt=5, completion=2, nanos=5 * 1_000 + 2 * 2_000, model="acme/small")


# --- Holds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "dearest"), [([], "acme/large"), (["acme/small"], "acme/large"), (["acme/small", "acme/dear"], "acme/dear")]
)
def test_the_hold_pays_for_the_dearest_model_that_may_answer(api, dear, alice, models, dearest):
    raw = body(model="acme/large", messages=MESSAGES, max_tokens=100, models=models)
    answer = api.generic("POST", "/v1/chat/completions", raw, content_type="application/json")
    assert answer.status_code == 200
    assert held_nanos(alice) == worst(dearest, prompt_bytes(MESSAGES), 100)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.parametrize("cents", [1, 2, 5, 20, 100])
@pytest.mark.parametrize("max_tokens", [None, 100])
def test_every_model_generates_at_most_what_is_held(bob, dear, upstream, spare, cents, max_tokens):
    factories.credit(bob, cents)
    upstream.will(refusal(401))
    answer = ask(client_for(factories.make_key(bob)[1]), models=["acme/dear", "acme/small"], max_tokens=max_tokens)
    assert answer.status_code == 200
    [asked] = spare.requests
    model_id = asked.body["model"].lower()
    assert worst(model_id, len("Say hello, please."), asked.body["max_tokens"]) <= held_nanos(bob) <= cents * 10_000_000
    assert asked.body["max_tokens"] == max_tokens or max_tokens is None


def test_an_unaffordable_fallback_is_passed_over(bob, dear, upstream, spare):
    factories.credit(bob, 1)  # 100 tokens of acme/large cost 0.15 cents and more, of acme/dear 1.5
    upstream.will(refusal(401))
    answer = ask(client_for(factories.make_key(bob)[1]), models=["acme/dear", "acme/small"], max_tokens=100)
    assert answer.json()["model"] == "acme/small"
    assert [asked.body["model"] for asked in spare.requests] == ["ACME/SMALL"]
    assert_charged(bob, "reported", prompt=9, completion=2, nanos=PRICES["acme/small"][2], model="acme/small")


def test_a_fallback_above_the_keys_limit_is_passed_over(alice, dear, upstream, spare):
    _, secret = factories.make_key(alice, limit_cents=1, type="FIXED")
    upstream.will(refusal(401))
    answer = ask(client_for(secret), models=["acme/dear", "acme/small"], max_tokens=100)
    assert answer.json()["model"] == "acme/small"
    assert held_nanos(alice) <= 10_000_000


def test_an_unaffordable_request_is_refused_whatever_its_fallback_costs(bob, upstream, spare):
    factories.credit(bob, 1)
    answer = ask(client_for(factories.make_key(bob)[1]), models=["acme/small"], max_tokens=4_000)
    assert_error(answer, 402, "insufficient_quota")
    assert (upstream.requests, spare.requests) == ([], [])
    assert not bob.holds.exists()


# --- Excluded fallbacks ------------------------------------------------------------------------------------------


@STREAMED
def test_a_fallback_that_the_key_may_not_use_is_passed_over(alice, upstream, spare, is_streamed):
    key, secret = factories.make_key(alice)
    ApiKey.objects.filter(pk=key.pk).update(allowed_models=["acme/large"])
    upstream.will(refusal(500))
    assert_error(ask(client_for(secret), models=["acme/small"], stream=is_streamed), 502, "upstream_error")
    assert spare.requests == []
    assert_released(alice)


def test_a_rerun_admission_keeps_the_keys_allowed_models(alice, dear, upstream, spare, monkeypatch):
    """The database's answer to the COMMIT is lost. The rerun finds the committed admission."""
    key, secret = factories.make_key(alice)
    ApiKey.objects.filter(pk=key.pk).update(allowed_models=["acme/large", "acme/small"])
    run, lost = batch._committers[cells.NUMBER].group_commit._run, []

    def losing(operations, is_rerun):
        outcomes = run(operations, is_rerun)
        if not lost:
            lost.append(outcomes)
            raise OutcomeUnknown
        return outcomes

    monkeypatch.setattr(batch._committers[cells.NUMBER].group_commit, "_run", losing)
    upstream.will(refusal(401))
    answer = ask(client_for(secret), models=["acme/dear", "acme/small"])
    assert lost
    assert answer.json()["model"] == "acme/small"
    assert [asked.body["model"] for asked in spare.requests] == ["ACME/SMALL"]
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=PRICES["acme/small"][2], model="acme/small")


def test_a_model_that_the_key_may_not_use_is_refused_whatever_its_fallback(alice, upstream, spare):
    key, secret = factories.make_key(alice)
    ApiKey.objects.filter(pk=key.pk).update(allowed_models=["acme/small"])
    assert_error(ask(client_for(secret), models=["acme/small"]), 404, "model_not_found", "model")
    assert (upstream.requests, spare.requests) == ([], [])
    assert not alice.holds.exists()


@pytest.mark.parametrize(
    ("ability", "needs"),
    [
        ("image_support", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}]}),
        ("function_calling", {"tools": TOOLS}),
    ],
    ids=["images", "tools"],
)
@pytest.mark.parametrize("can", [False, True])
def test_a_fallback_without_a_needed_capability_is_passed_over(api, alice, upstream, spare, ability, needs, can):
    LanguageModel.objects.filter(pk="acme/large").update(**{ability: True})
    LanguageModel.objects.filter(pk="acme/small").update(**{ability: can})
    upstream.will(refusal(401))
    answer = api.post("/v1/chat/completions", {"model": "acme/large", "messages": MESSAGES, "models": ["acme/small"], **needs})
    assert (answer.status_code, len(spare.requests)) == ((200, 1) if can else (502, 0))
    alice.refresh_from_db()
    assert alice.held_nanos == 0
    assert_ledger_is_consistent()


def test_the_requested_model_needs_the_capability_whatever_its_fallbacks_have(api, alice, small, upstream, spare):
    LanguageModel.objects.filter(pk="acme/small").update(function_calling=True)
    assert_error(ask(api, models=["acme/small"], tools=TOOLS), 400, "invalid_request_error", "tools")
    assert (upstream.requests, spare.requests) == ([], [])
    assert not alice.holds.exists()


def test_a_fallback_with_a_smaller_output_limit_is_passed_over(api, alice, upstream, spare):
    LanguageModel.objects.filter(pk="acme/small").update(max_output_tokens=50)
    upstream.will(refusal(401))
    assert ask(api, models=["acme/small"], max_tokens=51).status_code == 502
    assert spare.requests == []
    assert ask(api, models=["acme/small"], max_tokens=50).status_code == 200
    assert len(spare.requests) == 1


# --- Validation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "place"),
    [
        (["acme/gone"], 0),
        (["acme/small", "acme/gone"], 1),
        (["acme/small", "acme/small", "acme/gone"], 2),
        (["acme/large", ""], 1),
    ],
)
def test_an_unknown_fallback_is_named_in_the_error(api, alice, upstream, spare, models, place):
    answer = ask(api, models=models)
    if models[place]:
        assert_error(answer, 404, "model_not_found", f"models[{place}]")
    else:
        assert_error(answer, 400, "invalid_request_error", f"models[{place}]")
    assert (upstream.requests, spare.requests) == ([], [])
    assert not alice.holds.exists()


@pytest.mark.parametrize("given", ["acme/small", {"a": 1}, 7, ["acme/small"] * 6], ids=["text", "object", "number", "six"])
def test_models_are_a_short_list(api, alice, upstream, given):
    assert_error(ask(api, models=given), 400, "invalid_request_error", "models")
    assert upstream.requests == []


@pytest.mark.parametrize("given", [[None], [7], [["acme/small"]]], ids=str)
def test_models_are_named_by_their_ids(api, alice, upstream, given):
    assert_error(ask(api, models=given), 400, "invalid_request_error", "models[0]")
    assert upstream.requests == []


@pytest.mark.parametrize("models", [None, [], ["acme/large"], ["acme/large", "acme/large"]], ids=str)
def test_an_empty_or_redundant_list_of_models_changes_nothing(api, alice, upstream, models):
    assert_answered(ask(api, models=models), "scripted", 1)
    upstream.will(refusal(401))
    assert ask(api, models=models).status_code == 502
    assert len(upstream.requests) == 2


def test_a_model_named_twice_is_tried_once(api, alice, upstream, spare):
    RoutableAlias.objects.create(id="best/cheap", model_ids=["acme/small"])
    upstream.will(refusal(401))
    spare.will(refusal(403))
    models = ["acme/small", "acme/large", "acme/small", "best/cheap"]
    assert_error(ask(api, models=models), 502, "upstream_error")
    assert (len(upstream.requests), len(spare.requests)) == (1, 1)
    assert_released(alice)


# --- Crashes -----------------------------------------------------------------------------------------------------


def test_a_crash_within_a_fallback_is_charged_at_the_fallbacks_price(api, alice, upstream, spare):
    let_providers_cancel()
    upstream.will(refusal(500))
    spare.will(stream(ROLE, 0.05, words("four bytes, and more"), HANG))
    reply = ask_streamed(api, models=["acme/small"])
    begin(reply, "four bytes, and more")
    checkpoints.write()
    noted = Completion.objects.get()
    assert (noted.model_id, noted.provider_id, noted.attempts, noted.relayed_bytes) == ("acme/small", "elsewhere", 2, 20)
    grow_old()
    factories.make_price(LanguageModel.objects.get(pk="acme/small"), input="0", output="0")  # a later one, which does not apply
    assert tasks.release_expired_holds() == 1
    assert_charged(alice, "recovered", prompt=5, completion=5, nanos=5 * 1_000 + 5 * 2_000, model="acme/small")
    done = Completion.objects.get()
    assert (done.model_id, done.provider_id, done.attempts) == ("acme/small", "elsewhere", 2)
    abandon(reply)
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1


def test_a_crash_before_any_answer_costs_nothing(api, alice, upstream, spare):
    gate = threading.Event()
    upstream.will(refusal(500))
    spare.will([gate, *refusal(403)])
    once(lambda: spare.requests, checkpoints.write, grow_old, tasks.release_expired_holds, gate.set)
    assert ask(api, models=["acme/small"]).status_code == 502
    assert_released(alice, "expired")


def grow_old():
    Completion.objects.exclude(checkpointed_at=None).update(
        checkpointed_at=Now() - checkpoints.ABANDONED_AFTER - timedelta(seconds=1)
    )
