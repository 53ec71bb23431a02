"""The reply and the books: every way a completion can end is charged as the relay's table says, once."""

import gc
import logging
import threading
import time

import pytest
from django.db import connection, transaction

from billing import locks
from billing.models import LedgerEntry
from completions.models import Completion
from completions.views import ChatCompletionsView
from gateway_project import metrics
from gateway_project.db import pipelined_transaction
from tests.completions.rows import (
    PROMPT_ESTIMATE,
    ask,
    ask_streamed,
    assert_charged,
    assert_released,
    assert_true_book,
    events,
    leave,
    parsed,
    text,
)
from tests.upstream import (
    DONE,
    FINISH,
    LEAVE,
    RESET,
    ROLE,
    STAY,
    USAGE,
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


def test_a_whole_reply_is_ours_in_everything_but_the_words(api, alice):
    answer = ask(api)
    body = answer.json()
    [completion] = alice.completions.all()
    assert answer.status_code == 200
    assert body == {
        "id": completion.pk,
        "object": "chat.completion",
        "created": pytest.approx(completion.created_at.timestamp(), abs=2),
        "model": "acme/large",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello you"}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
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
    assert_true_book()


# --- Streamed ----------------------------------------------------------------------------------------------------


def test_a_stream_begins_with_the_role_and_ends_with_done(api, alice, upstream):
    upstream.will(streamed())
    answer = ask_streamed(api)
    raw = b"".join(answer.streaming_content)
    said = parsed(raw)
    [completion] = alice.completions.all()
    assert raw.endswith(b"\n\ndata: [DONE]\n\n")
    assert [event for event in said if event == "[DONE]"] == ["[DONE]"]
    *chunks, _ = said
    assert {event["id"] for event in chunks} == {completion.pk}
    [created] = {event["created"] for event in chunks}
    assert created == pytest.approx(completion.created_at.timestamp(), abs=2)
    assert {event["model"] for event in chunks} == {"acme/large"}
    assert {event["object"] for event in chunks} == {"chat.completion.chunk"}
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [event["choices"][0]["finish_reason"] for event in chunks] == [None, None, None, "stop"]
    assert not any("usage" in event for event in chunks)
    assert text(said) == "Hello you"
    assert answer["Cache-Control"] == "no-cache"
    assert answer["X-Accel-Buffering"] == "no"
    assert_charged(alice, "reported", **REPORTED)


def test_usage_is_told_in_the_last_chunk_when_it_was_asked_for(api, alice, upstream):
    upstream.will(streamed())
    *chunks, last, done = events(ask_streamed(api, stream_options={"include_usage": True}))
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 11
    assert [event["usage"] for event in chunks] == [None] * 4
    assert_charged(alice, "reported", **REPORTED)


def test_events_are_passed_on_as_they_come(api, upstream):
    upstream.will(stream(ROLE, words("a"), STAY))
    answer = ask_streamed(api)
    first = next(iter(answer.streaming_content))  # while the upstream is silent: nothing waits for more
    assert parsed(first)[0]["choices"][0]["delta"]["role"] == "assistant"
    leave(answer)


def test_a_silent_upstream_is_covered_by_comments_once_the_stream_has_begun(api, alice, upstream, settings):
    settings.STREAM_HEARTBEAT_SECONDS = 0.1
    upstream.will(stream(0.25, ROLE, 0.35, words("Hello you"), FINISH, usage(), DONE))
    raw = b"".join(ask_streamed(api).streaming_content)
    assert raw.startswith(b"data: ")
    assert raw.count(b": keep-alive\n\n") >= 2
    assert text(parsed(raw)) == "Hello you"
    assert_charged(alice, "reported", **REPORTED)


# --- Usage that is not as it should be ---------------------------------------------------------------------------

IMPOSSIBLE = {
    "none": None,
    "negative": {**USAGE, "prompt_tokens": -9},
    "negative completion": {**USAGE, "completion_tokens": -1},
    "a million millions": {**USAGE, "completion_tokens": 10**12},
    "text": {**USAGE, "prompt_tokens": "9"},
    "a fraction": {**USAGE, "prompt_tokens": 9.5},
    "true": {**USAGE, "completion_tokens": True},
    "null": {**USAGE, "completion_tokens": None},
    "a list": [9, 2],
    "empty": {},
    "zero": 0,
}
ESTIMATED = {"prompt": PROMPT_ESTIMATE, "completion": 3, "nanos": PROMPT_ESTIMATE * 3_000 + 3 * 15_000}  # 9 bytes of reply


@pytest.mark.parametrize("given", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_usage_that_cannot_be_is_estimated(api, alice, upstream, given):
    upstream.will(whole(usage=given))
    assert ask(api).json()["usage"]["total_tokens"] == PROMPT_ESTIMATE + 3
    assert_charged(alice, "estimated", **ESTIMATED)


@pytest.mark.parametrize("given", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_usage_that_cannot_be_is_estimated_for_a_stream_too(api, alice, upstream, given):
    upstream.will(stream(ROLE, words("Hello ", "you"), FINISH, usage(given), DONE))
    *_, told, done = events(ask_streamed(api, stream_options={"include_usage": True}))
    assert (told["usage"]["total_tokens"], done) == (PROMPT_ESTIMATE + 3, "[DONE]")
    assert_charged(alice, "estimated", **ESTIMATED)


def test_an_estimate_is_never_more_than_the_cap(api, alice, upstream):
    upstream.will(whole("x" * 400, usage=None))
    ask(api, max_tokens=7)
    assert_charged(alice, "estimated", prompt=5, completion=7, nanos=5 * 3_000 + 7 * 15_000)


ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize("script", [whole(usage=ZEROS), stream(ROLE, words("a"), FINISH, usage(ZEROS), DONE)])
def test_a_reported_zero_is_honoured(api, alice, upstream, script):
    upstream.will(script)
    answer = ask(api, stream=script != whole(usage=ZEROS))
    if answer.streaming:
        events(answer)
    assert_charged(alice, "reported", prompt=0, completion=0, nanos=0)


def test_usage_above_the_hold_costs_the_hold_and_counts_as_our_loss(api, alice, upstream):
    lost_before_nanos = metrics.operator_loss_nanos._value.get()
    upstream.will(whole(usage={**USAGE, "completion_tokens": 1_000_000}))
    assert ask(api, max_tokens=10).status_code == 200
    held_nanos = alice.holds.get().amount_nanos
    assert held_nanos < 1_000_000
    assert_charged(alice, "reported", prompt=9, completion=1_000_000, nanos=held_nanos)
    assert metrics.operator_loss_nanos._value.get() - lost_before_nanos == 9 * 3_000 + 1_000_000 * 15_000 - held_nanos


@pytest.mark.parametrize(
    ("cached", "counted", "nanos"),
    [
        (4, 4, 5 * 3_000 + 4 * 300 + 30_000),
        (9, 9, 9 * 300 + 30_000),
        (400, 9, 9 * 300 + 30_000),
        (-4, 0, 57_000),
        ("4", 0, 57_000),
    ],
)
def test_cached_tokens_have_their_own_price_and_are_part_of_the_prompt(api, alice, upstream, cached, counted, nanos):
    upstream.will(whole(usage={**USAGE, "prompt_tokens_details": {"cached_tokens": cached}}))
    told = ask(api).json()["usage"]["prompt_tokens_details"]
    assert told == {"cached_tokens": counted, "cache_write_tokens": 0}
    assert_charged(alice, "reported", prompt=9, completion=2, cached=counted, nanos=nanos)


def test_reasoning_tokens_are_told_and_not_charged_twice(api, alice, upstream):
    upstream.will(whole(usage={**USAGE, "completion_tokens_details": {"reasoning_tokens": 2}}))
    assert ask(api).json()["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert_charged(alice, "reported", **REPORTED)


def test_the_last_usage_that_can_be_counts(api, alice, upstream):
    sofar = {"prompt_tokens": 9, "completion_tokens": 1}
    upstream.will(stream(ROLE, chunk({"content": "Hello "}, usage=sofar), words("you"), FINISH, usage(), usage({"x": 1}), DONE))
    assert text(events(ask_streamed(api))) == "Hello you"
    assert_charged(alice, "reported", **REPORTED)


def test_a_price_that_changes_while_a_completion_runs_is_not_its_price(api, alice, upstream, large):
    upstream.will(streamed())
    answer = ask_streamed(api)
    large.prices.create(input_nanos=1, output_nanos=1)
    events(answer)
    assert_charged(alice, "reported", **REPORTED)


# --- Broken in the middle ----------------------------------------------------------------------------------------

BREAKS = {
    "an error event": (event({"error": {"message": "secret reasons", "code": 500}}),),
    "an error as text": (event({"error": "secret reasons"}),),
    "reset": (RESET,),
    "cut": (LEAVE,),
    "ended without a finish reason": (),
    "[DONE] without a finish reason": (DONE,),
    "not JSON": (b"data: <html>secret reasons\n\n",),
    "not UTF-8": (chunk({"content": "x"}).replace(b'"x"', b'"\xff"'),),
    "not choices": (event({"choices": ["secret reasons"]}),),
    "too deep": (b"data: " + b"[" * 100_000 + b"\n\n",),
    "an event without end": (b"data: " + b"x" * 20_000,),
    "silence": (STAY,),
}
PARTIAL = {"prompt": PROMPT_ESTIMATE, "completion": 2, "nanos": PROMPT_ESTIMATE * 3_000 + 2 * 15_000}  # "Hello "


@pytest.mark.parametrize("pause", [(0.05,), ()], ids=["later", "in the same read"])
@pytest.mark.parametrize("steps", BREAKS.values(), ids=BREAKS.keys())
def test_a_stream_that_breaks_ends_in_one_error_event_and_is_charged_so_far(api, alice, upstream, settings, steps, pause):
    settings.STREAM_HEARTBEAT_SECONDS, settings.UPSTREAM_IDLE_SECONDS, settings.UPSTREAM_EVENT_BYTES_MAX = 0.1, 0.2, 10_000
    upstream.will(stream(ROLE + words("Hello "), *pause, *steps))
    said = events(ask_streamed(api))
    assert "[DONE]" not in said
    assert text(said) == "Hello "
    assert [event for event in said if "error" in event] == said[-1:]
    last = said[-1]
    assert last["error"]["code"] == "upstream_error"
    assert set(last["error"]) == {"message", "type", "code", "param"}
    assert "secret" not in last["error"]["message"]
    assert last["choices"] == [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]
    assert (last["id"], last["object"]) == (said[0]["id"], "chat.completion.chunk")
    assert_charged(alice, "partial", **PARTIAL)


def test_an_error_right_after_the_role_is_an_honest_status(api, alice, upstream):
    upstream.will(stream(ROLE + event({"error": {"message": "overloaded"}})))
    assert ask_streamed(api).status_code == 502
    assert_released(alice)


def test_what_was_reported_before_the_end_is_the_least_that_is_charged(api, alice, upstream):
    upstream.will(stream(ROLE, words("Hello "), usage(), 0.05, RESET))
    assert "error" in events(ask_streamed(api))[-1]
    assert_charged(alice, "partial", **REPORTED)


def test_a_report_that_is_older_than_the_text_does_not_make_the_text_free(api, alice, upstream):
    early = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}
    upstream.will(stream(ROLE, usage(early), words("x" * 4_000), 0.05, RESET))
    assert "error" in events(ask_streamed(api))[-1]
    done = Completion.objects.get(account=alice)
    assert (done.settlement, done.prompt_tokens) == ("partial", PROMPT_ESTIMATE)
    assert done.completion_tokens == 1_000  # of four bytes each


@pytest.mark.parametrize("end", [RESET, LEAVE])
def test_a_break_between_the_status_and_the_first_chunk_is_an_honest_status_and_costs_the_prompt(api, alice, upstream, end):
    upstream.will(stream(b": one moment\n\n", 0.05, end))
    answer = ask_streamed(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert_charged(alice, "partial", prompt=PROMPT_ESTIMATE, completion=0, nanos=PROMPT_ESTIMATE * 3_000)


def test_silence_between_the_status_and_the_first_chunk_is_a_timeout_and_costs_the_prompt(api, alice, upstream, settings):
    settings.STREAM_HEARTBEAT_SECONDS, settings.UPSTREAM_IDLE_SECONDS = 0.1, 0.3
    upstream.will(stream(STAY))
    answer = ask_streamed(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_error")
    assert upstream.requests[0].left.wait(5)
    assert_charged(alice, "partial", prompt=PROMPT_ESTIMATE, completion=0, nanos=PROMPT_ESTIMATE * 3_000)


def test_a_drip_is_relayed_until_the_total_deadline(api, alice, upstream, settings):
    settings.UPSTREAM_TOTAL_SECONDS = 0.5
    upstream.will(stream(ROLE, *[step for _ in range(100) for step in (words("x"), 0.1)]))
    said = events(ask_streamed(api))
    assert "error" in said[-1]
    relayed = len(text(said))
    assert 2 <= relayed <= 6
    assert upstream.requests[0].left.wait(5)
    tokens = -(-relayed // 4)
    assert_charged(alice, "partial", prompt=5, completion=tokens, nanos=5 * 3_000 + tokens * 15_000)


def test_an_account_is_not_charged_for_the_text_of_an_error(api, alice, upstream):
    upstream.will(stream(ROLE, words("Hello "), event({"error": {"message": "x" * 4_000}})))
    events(ask_streamed(api))
    assert_charged(alice, "partial", **PARTIAL)


# --- The client leaves -------------------------------------------------------------------------------------------


def test_a_client_that_leaves_in_the_middle_frees_the_upstream_and_pays_for_what_came(api, alice, upstream):
    upstream.will(stream(ROLE, 0.05, words("Hello "), STAY))
    answer = ask_streamed(api)
    body = iter(answer.streaming_content)
    assert text(parsed(next(body) + next(body))) == "Hello "
    leave(answer)
    assert upstream.requests[0].left.wait(5)
    assert_charged(alice, "partial", **PARTIAL)


def test_a_client_that_leaves_before_it_reads_pays_for_the_prompt(api, alice, upstream):
    upstream.will(stream(ROLE, STAY))
    leave(ask_streamed(api))
    assert upstream.requests[0].left.wait(5)
    assert_charged(alice, "partial", prompt=PROMPT_ESTIMATE, completion=0, nanos=PROMPT_ESTIMATE * 3_000)


def test_a_client_that_leaves_when_the_usage_is_known_pays_that(api, alice, upstream):
    upstream.will(stream(ROLE, 0.05, words("Hello ") + FINISH + usage(), STAY))
    answer = ask_streamed(api)
    body = iter(answer.streaming_content)
    next(body), next(body)
    leave(answer)
    assert_charged(alice, "reported", **REPORTED)


def test_a_client_that_leaves_while_a_comment_is_written_pays_for_what_came(api, alice, upstream, settings):
    settings.STREAM_HEARTBEAT_SECONDS = 0.1
    upstream.will(stream(ROLE, STAY))
    answer = ask_streamed(api)
    body = iter(answer.streaming_content)
    next(body)
    assert next(body) == b": keep-alive\n\n"
    leave(answer)
    assert upstream.requests[0].left.wait(5)
    assert_charged(alice, "partial", prompt=PROMPT_ESTIMATE, completion=0, nanos=PROMPT_ESTIMATE * 3_000)


def test_closing_what_was_read_to_its_end_changes_nothing(api, alice, upstream):
    upstream.will(streamed())
    answer = ask_streamed(api)
    events(answer)
    leave(answer)
    leave(answer)
    assert_charged(alice, "reported", **REPORTED)


# --- What the log says -------------------------------------------------------------------------------------------


def test_the_log_names_the_completion_and_never_what_was_said(api, alice, upstream, caplog):
    caplog.set_level(logging.DEBUG)
    upstream.will(whole("a private reply"), reply(b"a private page"), streamed("a private ", "stream"))
    completion_id = ask(api, messages=[{"role": "user", "content": "a private question"}]).json()["id"]
    ask(api)
    events(ask_streamed(api))
    [whole_line] = [line for line in caplog.records if getattr(line, "completion", None) == completion_id]
    assert (whole_line.name, whole_line.cost) == ("gateway.request", "0.000057")
    streamed_id = Completion.objects.latest("id").pk
    assert {"gateway.request", "gateway.settlement"} == {line.name for line in caplog.records if names(line, streamed_id)}
    said = caplog.text + "".join(str(vars(line)) for line in caplog.records)
    assert "private" not in said
    assert "mgw_live_" not in said


def names(line, completion_id):
    return getattr(line, "completion", None) == completion_id


def test_a_refused_stream_is_an_error_that_clients_see_as_one(api, bob, upstream):
    """The same JSON, status and headers as without stream: a 200 that turns out to be a refusal is read as success."""
    from tests import factories
    from tests.conftest import client_for

    poor = client_for(factories.make_key(bob)[1])
    answers = [ask(poor, stream=stream) for stream in (False, True)]
    assert [answer.status_code for answer in answers] == [402, 402]
    assert [answer.json()["error"]["code"] for answer in answers] == ["insufficient_quota"] * 2
    assert answers[1]["x-should-retry"] == "false"
    assert upstream.requests == []
    assert not bob.holds.exists()


def test_a_released_hold_frees_the_tokens_per_minute_it_took(alice, upstream):
    from tests import factories
    from tests.conftest import client_for

    key, secret = factories.make_key(alice, tokens_per_minute=1_000)
    upstream.will(*[refusal(500)] * 2, whole())  # a refusal is asked about again
    api = client_for(secret)
    assert ask(api, max_tokens=900).status_code == 502
    assert_released(alice)
    assert ask(api, max_tokens=900).status_code == 200


# --- The database is busy ----------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("script", [streamed(), stream(ROLE, words("Hello "), 0.05, RESET)], ids=["settles", "charges in part"])
def test_what_cannot_be_settled_now_is_settled_a_little_later(api, alice, upstream, monkeypatch, script):
    upstream.will(script)
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", "-c lock_timeout=100")
    answer = ask_streamed(api)
    locked = threading.Event()
    keeper = threading.Thread(target=keep_locked, args=[alice, locked, 0.5])
    keeper.start()
    assert locked.wait(5)
    said = events(answer)
    keeper.join()
    if said[-1] == "[DONE]":
        assert_charged(alice, "reported", **REPORTED)
    else:
        assert_charged(alice, "partial", **PARTIAL)


@pytest.mark.django_db(transaction=True)
def test_what_cannot_be_released_now_is_released_a_little_later(api, alice, upstream, monkeypatch):
    gate = threading.Event()
    upstream.will([gate, *refusal(500)])
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", "-c lock_timeout=100")
    pipelined_transaction.PipelinedConnection.close_all()

    def lock_when_asked():
        while not upstream.requests:
            time.sleep(0.01)
        keep_locked(alice, gate, 0.5)

    keeper = threading.Thread(target=lock_when_asked)
    keeper.start()
    assert ask(api).status_code == 502
    keeper.join()
    assert_released(alice)


def keep_locked(account, locked, seconds):
    with transaction.atomic():
        locks.lock_account(account.pk)
        locked.set()
        time.sleep(seconds)
    connection.close()


# --- What is left of it in memory --------------------------------------------------------------------------------------


def test_neither_request_nor_view_waits_for_the_garbage_collector(api, upstream):
    gc.collect()
    gc.disable()
    try:
        assert ask(api).status_code == 200
        assert [each for each in gc.get_objects() if type(each) is ChatCompletionsView] == []
    finally:
        gc.enable()
