"""The four deadlines of a provider: to connect, to begin a stream, between two reads, and in all. The smallest is one second.

What a provider may charge for when it is given up is paid, or else it is counted as the operator's loss.
"""

import socket
import threading
from datetime import timedelta

import pytest
from django.db.models import F

from billing.models import Account, LedgerEntry
from completions.models import Completion, LanguageModel
from gateway_project import metrics
from gateway_project.db import pool
from tests import factories, waiting
from tests.completions.routes import add, assert_answered, assert_attempts, change_provider, has_played, once
from tests.completions.rows import (
    MESSAGES,
    ask,
    ask_streamed,
    assert_charged,
    assert_released,
    begin,
    events,
    lost_nanos,
    parsed,
    text,
)
from tests.conftest import client_for
from tests.faults import fault
from tests.upstream import DONE, FINISH, HANG, RESET, ROLE, at_once, refusal, stream, streamed, usage, whole, words

REPORTED = {"prompt": 9, "completion": 2, "nanos": 57_000}


@pytest.fixture
def deaf():
    """The address of a socket whose listen queue is full, so that it accepts no connection."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        for each in waiting:
            each.close()


@pytest.fixture
def unread():
    """The address of a server that accepts connections and reads nothing."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


@fault(
    "Provider",
    "A provider accepts no connection",
    "502 after the connect deadline; nothing is charged",
)
def test_an_upstream_that_accepts_no_connection_is_unreachable(api, alice, large, deaf, settings):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    change_provider(large, base_url=deaf, connect_seconds=1)
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        502,
        "The model's provider cannot be reached. Try again later.",
    )
    assert_attempts(1)
    assert_released(alice)


def test_another_route_is_tried_when_an_upstream_accepts_no_connection(api, alice, large, deaf, spare):
    change_provider(large, base_url=deaf, connect_seconds=1)
    add(large, spare)
    assert_answered(ask(api), "spare", 2)
    assert_charged(alice, "reported", **REPORTED)


@pytest.mark.parametrize(("reasons", "lost_nanos"), [(None, 5 * 3_000), (True, 5 * 3_000 + 1_000 * 15_000)])
def test_a_stream_that_does_not_begin_in_time_is_answered_elsewhere(
    api, alice, large, upstream, spare, reasons, lost_nanos, settings
):
    LanguageModel.objects.update(reasoning=reasons)
    change_provider(large, first_byte_seconds=1)
    add(large, spare)
    upstream.will([HANG])
    spare.will(streamed())
    before_nanos = metrics.operator_loss_nanos._value.get()
    answer = ask_streamed(api, max_tokens=1_000)
    assert text(events(answer)) == "Hello you"
    assert_answered(answer, "spare", 2)
    assert upstream.sees_disconnect()
    assert len(upstream.requests) == 1  # after such a silence there is no retry
    assert_charged(alice, "reported", **REPORTED)
    assert metrics.operator_loss_nanos._value.get() - before_nanos == lost_nanos  # what the silent one may charge for
    assert alice.unpaid_until is None  # the account paid for its reply


# --- A stream that is given up, and that no other provider answers ------------------------------------------------


def begins_late():
    """A stream that begins after the deadline of a second."""
    return [1.5, *at_once(streamed())]


@fault(
    "Provider",
    "A stream begins after the deadline, and no other provider answers",
    "504 at the deadline, free. With an Idempotency-Key a repetition gets and pays the late reply",
)
def test_what_begins_too_late_is_the_reply_to_a_repetition_and_paid_as_reported(api, alice, large, upstream):
    change_provider(large, first_byte_seconds=1)
    upstream.will(begins_late())
    lost_before_nanos = lost_nanos()
    given_up, answer = ask_keyed(api), ask_keyed(api)
    assert (given_up.status_code, given_up.json()["error"]["code"]) == (504, "upstream_error")
    assert (answer.status_code, answer["Idempotent-Replayed"], text(parsed(answer.content))) == (200, "true", "Hello you")
    assert_charged(alice, "reported", **REPORTED)
    assert lost_nanos() == lost_before_nanos
    assert alice.unpaid_until is None


def ask_keyed(api):
    asked = {"model": "acme/large", "messages": MESSAGES, "stream": True}
    return api.post("/v1/chat/completions", asked, headers={"Idempotency-Key": "once"})


