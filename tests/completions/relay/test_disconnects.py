"""A client that leaves: its reply is read to its end and paid, unless the provider stops charging at a closed connection.

Disconnects before the reply are tested through the client's socket, those within a stream by closing the reply, as the server
does.
"""

import threading

import gevent
import pytest

from completions.charging.recovery import checkpoints
from completions.models import Completion, IdempotentRequest, LanguageModel, Provider
from completions.providers.openai.request import QUIRKS
from completions.relay import stream as relay_stream
from gateway_project.net import draining
from tests.completions.routes import (
    add,
    assert_answered,
    assert_attempts,
    change_provider,
    has_played,
    let_providers_cancel,
    once,
)
from tests.completions.rows import MESSAGES, ask_streamed, assert_charged, assert_released, disconnect, lost_nanos, parsed, text
from tests.completions.rows import begin as read_until
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.monotonic_clock import use_clock
from tests.upstream import CLOSE, DONE, FINISH, HANG, RESET, ROLE, at_once, refusal, stream, streamed, usage, whole, words

PROMPT = {"prompt": 5, "completion": 0, "nanos": 5 * 3_000}
UNSEEN = {"prompt": 5, "completion": 10, "nanos": 5 * 3_000 + 10 * 15_000}
PARTIAL = {"prompt": 5, "completion": 2, "nanos": 5 * 3_000 + 2 * 15_000}
REPORTED = {"prompt": 9, "completion": 2, "nanos": 57_000}
REST = (words("you"), FINISH, usage(), DONE)
ALL_NANOS = 9 * 3_000 + 30_002 * 15_000
REASONED = {
    "prompt_tokens": 9,
    "completion_tokens": 30_002,
    "total_tokens": 30_011,
    "completion_tokens_details": {"reasoning_tokens": 30_000},
}
LEAVING = pytest.mark.parametrize(
    "leaving",
    [lambda end: [end.close], lambda end: [lambda: end.sendall(b"P"), end.close]],
    ids=["left", "left after a further byte"],
)
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def cancels(large):
    let_providers_cancel()


@pytest.fixture
def reasons(large):
    large.reasoning, large.context_window, large.max_output_tokens = True, 128_000, 40_000
    large.save()


@pytest.fixture
def stopping(monkeypatch):
    monkeypatch.setattr(draining, "_has_ended", False)  # restores it after the test


def begun(api, upstream, *steps, headers=None, **fields):
    """Return a reply of which "Hello " was read; ``steps`` are still to come."""
    upstream.will(at_once(stream(ROLE, words("Hello "), *steps)))  # at once: a deadline may run from the first byte
    fields = {"model": "acme/large", "messages": MESSAGES, "stream": True, **fields}
    reply = api.post("/v1/chat/completions", fields, headers=headers or {})
    read_until(reply, "Hello ")
    return reply


# --- Within a stream ---------------------------------------------------------------------------------------------


@fault(
    "Client",
    "A client leaves a stream just before its end",
    "It pays the usage that the provider reports, with reasoning",
)
def test_a_stream_left_one_token_before_its_end_pays_its_reported_reasoning(api, alice, reasons, upstream):
    gate = threading.Event()
    reply = begun(api, upstream, gate, words("you"), FINISH, usage(REASONED), DONE, max_tokens=40_000)
    gevent.spawn(gate.set)  # after the disconnect
    disconnect(reply)
    assert not upstream.requests[0].disconnected.is_set()
    assert_charged(alice, "reported", prompt=9, completion=30_002, nanos=ALL_NANOS)


def test_without_usage_all_text_that_was_read_is_charged(api, alice, large, upstream):
    disconnect(begun(api, upstream, 0.05, words("x" * 400), FINISH, DONE))
    assert_charged(alice, "estimated", prompt=5, completion=102, nanos=5 * 3_000 + 102 * 15_000)


@pytest.mark.parametrize("end", [RESET, CLOSE])
def test_a_break_while_reading_to_the_end_is_charged_so_far(api, alice, large, upstream, end):
    disconnect(begun(api, upstream, 0.05, words("x" * 400), 0.05, end))
    assert_charged(alice, "partial", prompt=5, completion=102, nanos=5 * 3_000 + 102 * 15_000)


