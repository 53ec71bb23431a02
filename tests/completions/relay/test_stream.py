"""Replies and their charges: every way in which a completion ends is charged once, by the table in ``relay.charge``."""

import gc
import logging
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from django.db import connection, transaction

from billing import locks
from billing.models import LedgerEntry
from completions.inbound.chat_completions.views import ChatCompletionsView
from completions.models import Completion
from completions.relay import charge
from gateway_project import metrics
from tests import factories, waiting
from tests.completions.routes import let_providers_cancel
from tests.completions.rows import (
    PROMPT_ESTIMATE,
    ask,
    ask_streamed,
    assert_charged,
    assert_released,
    begin,
    disconnect,
    events,
    parsed,
    text,
)
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import (
    CLOSE,
    DONE,
    FINISH,
    HANG,
    RESET,
    ROLE,
    USAGE,
    at_once,
    chunk,
    event,
    refusal,
    reply,
    stream,
    streamed,
    usage,
    whole,
    words,
)

pytestmark = pytest.mark.usefixtures("large")

REPORTED = {"prompt": 9, "completion": 2, "nanos": 9 * 3_000 + 2 * 15_000}


# --- Whole -------------------------------------------------------------------------------------------------------


def test_a_whole_reply_has_our_id_time_model_and_usage(api, alice):
    answer = ask(api)
    body = answer.json()
    [completion] = alice.completions.all()
    assert answer.status_code == 200
    assert body == {
        "id": completion.pk,
        "object": "chat.completion",
        "created": pytest.approx(completion.created_at.timestamp(), abs=2),
        "model": "acme/large",
        "provider": "scripted",
        "system_fingerprint": None,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello you"}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
            "cost": 0.000057,
        },
    }
    assert answer["Cache-Control"] == "no-store"
    assert_charged(alice, "reported", **REPORTED)


def test_two_replies_have_two_ids_and_two_entries(api, alice):
    assert ask(api).json()["id"] != ask(api).json()["id"]
    debits = LedgerEntry.objects.filter(account=alice, type="USAGE_DEBIT").order_by("seq")
    assert [entry.amount_nanos for entry in debits] == [-57_000, -57_000]
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (10_000_000_000 - 2 * 57_000, 0)
    assert_ledger_is_consistent()


# --- Streamed ----------------------------------------------------------------------------------------------------


def test_a_stream_begins_with_the_role_and_ends_with_done(api, alice, upstream):
    upstream.will(streamed())
    answer = ask_streamed(api)
    raw = b"".join(answer.streaming_content)
    received = parsed(raw)
    [completion] = alice.completions.all()
    assert raw.endswith(b"\n\ndata: [DONE]\n\n")
    assert [event for event in received if event == "[DONE]"] == ["[DONE]"]
    *chunks, _ = received
    assert {event["id"] for event in chunks} == {completion.pk}
    [created] = {event["created"] for event in chunks}
    assert created == pytest.approx(completion.created_at.timestamp(), abs=2)
    assert {event["model"] for event in chunks} == {"acme/large"}
    assert {event["object"] for event in chunks} == {"chat.completion.chunk"}
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [event["choices"][0]["finish_reason"] for event in chunks] == [None, None, None, "stop"]
    assert not any("usage" in event for event in chunks)
    assert text(received) == "Hello you"
    assert answer["Cache-Control"] == "no-cache"
    assert answer["X-Accel-Buffering"] == "no"
    assert_charged(alice, "reported", **REPORTED)


def test_requested_usage_is_in_the_last_chunk(api, alice, upstream):
    upstream.will(streamed())
    *chunks, last, done = events(ask_streamed(api, stream_options={"include_usage": True}))
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 11
    assert [event["usage"] for event in chunks] == [None] * 4
    assert_charged(alice, "reported", **REPORTED)


def test_events_are_passed_on_as_they_arrive(api, upstream):
    let_providers_cancel()
    upstream.will(stream(ROLE, words("a"), HANG))
    answer = ask_streamed(api)
    first = next(iter(answer.streaming_content))  # while the upstream is silent: the gateway does not wait for more
    assert parsed(first)[0]["choices"][0]["delta"]["role"] == "assistant"
    disconnect(answer)


