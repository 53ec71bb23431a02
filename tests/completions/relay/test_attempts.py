"""Several routes and retries: the order of the routes, the number of attempts, and their time limit, within one completion."""

import threading
from collections import Counter

import pytest

from completions.catalog import lookup
from completions.relay import running
from gateway_project import metrics
from tests.completions.routes import add, assert_answered, assert_attempts, change_provider, closed_port, once
from tests.completions.rows import ask, ask_streamed, assert_charged, assert_released, events, text
from tests.faults import fault
from tests.upstream import CLOSE, HANG, RESET, ROLE, event, refusal, reply, stream, streamed, whole, words

REPORTED = {"prompt": 9, "completion": 2, "nanos": 9 * 3_000 + 2 * 15_000}
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def both(large, upstream, spare):
    """The model, with a second route."""
    add(large, spare)
    return large


def answering(is_streamed, content="Hello you"):
    return streamed(content) if is_streamed else whole(content)


def text_of_reply(answer):
    return text(events(answer)) if answer.streaming else answer.json()["choices"][0]["message"]["content"]


# --- Order of routes ---------------------------------------------------------------------------------------------


def test_only_the_route_of_lowest_priority_is_asked(api, alice, both, upstream, spare):
    for _ in range(5):
        assert_answered(ask(api), "scripted", 1)
    assert (len(upstream.requests), len(spare.requests)) == (5, 0)


def test_priority_precedes_weight_and_order_of_creation(api, both, upstream, spare):
    both.routes.filter(provider="scripted").update(priority=7, weight=30_000)
    assert_answered(ask(api), "spare", 1)
    assert upstream.requests == []
    assert spare.requests[0].body["model"] == "spare-name"


def test_routes_of_one_priority_are_drawn_by_weight(both):
    both.routes.update(priority=1)
    both.routes.filter(provider="spare").update(weight=2)
    add(both, "http://127.0.0.1:9/v1", "third", priority=1, weight=7)
    add(both, "http://127.0.0.1:9/v1", "last", priority=2, weight=30_000)
    routes = lookup.find_offer("acme/large").routes
    drawn = [[route.provider_slug for route in running.in_order(routes)] for _ in range(2_000)]
    assert {draw[3] for draw in drawn} == {"last"}
    assert all(sorted(draw[:3]) == ["scripted", "spare", "third"] for draw in drawn)
    first = Counter(draw[0] for draw in drawn)
    # A share of p is off by 0.06 once in ten million times: six standard deviations of at most 0.0103.
    assert first["scripted"] / 2_000 == pytest.approx(0.1, abs=0.06)
    assert first["spare"] / 2_000 == pytest.approx(0.2, abs=0.06)
    assert first["third"] / 2_000 == pytest.approx(0.7, abs=0.06)
    # When "third" comes first, the weights 1 and 2 remain: "scripted" follows in a third of the draws.
    second = Counter(draw[1] for draw in drawn if draw[0] == "third")
    assert second["scripted"] / first["third"] == pytest.approx(1 / 3, abs=0.08)


def test_routes_of_one_priority_share_requests(api, both, upstream, spare):
    both.routes.update(priority=1)
    for _ in range(25):  # one of them gets none once in 2 ** 24 runs
        assert ask(api).status_code == 200
    assert len(upstream.requests) + len(spare.requests) == 25
    assert upstream.requests
    assert spare.requests


def test_a_route_whose_provider_has_no_key_is_not_asked(api, both, upstream, spare, monkeypatch):
    monkeypatch.delenv("SCRIPTED_UPSTREAM_KEY")
    assert_answered(ask(api), "spare", 1)
    assert upstream.requests == []


# --- Retries -----------------------------------------------------------------------------------------------------

PASSING = {
    "408": refusal(408),
    "409": refusal(409),
    "425": refusal(425),
    "429": refusal(429),
    "429 at once": refusal(429, retry_after="0"),
    "429 soon": refusal(429, retry_after="1"),
    "500": refusal(500),
    "502": refusal(502),
    "503": refusal(503),
    "504": refusal(504),
    "529": refusal(529),
    "hangs up": [CLOSE],
    "breaks": [RESET],
}


@STREAMED
def test_a_large_body_is_sent_again_whole(api, alice, large, upstream, is_streamed):
    parts = [{"type": "text", "text": f"{number} " * 20} for number in range(1_000)]
    shape = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"a": {}}}}}
    upstream.will(refusal(500), answering(is_streamed))
    answer = ask(api, stream=is_streamed, messages=[{"role": "user", "content": parts}], response_format=shape)
    assert text_of_reply(answer) == "Hello you"
    first, second = (request.body for request in upstream.requests)
    assert first == second
    assert first["messages"] == [{"role": "user", "content": parts}]
    assert first["response_format"] == shape