def test_reading_to_the_end_stops_at_the_providers_total_deadline(api, alice, large, upstream):
    change_provider(large, total_seconds=1)
    disconnect(begun(api, upstream, *[step for _ in range(100) for step in (0.1, words("abcd"))]))
    assert upstream.sees_disconnect()
    [done] = Completion.objects.all()
    assert (done.settlement, done.prompt_tokens) == ("partial", 5)
    assert 2 < done.completion_tokens < 50
    assert_ledger_is_consistent()


def test_reading_to_the_end_stops_at_the_idle_deadline(api, alice, large, upstream):
    change_provider(large, idle_seconds=1)
    disconnect(begun(api, upstream, HANG))
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **PARTIAL)


def test_reading_to_the_end_stops_when_the_worker_shuts_down(api, alice, large, upstream, stopping):
    reply = begun(api, upstream, HANG)
    gevent.spawn_later(0.1, draining.end)
    disconnect(reply)
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **PARTIAL)


def test_disconnected_streams_hold_their_money_until_their_ends(api, alice, large, upstream):
    gate, disconnected = threading.Event(), []
    for _ in range(3):
        reply = begun(api, upstream, gate, *REST, max_tokens=10)
        disconnected.append(gevent.spawn(disconnect, reply))
    assert alice.holds.filter(state="HELD").count() == 3  # so they count as in flight
    gate.set()
    gevent.joinall(disconnected, raise_error=True)
    assert set(Completion.objects.values_list("settlement", flat=True)) == {"reported"}


def test_a_disconnected_stream_with_an_idempotency_key_is_replayed(api, alice, large, upstream):
    disconnect(begun(api, upstream, 0.02, *REST, headers={"Idempotency-Key": "once"}))
    fields = {"model": "acme/large", "messages": MESSAGES, "stream": True}
    again = api.post("/v1/chat/completions", fields, headers={"Idempotency-Key": "once"})
    assert again["Idempotent-Replayed"] == "true"
    assert text(parsed(again.content)) == "Hello you"
    assert len(upstream.requests) == 1
    assert_charged(alice, "reported", **REPORTED)


def test_a_client_that_stays_gets_its_whole_reply(api, alice, large, upstream):
    upstream.will(stream(ROLE, words("Hello "), *REST))
    answer = ask_streamed(api)
    assert text(parsed(b"".join(answer.streaming_content))) == "Hello you"
    assert_answered(answer, "scripted", 1)
    assert_charged(alice, "reported", **REPORTED)


# --- A client that does not read ---------------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_treated_as_disconnected(api, alice, large, upstream, monkeypatch):
    monkeypatch.setattr(relay_stream, "_UNREAD_SECONDS_MAX", 0.2)
    gate = threading.Event()
    reply = begun(api, upstream, gate, *REST)
    with pytest.raises(BrokenPipeError):
        gevent.sleep(60)  # the server waits to write
    gate.set()
    disconnect(reply)
    assert_charged(alice, "reported", **REPORTED)


def test_a_client_that_reads_too_slowly_is_treated_as_disconnected_while_the_rest_can_be_read(
    api, alice, large, upstream, monkeypatch
):
    clock = use_clock(monkeypatch, relay_stream)
    gate = threading.Event()
    change_provider(large, total_seconds=200)
    reply = begun(api, upstream, 0.02, words("you"), gate, *REST[1:])
    for _ in range(4):
        clock.move_on(25)
    next(iter(reply.streaming_content))
    with pytest.raises(BrokenPipeError):
        gevent.sleep(5)  # less than one write may take
    gate.set()
    disconnect(reply)
    assert_charged(alice, "reported", **REPORTED)


# --- A provider that cancels -------------------------------------------------------------------------------------


def test_a_cancelling_provider_is_closed_at_once_and_charged_by_estimate(api, alice, cancels, upstream):
    disconnect(begun(api, upstream, HANG))
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **PARTIAL)


