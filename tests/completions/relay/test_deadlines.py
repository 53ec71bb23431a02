"""The four deadlines of a provider: to connect, to begin, between two reads, and in all. The smallest is one second."""

import socket

import gevent
import pytest

from tests.completions.routes import add, assert_answered, assert_attempts, change_provider
from tests.completions.rows import ask, ask_streamed, assert_charged, assert_released, events, text
from tests.upstream import DONE, FINISH, HANG, ROLE, stream, usage, words

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


def test_an_upstream_that_accepts_no_connection_is_unreachable(api, alice, large, deaf, settings):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    change_provider(large, base_url=deaf, connect_seconds=1)
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["message"]) == (502, "The model's provider cannot be reached.")
    assert_attempts(1)
    assert_released(alice)


def test_another_route_is_tried_when_an_upstream_accepts_no_connection(api, alice, large, deaf, spare):
    change_provider(large, base_url=deaf, connect_seconds=1)
    add(large, spare)
    assert_answered(ask(api), "spare", 2)
    assert_charged(alice, "reported", **REPORTED)


def test_an_upstream_that_does_not_begin_in_time_is_not_retried(api, alice, large, upstream, spare):
    change_provider(large, first_byte_seconds=1)
    add(large, spare)
    upstream.will([HANG])
    assert_answered(ask(api), "spare", 2)
    assert upstream.requests[0].disconnected.wait(5)
    assert len(upstream.requests) == 1  # after such a silence there is no retry
    assert_charged(alice, "reported", **REPORTED)


def test_an_upstream_that_falls_silent_is_cut_at_its_idle_deadline(api, alice, large, upstream):
    """The idle deadline applies, whatever the heartbeat interval, 12 seconds here."""
    change_provider(large, idle_seconds=1)
    upstream.will(stream(ROLE, words("Hello "), HANG))
    received = events(ask_streamed(api))
    assert upstream.requests[0].disconnected.wait(5)
    assert (text(received), received[-1]["error"]["code"]) == ("Hello ", "upstream_error")
    assert "in time" in received[-1]["error"]["message"]
    assert_charged(alice, "partial", prompt=5, completion=2, nanos=5 * 3_000 + 2 * 15_000)


def test_the_idle_deadline_is_between_two_reads(api, alice, large, upstream, settings):
    settings.UPSTREAM_IDLE_SECONDS = 0.5
    upstream.will(stream(ROLE, 0.2, words("Hello "), 0.2, words("you"), 0.2, FINISH, usage(), DONE))
    assert text(events(ask_streamed(api))) == "Hello you"
    assert_charged(alice, "reported", **REPORTED)


def test_an_upstream_is_cut_at_its_total_deadline(api, alice, large, upstream):
    change_provider(large, total_seconds=1)
    upstream.will(stream(ROLE, *[step for _ in range(100) for step in (words("abcd"), 0.1)]))
    received = events(ask_streamed(api))
    assert received[-1]["error"]["code"] == "upstream_error"
    assert upstream.requests[0].disconnected.wait(5)
    tokens = len(text(received)) // 4
    assert 1 <= tokens < 50
    assert_charged(alice, "partial", prompt=5, completion=tokens, nanos=5 * 3_000 + tokens * 15_000)


def test_the_total_deadline_of_one_provider_does_not_apply_to_another(api, alice, large, upstream, spare):
    change_provider(large, total_seconds=1)
    add(large, spare)
    upstream.will([b"HTTP/1.1 200 OK\r\n", *[b"X-Drip: a\r\n", 0.2] * 50])
    assert_answered(ask(api), "spare", 2)
    assert upstream.requests[0].disconnected.wait(5)
    assert_charged(alice, "reported", **REPORTED)


def test_the_gateways_total_deadline_limits_every_provider(api, alice, large, upstream, settings):
    settings.UPSTREAM_TOTAL_SECONDS = 0.4
    change_provider(large, total_seconds=7_000)
    upstream.will([HANG])
    assert ask(api).status_code == 504
    assert_released(alice)


@pytest.mark.parametrize("pause", [0.05, 0.15])
def test_clients_get_heartbeats_while_an_upstream_sends_only_comments(api, alice, large, upstream, settings, pause):
    """Some upstreams send comments or pings while the model thinks. They are not passed on; clients get heartbeats instead."""
    settings.STREAM_HEARTBEAT_SECONDS = 0.1
    comments = [step for _ in range(int(0.6 / pause)) for step in (b": PROCESSING\n\n", pause)]
    upstream.will(stream(ROLE, words("Hello "), *comments, words("you"), FINISH, usage(), DONE))
    raw = b"".join(ask_streamed(api).streaming_content)
    assert raw.count(b": keep-alive\n\n") >= 3
    assert b"PROCESSING" not in raw
    assert_charged(alice, "reported", **REPORTED)


def test_a_slow_client_does_not_trigger_the_idle_deadline(api, alice, large, upstream, settings):
    settings.UPSTREAM_IDLE_SECONDS = settings.STREAM_HEARTBEAT_SECONDS = 0.2
    upstream.will(stream(ROLE, 0.05, words("Hello "), 0.5, words("you"), FINISH, usage(), DONE))
    received = []
    for chunk in ask_streamed(api).streaming_content:
        received.append(chunk)
        gevent.sleep(0.6 if len(received) == 2 else 0)
    assert b"".join(received).endswith(DONE)
    assert_charged(alice, "reported", **REPORTED)
