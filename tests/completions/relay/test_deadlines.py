"""Four deadlines of each provider: to connect, to begin, between two reads, and in all. A second is the least there is."""

import socket

import gevent
import pytest

from tests.completions.routes import add, assert_answered, assert_attempts, change_provider
from tests.completions.rows import ask, ask_streamed, assert_charged, assert_released, events, text
from tests.upstream import DONE, FINISH, ROLE, STAY, stream, usage, words

REPORTED = {"prompt": 9, "completion": 2, "nanos": 57_000}


@pytest.fixture
def deaf():
    """An address whose machine answers nobody: its queue of connections is full."""
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


def test_who_accepts_no_connection_is_unreachable(api, alice, large, deaf, settings):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    change_provider(large, base_url=deaf, connect_seconds=1)
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["message"]) == (502, "The model's provider cannot be reached.")
    assert_attempts(1)
    assert_released(alice)


def test_instead_of_who_accepts_no_connection_another_is_asked(api, alice, large, deaf, spare):
    change_provider(large, base_url=deaf, connect_seconds=1)
    add(large, spare)
    assert_answered(ask(api), "spare", 2)
    assert_charged(alice, "reported", **REPORTED)


def test_who_does_not_begin_in_its_time_is_asked_once_and_then_another(api, alice, large, upstream, spare):
    change_provider(large, first_byte_seconds=1)
    add(large, spare)
    upstream.will([STAY])
    assert_answered(ask(api), "spare", 2)
    assert upstream.requests[0].left.wait(5)
    assert len(upstream.requests) == 1  # who was silent so long is not asked a second time
    assert_charged(alice, "reported", **REPORTED)


def test_who_falls_silent_in_the_middle_is_left_when_its_time_is_over(api, alice, large, upstream):
    """Whatever the rhythm of our heartbeats, which is 12 seconds here."""
    change_provider(large, idle_seconds=1)
    upstream.will(stream(ROLE, words("Hello "), STAY))
    said = events(ask_streamed(api))
    assert upstream.requests[0].left.wait(5)
    assert (text(said), said[-1]["error"]["code"]) == ("Hello ", "upstream_error")
    assert "in time" in said[-1]["error"]["message"]
    assert_charged(alice, "partial", prompt=5, completion=2, nanos=5 * 3_000 + 2 * 15_000)


def test_the_time_of_silence_is_between_two_reads(api, alice, large, upstream, settings):
    settings.UPSTREAM_IDLE_SECONDS = 0.5
    upstream.will(stream(ROLE, 0.2, words("Hello "), 0.2, words("you"), 0.2, FINISH, usage(), DONE))
    assert text(events(ask_streamed(api))) == "Hello you"
    assert_charged(alice, "reported", **REPORTED)


def test_who_takes_longer_in_all_than_it_may_is_cut(api, alice, large, upstream):
    change_provider(large, total_seconds=1)
    upstream.will(stream(ROLE, *[step for _ in range(100) for step in (words("abcd"), 0.1)]))
    said = events(ask_streamed(api))
    assert said[-1]["error"]["code"] == "upstream_error"
    assert upstream.requests[0].left.wait(5)
    tokens = len(text(said)) // 4
    assert 1 <= tokens < 50
    assert_charged(alice, "partial", prompt=5, completion=tokens, nanos=5 * 3_000 + tokens * 15_000)


def test_the_time_of_one_provider_is_not_anothers(api, alice, large, upstream, spare):
    change_provider(large, total_seconds=1)
    add(large, spare)
    upstream.will([b"HTTP/1.1 200 OK\r\n", *[b"X-Drip: a\r\n", 0.2] * 50])
    assert_answered(ask(api), "spare", 2)
    assert upstream.requests[0].left.wait(5)
    assert_charged(alice, "reported", **REPORTED)


def test_no_provider_may_take_longer_than_the_gateway_waits(api, alice, large, upstream, settings):
    settings.UPSTREAM_TOTAL_SECONDS = 0.4
    change_provider(large, total_seconds=7_000)
    upstream.will([STAY])
    assert ask(api).status_code == 504
    assert_released(alice)


@pytest.mark.parametrize("pause", [0.05, 0.15])
def test_an_upstream_that_only_comments_is_no_silence_to_its_client(api, alice, large, upstream, settings, pause):
    """Some comment, or ping, as long as they think. Nothing of it is passed on, but that they live."""
    settings.STREAM_HEARTBEAT_SECONDS = 0.1
    comments = [step for _ in range(int(0.6 / pause)) for step in (b": PROCESSING\n\n", pause)]
    upstream.will(stream(ROLE, words("Hello "), *comments, words("you"), FINISH, usage(), DONE))
    raw = b"".join(ask_streamed(api).streaming_content)
    assert raw.count(b": keep-alive\n\n") >= 3
    assert b"PROCESSING" not in raw
    assert_charged(alice, "reported", **REPORTED)


def test_a_client_that_reads_slowly_makes_nobody_silent(api, alice, large, upstream, settings):
    settings.UPSTREAM_IDLE_SECONDS = settings.STREAM_HEARTBEAT_SECONDS = 0.2
    upstream.will(stream(ROLE, 0.05, words("Hello "), 0.5, words("you"), FINISH, usage(), DONE))
    said = []
    for chunk in ask_streamed(api).streaming_content:
        said.append(chunk)
        gevent.sleep(0.6 if len(said) == 2 else 0)
    assert b"".join(said).endswith(DONE)
    assert_charged(alice, "reported", **REPORTED)