def test_heartbeats_cover_a_silent_upstream_after_the_first_event(api, alice, upstream, settings):
    settings.STREAM_HEARTBEAT_SECONDS = 0.05
    gate = threading.Event()
    upstream.will(stream(0.15, ROLE, gate, words("Hello you"), FINISH, usage(), DONE))
    body = iter(ask_streamed(api).streaming_content)
    raw = next(body)
    assert raw.startswith(b"data: ")
    while raw.count(b": keep-alive\n\n") < 2:
        raw += next(body)
    gate.set()
    assert text(parsed(raw + b"".join(body))) == "Hello you"
    assert_charged(alice, "reported", **REPORTED)


# --- Impossible usage --------------------------------------------------------------------------------------------

IMPOSSIBLE = {
    "none": None,
    "negative": {**USAGE, "prompt_tokens": -9},
    "negative completion": {**USAGE, "completion_tokens": -7},
    "a million millions": {**USAGE, "completion_tokens": 10**12},
    "text": {**USAGE, "prompt_tokens": "nine"},
    "a fraction": {**USAGE, "prompt_tokens": 9.5},
    "true": {**USAGE, "completion_tokens": True},
    "null": {"prompt_tokens": 9, "completion_tokens": None},
    "a total alone": {"total_tokens": 11},
    "a total that is not divided": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 11},
    "a list": [9, 2],
    "empty": {},
    "zero": 0,
}
ESTIMATED = {"prompt": PROMPT_ESTIMATE, "completion": 3, "nanos": PROMPT_ESTIMATE * 3_000 + 3 * 15_000}  # 9 bytes of reply