def test_a_stream_that_begins_too_late_for_anybody_is_closed_and_costs_nothing(api, alice, large, upstream):
    change_provider(large, first_byte_seconds=1)
    upstream.will([HANG])
    lost_before_nanos = lost_nanos()
    assert ask_streamed(api).status_code == 504
    assert upstream.sees_disconnect()
    assert_released(alice)
    assert lost_nanos() - lost_before_nanos == 5 * 3_000
    assert alice.unpaid_until is not None


def test_a_late_stream_that_breaks_off_costs_nothing_and_runs_again(api, alice, large, upstream):
    change_provider(large, first_byte_seconds=1)
    upstream.will([1.5, *at_once(stream(ROLE, words("Hello "), usage(), 0.05, RESET))], streamed())
    given_up, answer = ask_keyed(api), ask_keyed(api)
    assert (given_up.status_code, text(events(answer))) == (504, "Hello you")
    assert [done.cost_nanos for done in Completion.objects.order_by("created_at")] == [0, 57_000]


def test_a_late_stream_is_read_on_also_when_the_next_provider_refuses(api, alice, large, upstream, spare):
    change_provider(large, first_byte_seconds=1)
    add(large, spare)
    upstream.will(begins_late())
    spare.will(refusal(404))
    assert ask_keyed(api).status_code == 504
    assert_charged(alice, "reported", **REPORTED)


def test_a_stream_that_never_begins_is_not_paid_and_counts_as_unpaid_work(api, alice, large, upstream):
    LanguageModel.objects.update(reasoning=True)
    change_provider(large, first_byte_seconds=1, total_seconds=2)
    upstream.will([HANG])
    lost_before_nanos = metrics.operator_loss_nanos._value.get()
    assert ask_streamed(api, max_tokens=1_000).status_code == 504
    assert upstream.sees_disconnect()
    assert_released(alice)
    assert metrics.operator_loss_nanos._value.get() - lost_before_nanos == 5 * 3_000 + 1_000 * 15_000
    alice.refresh_from_db()
    assert alice.unpaid_until is not None


def test_a_late_stream_of_a_provider_that_fails_for_several_accounts_counts_against_none(
    api, alice, charlie, large, upstream, settings
):
    settings.CIRCUIT_ACCOUNTS, settings.UPSTREAM_ATTEMPTS_MAX = 2, 1
    change_provider(large, first_byte_seconds=1, total_seconds=2)
    upstream.will(refusal(500), [HANG])
    assert ask(client_for(factories.make_key(charlie)[1])).status_code == 502
    lost_before_nanos = metrics.operator_loss_nanos._value.get()
    assert ask_streamed(api).status_code == 504
    assert metrics.operator_loss_nanos._value.get() - lost_before_nanos == 5 * 3_000
    assert_released(alice)
    assert alice.unpaid_until is None


def test_an_account_that_left_too_much_unpaid_is_refused_until_an_hours_share_is_back(api, alice, large, upstream, settings):
    settings.ACCOUNT_UNPAID_CENTS_PER_HOUR = 1
    LanguageModel.objects.update(reasoning=True)
    change_provider(large, first_byte_seconds=1, total_seconds=2)
    upstream.will([HANG], whole())
    assert ask_streamed(api, max_tokens=1_000).status_code == 504  # 1.5 cents
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert "cost the gateway more than they were charged" in answer.json()["error"]["message"]
    assert 1_700 < int(answer["Retry-After"]) <= 1_806  # half a cent takes half an hour
    assert Completion.objects.count() == 1
    Account.objects.update(unpaid_until=F("unpaid_until") - timedelta(minutes=31))
    assert ask(api).status_code == 200


def test_a_whole_reply_may_take_longer_to_begin_than_a_stream(api, alice, large, upstream, spare):
    """A provider sends its head when the reply is generated: nobody can tell a long reply from silence."""
    change_provider(large, first_byte_seconds=1)
    add(large, spare)
    upstream.will([1.5, *whole()])
    assert_answered(ask(api), "scripted", 1)
    assert spare.requests == []
    assert_charged(alice, "reported", **REPORTED)