@fault(
    "Provider",
    "A provider fails once",
    "The request is tried again and answered; the caller pays once",
)
@STREAMED
@pytest.mark.parametrize("first", PASSING.values(), ids=PASSING.keys())
def test_a_retryable_failure_is_retried_once(api, alice, large, upstream, first, is_streamed):
    upstream.will(first, answering(is_streamed))
    answer = ask(api, stream=is_streamed)
    assert text_of_reply(answer) == "Hello you"
    assert_answered(answer, "scripted", 2)
    assert len(upstream.requests) == 2
    assert upstream.requests[0].body == upstream.requests[1].body
    assert_charged(alice, "reported", **REPORTED)


@STREAMED
def test_the_metrics_tell_which_provider_failed_and_how_long_each_took(api, both, upstream, spare, is_streamed):
    served = ("spare", "stream" if is_streamed else "whole")
    before = observed()
    upstream.will(refusal(500))
    spare.will(answering(is_streamed))
    assert ask(api, stream=is_streamed).status_code == 200
    assert {attempt: number - before[attempt] for attempt, number in observed().items() if number > before[attempt]} == {
        ("scripted", "retryable"): 1,
        served: 1,
    }
    assert metrics.attempt_seconds.labels(*served)._sum.get() > 0


def observed():
    """Return how many attempts were counted, by provider and outcome."""
    metrics.write()
    [family] = metrics.attempt_seconds.collect()
    counts = [sample for sample in family.samples if sample.name.endswith("_count")]
    return Counter({(each.labels["provider"], each.labels["outcome"]): each.value for each in counts})


@fault(
    "Provider",
    "A provider of a model with two routes fails",
    "The other route answers",
)
@STREAMED
@pytest.mark.parametrize("first", PASSING.values(), ids=PASSING.keys())
def test_another_route_is_tried_before_a_retry(api, alice, both, upstream, spare, first, is_streamed):
    upstream.will(first)
    spare.will(answering(is_streamed, "from the spare"))
    answer = ask(api, stream=is_streamed)
    assert text_of_reply(answer) == "from the spare"
    assert_answered(answer, "spare", 2)
    assert (len(upstream.requests), len(spare.requests)) == (1, 1)
    assert_charged(alice, "reported", **REPORTED)


def test_the_first_route_is_retried_after_the_others_failed(api, alice, both, upstream, spare):
    upstream.will(refusal(500), whole("at last"))
    spare.will(refusal(401))
    answer = ask(api)
    assert text_of_reply(answer) == "at last"
    assert_answered(answer, "scripted", 3)
    assert (len(upstream.requests), len(spare.requests)) == (2, 1)
    assert_charged(alice, "reported", **REPORTED)


@STREAMED
@pytest.mark.parametrize(
    ("status", "reply_status"), [(408, 504), (429, 503), (500, 502), (502, 502), (503, 503), (504, 504), (529, 503)]
)
def test_a_failed_retry_is_reported(api, alice, large, upstream, status, reply_status, is_streamed):
    upstream.will(refusal(status, "their own words"))
    answer = ask(api, stream=is_streamed)
    assert (answer.status_code, answer.json()["error"]["code"]) == (reply_status, "upstream_error")
    assert "their own words" not in answer.content.decode()
    assert len(upstream.requests) == 2
    assert_attempts(2)
    assert_released(alice)


@STREAMED
def test_an_unreachable_upstream_is_retried_or_replaced_by_another_route(api, alice, large, spare, is_streamed):
    change_provider(large, base_url=closed_port())
    assert ask(api, stream=is_streamed).status_code == 502
    assert_attempts(2)
    assert_released(alice)
    add(large, spare)
    spare.will(answering(is_streamed))
    answer = ask(api, stream=is_streamed)
    assert text_of_reply(answer) == "Hello you"
    assert_answered(answer, "spare", 2)


# --- Waiting before a retry -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("seconds", ["3", "30"])
def test_a_long_retry_after_is_passed_on_to_the_client(api, alice, large, upstream, status, seconds):
    upstream.will(refusal(status, retry_after=seconds), whole())
    answer = ask(api)
    assert (answer.status_code, answer["Retry-After"]) == (503, seconds)
    assert len(upstream.requests) == 1
    assert_attempts(1)
    assert_released(alice)


def test_another_route_is_tried_instead_of_a_long_wait(api, alice, both, upstream, spare):
    upstream.will(refusal(429, retry_after="30"))
    assert_answered(ask(api), "spare", 2)
    assert_charged(alice, "reported", **REPORTED)


@pytest.mark.parametrize("priority", [1, 3])
def test_of_several_failures_a_retryable_one_is_reported(api, alice, both, upstream, spare, priority):
    both.routes.filter(provider="scripted").update(priority=priority)
    upstream.will(refusal(401))
    spare.will(refusal(429, retry_after="30"))
    answer = ask(api)
    assert (answer.status_code, answer["Retry-After"]) == (503, "30")
    assert (len(upstream.requests), len(spare.requests)) == (1, 1)
    assert_released(alice)


# --- Invalid requests -------------------------------------------------------------------------------------------


