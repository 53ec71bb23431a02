"""How long a whole reply is waited for before one more route is asked, and who pays then."""

import pytest

from billing.models import LedgerEntry
from completions.models import LanguageModel
from completions.relay import attempts
from tests import factories
from tests.completions.routes import add, assert_answered, assert_attempts
from tests.completions.rows import MESSAGES, ask, assert_charged, assert_released, lost_nanos
from tests.upstream import CLOSE, HANG, refusal, whole

REPORTED = {"prompt": 9, "completion": 2, "nanos": 9 * 3_000 + 2 * 15_000}
UNSEEN_NANOS = 5 * 3_000 + 10 * 15_000  # of the estimated prompt and 10 tokens that may have been generated
PROMPT_NANOS = 5 * 3_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = whole()[0].partition(b"\r\n\r\n")[2]


def part(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


END = part(BODY) + b"0\r\n\r\n"
BLANKS = [step for _ in range(10) for step in (part(b" \n"), 0.05)]


@pytest.fixture(autouse=True)
def _deadlines(settings):
    settings.UPSTREAM_WHOLE_SECONDS, settings.UPSTREAM_TOTAL_SECONDS = 0.3, 2


@pytest.fixture
def both(large, upstream, spare):
    """The model, with a second route."""
    add(large, spare)
    return large


# --- When ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "unpaid_nanos"),
    [
        ([HANG], UNSEEN_NANOS),
        ([0.8, *whole()], UNSEEN_NANOS),
        ([b"HTTP/1.1 200 OK\r\n", *[b"X-Drip: a\r\n", 0.1] * 10], UNSEEN_NANOS),
        ([HEAD, HANG], UNSEEN_NANOS),
        ([HEAD, *BLANKS, END], UNSEEN_NANOS),
        ([HEAD, part(BODY[:9]), CLOSE], PROMPT_NANOS),
    ],
    ids=["nothing", "too late", "a head that drips", "a head alone", "blanks that keep a connection alive", "a part"],
)
def test_a_whole_reply_that_does_not_arrive_is_given_by_another_route(api, alice, both, upstream, spare, script, unpaid_nanos):
    upstream.will(script)
    lost_before_nanos = lost_nanos("scripted")
    answer = ask(api, max_tokens=10)
    assert_answered(answer, "spare", 2)
    assert answer["x-gateway-failed-providers"] == "scripted"
    assert (len(upstream.requests), len(spare.requests)) == (1, 1)
    assert_charged(alice, "reported", **REPORTED)
    assert lost_nanos("scripted") - lost_before_nanos == unpaid_nanos
    assert alice.unpaid_until is None  # it paid for its reply


@pytest.mark.parametrize(
    "script",
    [[0.8, *whole()], [HEAD, *BLANKS, END], [HEAD, part(BODY[:9]), 0.8, part(BODY[9:]) + b"0\r\n\r\n"]],
    ids=["late", "blanks", "slow"],
)
def test_a_reply_that_no_other_route_may_give_is_waited_for(api, alice, large, upstream, script):
    upstream.will(script)
    assert_answered(ask(api), "scripted", 1)
    assert_charged(alice, "reported", **REPORTED)


def test_a_reply_that_has_begun_is_waited_for(api, alice, both, upstream, spare):
    upstream.will([HEAD, part(BODY[:9]), 0.8, part(BODY[9:]) + b"0\r\n\r\n"])
    assert_answered(ask(api), "scripted", 1)
    assert spare.requests == []
    assert_charged(alice, "reported", **REPORTED)


def test_a_reply_is_waited_for_while_the_circuit_of_the_other_route_is_open(api, both, upstream, spare):
    spare.will(refusal(429, retry_after="30"), whole())
    assert ask(api, provider={"only": ["spare"]}).status_code == 503
    upstream.will([0.8, *whole()])
    assert_answered(ask(api), "scripted", 1)
    assert len(spare.requests) == 1