def ways_to_reason():
    yield "the model reasons", {"reasoning": True}, {}
    yield "the model may reason", {"reasoning": None}, {}
    yield "the request asks for it", {}, {"reasoning_effort": "high"}
    yield "the request asks for it in another provider's words", {}, {"thinking": {"type": "enabled"}}


@pytest.mark.parametrize(("model", "fields"), [way[1:] for way in ways_to_reason()], ids=[way[0] for way in ways_to_reason()])
def test_reasoning_is_never_cancelled(api, alice, cancels, upstream, model, fields):
    LanguageModel.objects.update(**model)
    disconnect(begun(api, upstream, 0.02, *REST, **fields))
    assert_charged(alice, "reported", **REPORTED)


def test_a_reply_that_the_client_may_ask_for_again_is_not_cancelled(api, alice, cancels, upstream):
    disconnect(begun(api, upstream, 0.02, *REST, headers={"Idempotency-Key": "once"}))
    assert IdempotentRequest.objects.get().sealed_reply
    assert_charged(alice, "reported", **REPORTED)


# --- Before the reply --------------------------------------------------------------------------------------------


@pytest.fixture
def ends():
    """Return the two sockets of a connection: the server's and the client's."""
    both = gevent.socket.socketpair()
    yield both
    for end in both:
        end.close()


def ask_from(api, end, is_streamed=False, max_tokens=None, **headers):
    fields = {"model": "acme/large", "messages": MESSAGES, "stream": is_streamed, "max_tokens": max_tokens}
    return api.post("/v1/chat/completions", fields, **{"gunicorn.socket": end}, **headers)


def answering(is_streamed):
    return streamed() if is_streamed else whole()


def finish(reply, is_streamed):
    """Consume a reply as the server does: it cannot write to a client that has left."""
    if is_streamed:
        disconnect(reply)


@pytest.fixture
def spare_route(large, spare):
    add(large, spare)


def leave_soon(end):
    """Leave when the request has run for a moment."""
    while not checkpoints._running:
        gevent.sleep(0.001)
    gevent.sleep(0.2)
    end.close()


@STREAMED
def test_echo_notices_a_disconnect_while_it_delays_and_is_charged_for_what_it_had_said(
    api, alice, echo_model, ends, is_streamed
):
    let_providers_cancel()
    delayed = {"reply": "one " * 1_000, "delay_seconds": 0.01}
    fields = {"model": "demo/echo", "messages": MESSAGES, "stream": is_streamed, "echo": delayed, "max_tokens": 1_000}
    gevent.spawn(leave_soon, ends[1])
    reply = api.post("/v1/chat/completions", fields, **{"gunicorn.socket": ends[0]})
    assert reply.status_code == (200 if is_streamed else 408)
    assert is_streamed == (reply.getvalue().count(b"one ") > 0)
    row = Completion.objects.get()
    assert (row.settlement, 0 < row.completion_tokens < 500) == ("partial", True)
    assert_ledger_is_consistent()


@STREAMED
def test_a_client_that_left_before_anything_was_sent_pays_nothing(api, alice, large, upstream, ends, is_streamed):
    ends[1].close()
    assert ask_from(api, ends[0], is_streamed).status_code == 408
    assert upstream.requests == []
    assert_released(alice)


@STREAMED
def test_a_request_left_before_its_first_byte_pays_the_reported_usage(api, alice, large, upstream, ends, is_streamed):
    gate = threading.Event()
    upstream.will([gate, *answering(is_streamed)])
    once(has_played(upstream, 0), ends[1].close, gate.set)
    finish(ask_from(api, ends[0], is_streamed), is_streamed)
    assert not upstream.requests[0].disconnected.is_set()
    assert_charged(alice, "reported", **REPORTED)


def test_a_whole_reply_left_midway_pays_the_reported_usage(api, alice, large, upstream, ends):
    gate, [reply] = threading.Event(), whole(usage=REASONED)
    large.max_output_tokens = 40_000
    large.save()
    upstream.will([reply[:-40], gate, reply[-40:]])
    once(has_played(upstream, 1), ends[1].close, gate.set)
    assert ask_from(api, ends[0]).status_code == 200
    assert_charged(alice, "reported", prompt=9, completion=30_002, nanos=ALL_NANOS)