@fault(
    "Provider",
    "A provider hangs with a whole request and its repetitions",
    "504 at the total deadline, free. The provider's possible charge is counted, and bounded per account",
)
def test_a_whole_reply_given_up_at_the_total_deadline_costs_nothing_and_is_unpaid_work(api, alice, large, upstream):
    change_provider(large, total_seconds=1)
    upstream.will([HANG], [HANG], whole())
    before_nanos, before_of_provider_nanos = lost_nanos(), lost_nanos("scripted")
    asked = {"model": "acme/large", "messages": MESSAGES, "max_tokens": 10}
    hung, again, answer = [api.post("/v1/chat/completions", asked, headers={"Idempotency-Key": "once"}) for _ in range(3)]
    assert (hung.status_code, again.status_code, answer.status_code) == (504, 504, 200)
    assert hung["x-gateway-attempts"] == "1"
    assert list(LedgerEntry.objects.filter(type="USAGE_DEBIT").values_list("amount_nanos", flat=True)) == [-57_000]
    may_charge_nanos = 2 * (5 * 3_000 + 10 * 15_000)
    assert lost_nanos() - before_nanos == lost_nanos("scripted") - before_of_provider_nanos == may_charge_nanos
    alice.refresh_from_db()
    assert alice.unpaid_until is not None