def test_a_reply_of_the_last_attempt_is_waited_for(api, both, upstream, spare, settings):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    upstream.will([0.8, *whole()])
    assert_answered(ask(api), "scripted", 1)
    assert spare.requests == []


def test_a_provider_without_a_network_is_given_up_alike(api, alice, echo_model, spare):
    add(echo_model, spare)
    asked = {"model": "demo/echo", "messages": MESSAGES, "echo": {"delay_seconds": 1}, "max_tokens": 10}
    answer = api.post("/v1/chat/completions", asked)
    assert (answer.status_code, answer.get("x-gateway-provider")) == (200, "spare"), answer.content


# --- One more route, and no other ------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [[HANG], refusal(500)], ids=["hangs", "fails"])
def test_one_more_route_is_asked_and_no_third(api, alice, both, upstream, spare, script):
    add(both, "http://127.0.0.1:9/v1", "third", priority=3)
    upstream.will([HANG])
    spare.will(script)
    lost_before_nanos = [lost_nanos(provider) for provider in ("scripted", "spare", "third")]
    answer = ask(api, max_tokens=10)
    assert answer.status_code == (504 if script == [HANG] else 502)
    assert answer["x-gateway-failed-providers"] == "scripted, spare"
    assert_attempts(2)
    assert_released(alice)
    lost = [
        lost_nanos(provider) - before
        for provider, before in zip(("scripted", "spare", "third"), lost_before_nanos, strict=True)
    ]
    assert lost == [UNSEEN_NANOS, UNSEEN_NANOS if script == [HANG] else 0, 0]
    assert alice.unpaid_until is not None  # it paid for nothing of it


def test_a_refusal_of_content_by_the_one_more_route_is_the_reply(api, alice, both, upstream, spare):
    upstream.will([HANG])
    spare.will(refusal(400, "The prompt was filtered."))
    assert ask(api).status_code == 400
    assert_released(alice)


def test_a_fallback_model_answers_and_is_paid_at_its_own_price(api, alice, large, upstream, spare):
    factories.make_model(
        "acme/small", input="1.00", output="2.00", provider=factories.make_provider("spare", kind="openai", base_url=spare.url)
    )
    upstream.will([HANG])
    answer = ask(api, models=["acme/small"], max_tokens=10)
    assert_answered(answer, "spare", 2)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=9 * 1_000 + 2 * 2_000, model="acme/small")


def test_a_repetition_gets_the_reply_of_the_other_route(api, alice, both, upstream, spare):
    upstream.will([HANG])
    asked = {"model": "acme/large", "messages": MESSAGES, "max_tokens": 10}
    first, again = [api.post("/v1/chat/completions", asked, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert (first.status_code, again.status_code, again["Idempotent-Replayed"]) == (200, 200, "true")
    assert first.content == again.content
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1


# --- How long --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([], 120),
        ([1.0] * 19, 120),
        ([1.0] * 20, 30),
        ([20.0] * 20, 40),
        ([200.0] * 20, 400),
        ([2.0] * 196 + [100.0] * 4, 200),
        ([2.0] * 197 + [800.0] * 3, 30),
        ([800.0] * 50 + [2.0] * 200, 30),
    ],
    ids=["none", "few", "fast", "slow", "slower", "some of them slow", "hardly one slow", "of late fast"],
)
def test_the_time_is_twice_that_of_nearly_all_of_the_models_last_replies(settings, seconds, expected):
    settings.UPSTREAM_WHOLE_SECONDS = 120
    attempts.reply_seconds["acme/large"].extend(seconds)
    assert attempts.whole_seconds("acme/large") == expected
    assert attempts.whole_seconds("acme/small") == 120


def test_the_times_are_those_of_attempts_that_gave_whole_replies(api, both, upstream, spare):
    upstream.will(refusal(500), [HANG], whole())
    assert [ask(api).status_code for _ in range(3)] == [200, 200, 200]
    assert len(attempts.reply_seconds["acme/large"]) == 3
    assert max(attempts.reply_seconds["acme/large"]) < 0.3  # not the time of the attempt that hung
    assert LanguageModel.objects.count() == 1