@STREAMED
@pytest.mark.usefixtures("spare_route")
@pytest.mark.parametrize("headers", [{}, {"HTTP_IDEMPOTENCY_KEY": "once"}], ids=["plain", "with an Idempotency-Key"])
@LEAVING
def test_no_attempt_begins_after_the_client_has_disconnected(api, alice, upstream, spare, ends, is_streamed, headers, leaving):
    gate = threading.Event()
    upstream.will([gate, *refusal(500)])
    once(has_played(upstream, 0), *leaving(ends[1]), gate.set)
    assert ask_from(api, ends[0], is_streamed, **headers).status_code == 408
    assert (len(upstream.requests), spare.requests) == (1, [])
    assert_attempts(1)
    assert not IdempotentRequest.objects.exists()  # so it may run again
    assert_released(alice)


@STREAMED
def test_a_disconnect_between_two_attempts_ends_the_retry(api, alice, large, upstream, ends, is_streamed):
    upstream.will(refusal(429, retry_after="2"), answering(is_streamed))
    once(has_played(upstream, 1), ends[1].close)
    assert ask_from(api, ends[0], is_streamed).status_code == 408
    assert len(upstream.requests) == 1
    assert_attempts(1)
    assert_released(alice)


@STREAMED
def test_a_disconnected_request_waits_beyond_the_first_byte_deadline(api, alice, large, upstream, ends, is_streamed):
    gate = threading.Event()
    change_provider(large, first_byte_seconds=1)
    upstream.will([gate, *answering(is_streamed)])
    once(has_played(upstream, 0), ends[1].close, lambda: gevent.sleep(1.5), gate.set)
    finish(ask_from(api, ends[0], is_streamed), is_streamed)
    assert_charged(alice, "reported", **REPORTED)


@pytest.mark.usefixtures("spare_route")
def test_no_other_route_is_asked_for_a_whole_reply_whose_client_has_disconnected(api, alice, upstream, spare, ends, settings):
    settings.UPSTREAM_WHOLE_SECONDS = 0.3
    gate = threading.Event()
    upstream.will([gate, *whole()])
    once(has_played(upstream, 0), ends[1].close, lambda: gevent.sleep(1.5), gate.set)
    ask_from(api, ends[0])
    assert spare.requests == []
    assert_charged(alice, "reported", **REPORTED)


@STREAMED
@pytest.mark.usefixtures("spare_route")
def test_a_disconnected_request_that_is_never_answered_costs_nothing_and_is_unpaid_work(
    api, alice, upstream, spare, ends, is_streamed
):
    """Of a whole reply nobody has seen what was generated. Of a stream everybody has: nothing."""
    lost_before_nanos = lost_nanos()
    Provider.objects.update(first_byte_seconds=1, total_seconds=2)
    upstream.will([HANG])
    once(has_played(upstream, 0), ends[1].close)
    assert ask_from(api, ends[0], is_streamed, max_tokens=10).status_code == 504
    assert spare.requests == []
    assert_released(alice)
    assert lost_nanos() - lost_before_nanos == (PROMPT if is_streamed else UNSEEN)["nanos"]
    assert alice.unpaid_until is not None


def test_what_a_disconnected_stream_may_have_reasoned_is_unpaid_work(api, alice, reasons, upstream, ends):
    lost_before_nanos = lost_nanos()
    Provider.objects.update(first_byte_seconds=1, total_seconds=2)
    upstream.will([HANG])
    once(has_played(upstream, 0), ends[1].close)
    assert ask_from(api, ends[0], is_streamed=True, max_tokens=10).status_code == 504
    assert_released(alice)
    assert lost_nanos() - lost_before_nanos == UNSEEN["nanos"]
    assert alice.unpaid_until is not None