@pytest.mark.parametrize("given", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_impossible_usage_is_replaced_by_an_estimate(api, alice, upstream, given):
    upstream.will(whole(usage=given))
    assert ask(api).json()["usage"]["total_tokens"] == PROMPT_ESTIMATE + 3
    assert_charged(alice, "estimated", **ESTIMATED)


@pytest.mark.parametrize("given", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_impossible_usage_of_a_stream_is_replaced_by_an_estimate(api, alice, upstream, given):
    upstream.will(stream(ROLE, words("Hello ", "you"), FINISH, usage(given), DONE))
    *_, reported, done = events(ask_streamed(api, stream_options={"include_usage": True}))
    assert (reported["usage"]["total_tokens"], done) == (PROMPT_ESTIMATE + 3, "[DONE]")
    assert_charged(alice, "estimated", **ESTIMATED)


def test_an_estimate_is_at_most_max_tokens(api, alice, upstream):
    upstream.will(whole("x" * 400, usage=None))
    ask(api, max_tokens=7)
    assert_charged(alice, "estimated", prompt=5, completion=7, nanos=5 * 3_000 + 7 * 15_000)


ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize("script", [whole(usage=ZEROS), stream(ROLE, words("a"), FINISH, usage(ZEROS), DONE)])
def test_reported_usage_of_zero_is_charged_as_reported(api, alice, upstream, script):
    upstream.will(script)
    answer = ask(api, stream=script != whole(usage=ZEROS))
    if answer.streaming:
        events(answer)
    assert_charged(alice, "reported", prompt=0, completion=0, nanos=0)


@pytest.mark.parametrize("generated", [0, 1])
def test_usage_from_before_the_last_text_is_not_all_of_it(api, alice, upstream, generated):
    begun = {"prompt_tokens": 9, "completion_tokens": generated, "total_tokens": 9 + generated}
    upstream.will(stream(ROLE, usage(begun), words("Hello ", "you"), FINISH, DONE))
    events(ask_streamed(api))
    assert_charged(alice, "estimated", prompt=9, completion=3, nanos=9 * 3_000 + 3 * 15_000)


def test_usage_above_the_hold_charges_the_hold_and_counts_a_loss(api, alice, upstream):
    lost_before_nanos = metrics.operator_loss_nanos._value.get()
    upstream.will(whole(usage={**USAGE, "prompt_tokens": 90_000}))
    assert ask(api, max_tokens=10).status_code == 200
    held_nanos = alice.holds.get().amount_nanos
    assert held_nanos < 1_000_000
    assert_charged(alice, "reported", prompt=90_000, completion=2, nanos=held_nanos)
    assert metrics.operator_loss_nanos._value.get() - lost_before_nanos == 90_000 * 3_000 + 2 * 15_000 - held_nanos


@pytest.mark.parametrize(
    ("cached", "counted", "nanos"),
    [
        (4, 4, 5 * 3_000 + 4 * 300 + 30_000),
        (9, 9, 9 * 300 + 30_000),
        (400, 9, 9 * 300 + 30_000),
        (-4, 0, 57_000),
        ("4", 4, 57_000 - 4 * 2_700),
        ("four", 0, 57_000),
    ],
)
def test_cached_tokens_have_their_own_price_within_the_prompt(api, alice, upstream, cached, counted, nanos):
    upstream.will(whole(usage={**USAGE, "prompt_tokens_details": {"cached_tokens": cached}}))
    reported = ask(api).json()["usage"]["prompt_tokens_details"]
    assert reported == {"cached_tokens": counted, "cache_write_tokens": 0}
    assert_charged(alice, "reported", prompt=9, completion=2, cached=counted, nanos=nanos)


def test_reasoning_tokens_are_reported_and_not_charged_twice(api, alice, upstream):
    upstream.will(whole(usage={**USAGE, "completion_tokens_details": {"reasoning_tokens": 2}}))
    assert ask(api).json()["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert_charged(alice, "reported", **REPORTED)


def test_the_last_possible_usage_is_charged(api, alice, upstream):
    sofar = {"prompt_tokens": 9, "completion_tokens": 1}
    upstream.will(stream(ROLE, chunk({"content": "Hello "}, usage=sofar), words("you"), FINISH, usage(), usage({"x": 1}), DONE))
    assert text(events(ask_streamed(api))) == "Hello you"
    assert_charged(alice, "reported", **REPORTED)


def test_a_price_change_does_not_affect_a_running_completion(api, alice, upstream, large):
    upstream.will(streamed())
    answer = ask_streamed(api)
    factories.make_price(large, input="0.01", output="0.01")
    events(answer)
    assert_charged(alice, "reported", **REPORTED)


# --- Broken streams ----------------------------------------------------------------------------------------------

BREAKS = {
    "an error event": (event({"error": {"message": "secret reasons", "code": 500}}),),
    "an error as text": (event({"error": "secret reasons"}),),
    "reset": (RESET,),
    "cut": (CLOSE,),
    "ended without a finish reason": (),
    "not JSON": (b"data: <html>secret reasons\n\n",),
    "not UTF-8": (chunk({"content": "x"}).replace(b'"x"', b'"\xff"'),),
    "not choices": (event({"choices": ["secret reasons"]}),),
    "too deep": (b"data: " + b"[" * 100_000 + b"\n\n",),
    "an event without end": (b"data: " + b"x" * 20_000,),
    "silence": (HANG,),
}
PARTIAL = {"prompt": PROMPT_ESTIMATE, "completion": 2, "nanos": PROMPT_ESTIMATE * 3_000 + 2 * 15_000}  # "Hello "


@pytest.mark.parametrize("pause", [(0.05,), ()], ids=["later", "in the same read"])
@pytest.mark.parametrize("steps", BREAKS.values(), ids=BREAKS.keys())
def test_a_stream_that_breaks_ends_in_one_error_event_and_is_charged_so_far(api, alice, upstream, settings, steps, pause):
    settings.UPSTREAM_EVENT_BYTES_MAX = 10_000
    if HANG in steps:
        settings.UPSTREAM_IDLE_SECONDS, pause = 0.1, ()
    upstream.will(at_once(stream(ROLE + words("Hello "), *pause, *steps)))
    received = events(ask_streamed(api))
    assert "[DONE]" not in received
    assert text(received) == "Hello "
    assert [event for event in received if "error" in event] == received[-1:]
    last = received[-1]
    assert last["error"]["code"] == "upstream_error"
    assert set(last["error"]) == {"message", "type", "code", "param"}
    assert "secret" not in last["error"]["message"]
    assert list(last) == ["error"]
    assert_charged(alice, "partial", **PARTIAL)


def test_an_error_right_after_the_role_is_an_error_status(api, alice, upstream):
    upstream.will(stream(ROLE + event({"error": {"message": "overloaded"}})))
    assert ask_streamed(api).status_code == 502
    assert_released(alice)


def test_a_broken_stream_is_charged_at_least_its_reported_usage(api, alice, upstream):
    upstream.will(stream(ROLE, words("Hello "), usage(), 0.05, RESET))
    assert "error" in events(ask_streamed(api))[-1]
    assert_charged(alice, "partial", **REPORTED)


def test_text_after_the_last_reported_usage_is_charged(api, alice, upstream):
    early = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}
    upstream.will(stream(ROLE, usage(early), words("x" * 4_000), 0.05, RESET))
    assert "error" in events(ask_streamed(api))[-1]
    done = Completion.objects.get(account=alice)
    assert (done.settlement, done.prompt_tokens) == ("partial", 1)
    assert done.completion_tokens == 1_000  # of four bytes each


@pytest.mark.parametrize("end", [RESET, CLOSE])
def test_a_break_before_the_first_chunk_is_an_error_status_and_costs_nothing(api, alice, upstream, end):
    upstream.will(stream(b": one moment\n\n", 0.05, end))
    answer = ask_streamed(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert_released(alice)


def test_silence_before_the_first_chunk_is_a_timeout_and_costs_nothing(api, alice, upstream, settings):
    settings.STREAM_HEARTBEAT_SECONDS, settings.UPSTREAM_IDLE_SECONDS = 0.05, 0.15
    upstream.will(stream(HANG))
    answer = ask_streamed(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_error")
    assert upstream.sees_disconnect()
    assert_released(alice)


def test_a_slow_stream_is_relayed_until_the_total_deadline(api, alice, upstream, settings, clock):
    settings.UPSTREAM_TOTAL_SECONDS = 300
    upstream.will(stream(ROLE, *[step for _ in range(10_000) for step in (words("x"), 0.02)]))
    raw, body = begin(ask_streamed(api), "xx")
    clock.move_on(300)
    received = parsed(raw + b"".join(body))
    assert "error" in received[-1]
    relayed = len(text(received))
    assert upstream.sees_disconnect()
    tokens = -(-relayed // 4)
    assert_charged(alice, "partial", prompt=5, completion=tokens, nanos=5 * 3_000 + tokens * 15_000)


def test_the_text_of_an_error_is_not_charged(api, alice, upstream):
    upstream.will(stream(ROLE, words("Hello "), event({"error": {"message": "x" * 4_000}})))
    events(ask_streamed(api))
    assert_charged(alice, "partial", **PARTIAL)


# --- Disconnects -------------------------------------------------------------------------------------------------


def test_a_disconnect_within_a_stream_frees_the_upstream_and_is_charged_so_far(api, alice, upstream):
    let_providers_cancel()
    upstream.will(stream(ROLE, 0.05, words("Hello "), HANG))
    answer = ask_streamed(api)
    begin(answer, "Hello ")
    disconnect(answer)
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **PARTIAL)


def test_a_disconnect_before_the_first_read_is_charged_for_the_prompt(api, alice, upstream):
    let_providers_cancel()
    upstream.will(stream(ROLE, HANG))
    disconnect(ask_streamed(api))
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", prompt=PROMPT_ESTIMATE, completion=0, nanos=PROMPT_ESTIMATE * 3_000)


def test_a_disconnect_after_the_usage_is_charged_as_reported(api, alice, upstream):
    let_providers_cancel()
    upstream.will(stream(ROLE, 0.05, words("Hello ") + FINISH + usage(), HANG))
    answer = ask_streamed(api)
    begin(answer, "Hello ")
    disconnect(answer)
    assert_charged(alice, "reported", **REPORTED)


def test_a_disconnect_at_a_heartbeat_is_charged_so_far(api, alice, upstream, settings):
    let_providers_cancel()
    settings.STREAM_HEARTBEAT_SECONDS = 0.1
    upstream.will(stream(ROLE, HANG))
    answer = ask_streamed(api)
    body = iter(answer.streaming_content)
    next(body)
    assert next(body) == b": keep-alive\n\n"
    disconnect(answer)
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", prompt=PROMPT_ESTIMATE, completion=0, nanos=PROMPT_ESTIMATE * 3_000)


def test_closing_a_finished_stream_changes_nothing(api, alice, upstream):
    upstream.will(streamed())
    answer = ask_streamed(api)
    events(answer)
    disconnect(answer)
    disconnect(answer)
    assert_charged(alice, "reported", **REPORTED)


# --- The log -----------------------------------------------------------------------------------------------------


def test_the_log_names_the_completion_and_never_its_content(api, alice, upstream, caplog):
    caplog.set_level(logging.DEBUG)
    upstream.will(whole("a private reply"), reply(b"a private page"), streamed("a private ", "stream"))
    completion_id = ask(api, messages=[{"role": "user", "content": "a private question"}]).json()["id"]
    ask(api)
    events(ask_streamed(api))
    [whole_line] = [line for line in caplog.records if getattr(line, "completion", None) == completion_id]
    assert (whole_line.name, whole_line.cost) == ("gateway.request", "0.000057")
    streamed_id = Completion.objects.latest("id").pk
    assert {"gateway.request", "gateway.settlement"} == {line.name for line in caplog.records if names(line, streamed_id)}
    logged = caplog.text + "".join(str(vars(line)) for line in caplog.records)
    assert "private" not in logged
    assert "mgw_live_" not in logged


def names(line, completion_id):
    return getattr(line, "completion", None) == completion_id


def test_a_refused_stream_is_an_error_status(api, bob, upstream):
    """A refusal has the same JSON, status and headers as without ``stream``: clients read a status 200 as success."""
    from tests import factories
    from tests.conftest import client_for

    poor = client_for(factories.make_key(bob)[1])
    answers = [ask(poor, stream=stream) for stream in (False, True)]
    assert [answer.status_code for answer in answers] == [402, 402]
    assert [answer.json()["error"]["code"] for answer in answers] == ["insufficient_quota"] * 2
    assert answers[1]["x-should-retry"] == "false"
    assert upstream.requests == []
    assert not bob.holds.exists()


def test_a_released_hold_frees_its_tokens_per_minute(alice, upstream):
    from tests import factories
    from tests.conftest import client_for

    key, secret = factories.make_key(alice, tokens_per_minute=1_000)
    upstream.will(*[refusal(500)] * 2, whole())  # the first one is retried
    api = client_for(secret)
    assert ask(api, max_tokens=900).status_code == 502
    assert_released(alice)
    assert ask(api, max_tokens=900).status_code == 200


# --- The database is busy ----------------------------------------------------------------------------------------


@contextmanager
def locked_until_a_retry(monkeypatch, account, begin=lambda: None):
    """Lock the account once ``begin`` returns, until a settlement has failed on the lock and pauses before its next try.

    Yields an event: the account is locked.
    """
    locked, let_go = threading.Event(), threading.Event()

    def keep_locked():
        begin()
        with transaction.atomic():
            locks.lock_account(account.pk)
            locked.set()
            assert let_go.wait(waiting.SECONDS_MAX)
        connection.close()

    def pause(seconds):
        let_go.set()
        keeper.join()

    monkeypatch.setattr(charge, "gevent", SimpleNamespace(sleep=pause))
    keeper = threading.Thread(target=keep_locked)
    keeper.start()
    yield locked
    assert let_go.is_set()
    keeper.join()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("script", [streamed(), stream(ROLE, words("Hello "), 0.05, RESET)], ids=["settles", "charges in part"])
def test_a_settlement_that_fails_on_a_lock_is_retried(api, alice, upstream, monkeypatch, script):
    upstream.will(script)
    answer = ask_streamed(api)
    with locked_until_a_retry(monkeypatch, alice) as locked:
        assert locked.wait(waiting.SECONDS_MAX)
        received = events(answer)
    if received[-1] == "[DONE]":
        assert_charged(alice, "reported", **REPORTED)
    else:
        assert_charged(alice, "partial", **PARTIAL)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("impatient")
def test_a_release_that_fails_on_a_lock_is_retried(api, alice, upstream, monkeypatch):
    with locked_until_a_retry(monkeypatch, alice, lambda: waiting.until(lambda: upstream.requests)) as locked:
        upstream.will([locked, *refusal(500)])
        assert ask(api).status_code == 502
    assert_released(alice)


# --- Memory ------------------------------------------------------------------------------------------------------------


def test_requests_and_views_are_freed_without_the_garbage_collector(api, upstream):
    def views():
        return [each for each in gc.get_objects() if type(each) is ChatCompletionsView]

    gc.collect()
    before = views()  # of threads that served a test in a browser
    gc.disable()
    try:
        assert ask(api).status_code == 200
        assert views() == before
    finally:
        gc.enable()