@STREAMED
@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_invalid_request_is_attempted_once(api, alice, both, upstream, spare, status, is_streamed):
    upstream.will(refusal(status, "too many tokens"))
    answer = ask(api, stream=is_streamed)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request_error")
    assert "too many tokens" in answer.json()["error"]["message"]
    assert (len(upstream.requests), len(spare.requests)) == (1, 0)
    assert_attempts(1)
    assert_released(alice)


# --- Failures of a route -----------------------------------------------------------------------------------------

ELSEWHERE = {
    "401": refusal(401, "Incorrect API key"),
    "402": refusal(402, "pay us"),
    "403": refusal(403, "not for you"),
    "404": refusal(404, "no such model"),
    "302": reply(b"", status=302, location="http://127.0.0.1:1/"),
    "nonsense": reply(b"<html>Welcome</html>"),
    "an error": reply(b'{"error":{"message":"overloaded"}}'),
}


@STREAMED
@pytest.mark.parametrize("first", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_an_unusable_route_is_tried_once_and_another_route_replies(api, alice, both, upstream, spare, first, is_streamed):
    upstream.will(first)
    spare.will(answering(is_streamed))
    answer = ask(api, stream=is_streamed)
    assert text_of_reply(answer) == "Hello you"
    assert_answered(answer, "spare", 2)
    assert (len(upstream.requests), len(spare.requests)) == (1, 1)
    assert_charged(alice, "reported", **REPORTED)


@STREAMED
@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_errors_about_our_account_are_never_passed_on(api, alice, both, upstream, spare, status, is_streamed):
    for server in (upstream, spare):
        server.will(refusal(status, "your key is wrong"))
    answer = ask(api, stream=is_streamed)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert "your key" not in answer.content.decode()
    assert (len(upstream.requests), len(spare.requests)) == (1, 1)
    assert_attempts(2)
    assert_released(alice)


def test_a_stream_that_fails_before_its_first_word_moves_to_another_route(api, alice, both, upstream, spare):
    upstream.will(stream(ROLE + event({"error": {"message": "overloaded"}})))
    spare.will(streamed("from ", "the spare"))
    answer = ask_streamed(api)
    assert text(events(answer)) == "from the spare"
    assert_answered(answer, "spare", 2)
    assert_charged(alice, "reported", **REPORTED)


# --- After a byte -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [RESET, CLOSE, event({"error": {"message": "overloaded"}})], ids=["reset", "cut", "error"])
def test_no_further_attempt_after_the_client_received_a_byte(api, alice, both, upstream, spare, end):
    upstream.will(stream(ROLE, words("Hello "), 0.05, end))
    answer = ask_streamed(api)
    received = events(answer)
    assert text(received) == "Hello "
    assert received[-1]["error"]["code"] == "upstream_error"
    assert_answered(answer, "scripted", 1)
    assert (len(upstream.requests), len(spare.requests)) == (1, 0)
    assert_charged(alice, "partial", prompt=5, completion=2, nanos=5 * 3_000 + 2 * 15_000)


# --- Bounds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_a_request_has_a_maximum_of_attempts(api, alice, both, upstream, spare, settings, most):
    settings.UPSTREAM_ATTEMPTS_MAX = most
    add(both, closed_port(), "closed", priority=3)
    for server in (upstream, spare):
        server.will(refusal(500))
    assert ask(api).status_code == 502
    asked = len(upstream.requests), len(spare.requests)
    assert asked == {1: (1, 0), 2: (1, 1), 3: (1, 1), 4: (2, 1)}[most]  # the third route is the closed port
    assert_attempts(most)
    assert_released(alice)


def test_all_attempts_share_one_hold(api, alice, both, upstream, spare):
    gate = threading.Event()
    upstream.will(refusal(500))
    spare.will([gate, *whole()])
    held = []

    def look():
        alice.refresh_from_db()
        held.append((alice.held_nanos, alice.holds.count()))
        gate.set()

    once(lambda: spare.requests, look)
    assert_answered(ask(api, max_tokens=10), "spare", 2)
    [(held_nanos, holds)] = held
    assert holds == 1
    assert alice.holds.get().amount_nanos == held_nanos > 0
    assert_charged(alice, "reported", **REPORTED)


def test_all_attempts_share_one_deadline(api, alice, both, upstream, spare, settings):
    settings.UPSTREAM_TOTAL_SECONDS = 1
    upstream.will(refusal(500))
    spare.will([HANG])
    assert ask(api, max_tokens=10).status_code == 504
    assert spare.sees_disconnect()
    assert (len(upstream.requests), len(spare.requests)) == (1, 1)  # no time left to retry the first
    assert_attempts(2)
    assert_released(alice)


def test_an_attempt_that_uses_up_the_deadline_is_the_last(api, alice, both, upstream, spare, settings):
    settings.UPSTREAM_TOTAL_SECONDS = 0.3
    upstream.will([HANG])
    assert ask(api, max_tokens=10).status_code == 504
    assert spare.requests == []
    assert_attempts(1)
    assert_released(alice)