@STREAMED
def test_a_disconnected_request_whose_provider_fails_before_its_first_byte_pays_nothing(
    api, alice, large, upstream, ends, is_streamed
):
    gate = threading.Event()
    upstream.will([gate, RESET])
    once(has_played(upstream, 0), ends[1].close, gate.set)
    assert ask_from(api, ends[0], is_streamed).status_code == 408
    assert_released(alice)


@STREAMED
@pytest.mark.parametrize("head", [[], [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"]], ids=["before", "after"])
@LEAVING
def test_a_cancelling_provider_is_closed_before_the_first_word(api, alice, cancels, upstream, ends, is_streamed, head, leaving):
    upstream.will([*head, HANG])
    once(has_played(upstream, len(head)), *leaving(ends[1]))
    assert ask_from(api, ends[0], is_streamed).status_code == 408
    assert upstream.sees_disconnect()
    assert_attempts(1)
    assert_charged(alice, "partial", **PROMPT)


@STREAMED
def test_a_disconnected_request_that_was_not_answered_costs_nothing_when_the_worker_shuts_down(
    api, alice, large, upstream, ends, is_streamed, stopping
):
    upstream.will([HANG])
    once(has_played(upstream, 0), ends[1].close, draining.end)
    assert ask_from(api, ends[0], is_streamed).status_code == 503
    assert upstream.sees_disconnect()
    assert_released(alice)
    assert alice.unpaid_until is None  # the request did not take long


@STREAMED
def test_a_request_whose_client_waits_is_free_when_the_worker_shuts_down(
    api, alice, large, upstream, ends, is_streamed, stopping
):
    upstream.will([HANG])
    once(has_played(upstream, 0), draining.end)
    assert ask_from(api, ends[0], is_streamed).status_code == 503
    assert_released(alice)


@STREAMED
def test_a_client_that_sends_more_bytes_has_not_left(api, alice, large, upstream, ends, is_streamed):
    gate = threading.Event()
    upstream.will([gate, *answering(is_streamed)])
    once(has_played(upstream, 0), lambda: ends[1].sendall(b"POST / HTTP/1.1\r\n"), gate.set)
    reply = ask_from(api, ends[0], is_streamed)
    body = text(parsed(b"".join(reply.streaming_content))) if is_streamed else reply.json()["choices"][0]["message"]["content"]
    assert body == "Hello you"
    assert ends[0].recv(100) == b"POST / HTTP/1.1\r\n"  # the check has read none of it
    assert_charged(alice, "reported", **REPORTED)


@STREAMED
def test_a_disconnected_request_with_an_idempotency_key_replays(api, alice, large, upstream, ends, is_streamed):
    gate = threading.Event()
    upstream.will([gate, *answering(is_streamed)])
    once(has_played(upstream, 0), ends[1].close, gate.set)
    finish(ask_from(api, ends[0], is_streamed, HTTP_IDEMPOTENCY_KEY="once"), is_streamed)
    again = ask_from(api, None, is_streamed, HTTP_IDEMPOTENCY_KEY="once")
    assert (again.status_code, again["Idempotent-Replayed"], len(upstream.requests)) == (200, "true", 1)
    assert_charged(alice, "reported", **REPORTED)


# --- Where no report comes ---------------------------------------------------------------------------------------


def test_reasoning_cut_off_at_a_deadline_is_unpaid_work(api, alice, reasons, upstream, settings):
    """The caller pays the text that arrived."""
    settings.UPSTREAM_IDLE_SECONDS = 0.2
    lost_before_nanos = lost_nanos()
    disconnect(begun(api, upstream, HANG, max_tokens=1_000))
    assert_charged(alice, "partial", **PARTIAL)
    assert lost_nanos() - lost_before_nanos == (1_000 - 2) * 15_000
    assert alice.unpaid_until is not None


def test_reasoning_that_was_reported_before_a_deadline_is_no_loss(api, alice, reasons, upstream, settings):
    settings.UPSTREAM_IDLE_SECONDS = 0.2
    lost_before_nanos = lost_nanos()
    report = {"prompt_tokens": 5, "completion_tokens": 40, "completion_tokens_details": {"reasoning_tokens": 38}}
    disconnect(begun(api, upstream, usage(report), HANG, max_tokens=1_000))
    assert_charged(alice, "partial", prompt=5, completion=40, nanos=5 * 3_000 + 40 * 15_000)
    assert lost_nanos() == lost_before_nanos
    assert alice.unpaid_until is None


SWITCHES = [
    {"reasoning_effort": "none"},
    {"include_reasoning": False},
    {"thinking": {"type": "disabled", "budget_tokens": 0}},
    {"reasoning": {"enabled": False, "effort": "none"}},
]


@pytest.mark.parametrize("switch", SWITCHES, ids=str)
def test_a_switch_that_a_provider_may_ignore_does_not_hide_reasoning(api, alice, reasons, upstream, settings, switch):
    settings.UPSTREAM_IDLE_SECONDS = 0.2
    lost_before_nanos = lost_nanos()
    disconnect(begun(api, upstream, HANG, max_tokens=1_000, **switch))
    assert_charged(alice, "partial", **PARTIAL)
    assert lost_nanos() - lost_before_nanos == (1_000 - 2) * 15_000


@pytest.mark.parametrize(
    ("host", "switch"), [("api.openai.com", {"reasoning_effort": "none"}), ("api.z.ai", {"thinking": {"type": "disabled"}})]
)
def test_reasoning_is_not_assumed_where_the_provider_is_told_not_to_reason(
    api, alice, reasons, upstream, settings, monkeypatch, host, switch
):
    monkeypatch.setitem(QUIRKS, "127.0.0.1", QUIRKS[host])
    settings.UPSTREAM_IDLE_SECONDS = 0.2
    lost_before_nanos = lost_nanos()
    disconnect(begun(api, upstream, HANG, max_tokens=1_000, **switch))
    assert_charged(alice, "partial", **PARTIAL)
    assert lost_nanos() == lost_before_nanos


@pytest.mark.parametrize("switch", SWITCHES, ids=str)
def test_a_model_that_reasons_when_asked_loses_nothing_where_it_was_not(api, alice, large, upstream, settings, switch):
    settings.UPSTREAM_IDLE_SECONDS = 0.2
    lost_before_nanos = lost_nanos()
    disconnect(begun(api, upstream, HANG, max_tokens=1_000, **switch))
    assert_charged(alice, "partial", **PARTIAL)
    assert lost_nanos() == lost_before_nanos


@pytest.mark.parametrize("asked", [{"chat_template_kwargs": {"date": "x"}}, {"reasoning_effort": "high"}], ids=str)
def test_a_model_that_cannot_reason_is_not_charged_for_it_at_a_deadline(api, alice, large, upstream, settings, asked):
    LanguageModel.objects.update(reasoning=False)
    settings.UPSTREAM_IDLE_SECONDS = 0.2
    disconnect(begun(api, upstream, HANG, max_tokens=1_000, **asked))
    assert_charged(alice, "partial", **PARTIAL)


def test_reasoning_is_not_assumed_where_the_provider_broke_off(api, alice, reasons, upstream):
    disconnect(begun(api, upstream, 0.02, RESET, max_tokens=1_000))
    assert_charged(alice, "partial", **PARTIAL)


def test_reasoning_is_not_assumed_where_the_gateway_stopped(api, alice, reasons, upstream, stopping):
    reply = begun(api, upstream, HANG, max_tokens=1_000)
    gevent.spawn_later(0.1, draining.end)
    disconnect(reply)
    assert_charged(alice, "partial", **PARTIAL)


def test_a_reply_that_logprobs_make_too_large_is_charged_as_the_text_that_it_may_be(api, alice, large, upstream, settings):
    settings.UPSTREAM_REPLY_BYTES_MAX = 1_000
    upstream.will(whole("x" * 2_000))
    fields = {"model": "acme/large", "messages": MESSAGES, "max_tokens": 200, "logprobs": True}
    assert api.post("/v1/chat/completions", fields).status_code == 502
    assert_charged(alice, "partial", prompt=5, completion=200, nanos=5 * 3_000 + 200 * 15_000)