@pytest.mark.parametrize(
    ("serves_others", "counted_nanos"), [(False, 15_015_000 // 4), (True, 15_015_000)], ids=["nobody", "others"]
)
def test_a_reply_cut_off_counts_against_its_account_by_a_quarter_where_the_route_answers(
    api, alice, charlie, large, upstream, serves_others, counted_nanos
):
    change_provider(large, total_seconds=2)
    upstream.will([HANG], whole())
    other = client_for(factories.make_key(charlie)[1])
    if serves_others:
        once(has_played(upstream, 0), lambda: ask(other))
    before = pool.database_time()
    assert ask(api, max_tokens=1_000).status_code == 504
    alice.refresh_from_db()
    allowance_nanos_per_second = 500 * 10_000_000 / 3_600
    counted = timedelta(seconds=counted_nanos / allowance_nanos_per_second)
    assert before + counted <= alice.unpaid_until <= pool.database_time() + counted + timedelta(milliseconds=1)
    assert Completion.objects.count() == (2 if serves_others else 1)


def test_a_whole_reply_of_a_provider_that_fails_for_several_accounts_counts_against_none(
    api, alice, charlie, large, upstream, settings
):
    settings.CIRCUIT_ACCOUNTS, settings.UPSTREAM_ATTEMPTS_MAX = 2, 1
    change_provider(large, total_seconds=1)
    upstream.will(refusal(500), [HANG])
    assert ask(client_for(factories.make_key(charlie)[1])).status_code == 502
    before_nanos = lost_nanos()
    assert ask(api, max_tokens=10).status_code == 504
    assert lost_nanos() - before_nanos == 5 * 3_000 + 10 * 15_000
    assert_released(alice)
    assert alice.unpaid_until is None


def test_an_upstream_that_does_not_read_the_request_in_time_is_paid_nothing(api, alice, large, unread, spare):
    change_provider(large, base_url=unread, first_byte_seconds=1)
    add(large, spare)
    messages = [{"role": "user", "content": "a" * 4_900_000}]  # more than the buffers of both sockets hold
    large.context_window = 1_000_000
    large.save()
    assert_answered(ask(api, messages=messages, max_tokens=10), "spare", 2)
    assert Completion.objects.get().settlement == "reported"


@fault(
    "Provider",
    "A provider falls silent in a stream",
    "The stream ends with an error event after the idle deadline; its text so far is charged",
)
def test_an_upstream_that_falls_silent_is_cut_at_its_idle_deadline(api, alice, large, upstream):
    """The idle deadline applies, whatever the heartbeat interval, 12 seconds here."""
    change_provider(large, idle_seconds=1)
    upstream.will(at_once(stream(ROLE, words("Hello "), HANG)))
    received = events(ask_streamed(api))
    assert upstream.sees_disconnect()
    assert (text(received), received[-1]["error"]["code"]) == ("Hello ", "upstream_error")
    assert "in time" in received[-1]["error"]["message"]
    assert_charged(alice, "partial", prompt=5, completion=2, nanos=5 * 3_000 + 2 * 15_000)


def test_the_idle_deadline_is_between_two_reads(api, alice, large, upstream, settings, clock):
    settings.UPSTREAM_IDLE_SECONDS, settings.STREAM_HEARTBEAT_SECONDS = 50, 0.02
    gates = [threading.Event() for _ in range(3)]
    upstream.will(stream(ROLE, gates[0], words("Hello "), gates[1], words("you"), gates[2], FINISH, usage(), DONE))
    reply = ask_streamed(api)
    for gate, said in zip(gates, ("", "Hello ", "you"), strict=True):
        begin(reply, said)
        clock.move_on(40)
        heartbeat(reply)
        gate.set()
    assert events(reply)[-1] == "[DONE]"
    assert_charged(alice, "reported", **REPORTED)


def heartbeat(reply):
    """Read the stream until a heartbeat that was due after the call."""
    for _ in range(2):
        while not next(iter(reply.streaming_content)).endswith(b": keep-alive\n\n"):
            pass


@fault(
    "Provider",
    "A provider streams without an end",
    "The stream ends with an error event at the total deadline",
)
def test_an_upstream_is_cut_at_its_total_deadline(api, alice, large, upstream, clock):
    change_provider(large, total_seconds=300)
    upstream.will(stream(ROLE, *[step for _ in range(10_000) for step in (words("abcd"), 0.02)]))
    raw, body = begin(ask_streamed(api), "abcd")
    clock.move_on(300)
    received = parsed(raw + b"".join(body))
    assert received[-1]["error"]["code"] == "upstream_error"
    assert upstream.sees_disconnect()
    tokens = len(text(received)) // 4
    assert_charged(alice, "partial", prompt=5, completion=tokens, nanos=5 * 3_000 + tokens * 15_000)


def test_a_head_that_drips_does_not_delay_the_first_byte_deadline(api, alice, large, upstream, spare):
    change_provider(large, first_byte_seconds=1)
    add(large, spare)
    upstream.will([b"HTTP/1.1 200 OK\r\n", *[b"X-Drip: a\r\n", 0.2] * 50])
    spare.will(streamed())
    assert text(events(ask_streamed(api))) == "Hello you"
    assert upstream.sees_disconnect()
    assert_charged(alice, "reported", **REPORTED)


def test_a_head_that_drips_does_not_delay_the_total_deadline(api, alice, large, upstream):
    change_provider(large, total_seconds=1)
    upstream.will([b"HTTP/1.1 200 OK\r\n", *[b"X-Drip: a\r\n", 0.2] * 50])
    assert ask_streamed(api).status_code == 504
    assert upstream.sees_disconnect()
    assert_released(alice)


def test_the_gateways_total_deadline_limits_every_provider(api, alice, large, upstream, settings):
    settings.UPSTREAM_TOTAL_SECONDS = 0.4
    change_provider(large, total_seconds=7_000)
    upstream.will([HANG])
    assert ask(api, max_tokens=10).status_code == 504
    assert_released(alice)


def thinking(pause, end):
    """Send a comment after each pause, until a test sets the event."""
    first, comment, *last, close = stream(ROLE + words("Hello "), b": PROCESSING\n\n", words("you"), FINISH, usage(), DONE)[1:]
    yield from [*stream(HANG)[:1], first]
    while not end.is_set():
        yield from [comment, pause]
    yield from [*last, close]


@pytest.mark.parametrize("pause", [0.05, 0.15])
def test_clients_get_heartbeats_while_an_upstream_sends_only_comments(api, alice, large, upstream, settings, pause):
    """Some upstreams send comments or pings while the model thinks. They are not passed on; clients get heartbeats instead."""
    settings.STREAM_HEARTBEAT_SECONDS = 0.1
    end = threading.Event()
    upstream.will(thinking(pause, end))
    body, raw = iter(ask_streamed(api).streaming_content), b""
    while raw.count(b": keep-alive\n\n") < 3:
        raw += next(body)
    end.set()
    raw += b"".join(body)
    assert text(parsed(raw)) == "Hello you"
    assert b"PROCESSING" not in raw
    assert_charged(alice, "reported", **REPORTED)


def test_a_slow_client_does_not_trigger_the_idle_deadline(api, alice, large, upstream, settings, clock):
    settings.UPSTREAM_IDLE_SECONDS = settings.STREAM_HEARTBEAT_SECONDS = 50
    gate = threading.Event()
    script = stream(ROLE, words("Hello "), gate, words("you"), FINISH, usage(), DONE)
    upstream.will(script)
    raw, body = begin(ask_streamed(api), "Hello ")
    clock.move_on(60)
    gate.set()
    waiting.until(has_played(upstream, len(script)))
    assert (raw + b"".join(body)).endswith(DONE)
    assert_charged(alice, "reported", **REPORTED)
