"""Disconnects within a stream: the upstream connection is closed at once, or read to its end if the provider charges anyway."""

import threading

import gevent
import pytest

from completions.models import Completion, IdempotentRequest
from completions.relay import stream as relay
from gateway_project.net import draining
from tests.completions.routes import assert_answered, change_provider
from tests.completions.rows import ask_streamed, assert_charged, assert_ledger_is_consistent, disconnect, parsed, text
from tests.completions.rows import begin as read_until
from tests.upstream import DONE, FINISH, HANG, RESET, ROLE, stream, usage, words

PARTIAL = {"prompt": 5, "completion": 2, "nanos": 5 * 3_000 + 2 * 15_000}
REPORTED = {"prompt": 9, "completion": 2, "nanos": 57_000}
REST = (words("you"), FINISH, usage(), DONE)


@pytest.fixture
def drains(large):
    change_provider(large, drains=True)


def begun(api, upstream, *steps, **headers):
    """Return a reply of which "Hello " was read; ``steps`` are still to come."""
    upstream.will(stream(ROLE, 0.02, words("Hello "), *steps))
    reply = api.post(
        "/v1/chat/completions",
        {"model": "acme/large", "messages": [{"role": "user", "content": "Say hello, please."}], "stream": True},
        headers=headers,
    )
    read_until(reply, "Hello ")
    return reply


def test_a_disconnect_frees_the_upstream_at_once(api, alice, large, upstream):
    reply = begun(api, upstream, HANG)
    disconnect(reply)
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **PARTIAL)


def test_a_draining_provider_is_read_to_its_end(api, alice, drains, upstream):
    gate = threading.Event()
    reply = begun(api, upstream, gate, *REST)
    gevent.spawn(gate.set)  # after the disconnect
    disconnect(reply)
    assert not upstream.requests[0].disconnected.is_set()
    assert_charged(alice, "reported", **REPORTED)


def test_without_usage_all_text_that_was_read_is_charged(api, alice, drains, upstream):
    disconnect(begun(api, upstream, 0.05, words("x" * 400), FINISH, DONE))
    assert_charged(alice, "estimated", prompt=5, completion=102, nanos=5 * 3_000 + 102 * 15_000)


def test_a_break_while_reading_to_the_end_is_charged_so_far(api, alice, drains, upstream):
    disconnect(begun(api, upstream, 0.05, words("x" * 400), 0.05, RESET))
    assert_charged(alice, "partial", prompt=5, completion=102, nanos=5 * 3_000 + 102 * 15_000)


def test_reading_to_the_end_stops_at_the_providers_total_deadline(api, alice, drains, large, upstream):
    change_provider(large, total_seconds=1)
    disconnect(begun(api, upstream, *[step for _ in range(100) for step in (0.1, words("abcd"))]))
    assert upstream.sees_disconnect()
    [done] = Completion.objects.all()
    assert (done.settlement, done.prompt_tokens) == ("partial", 5)
    assert 2 < done.completion_tokens < 50
    assert relay._ids_read_to_end == set()
    assert_ledger_is_consistent()


def test_reading_to_the_end_stops_at_the_idle_deadline(api, alice, drains, large, upstream):
    change_provider(large, idle_seconds=1)
    disconnect(begun(api, upstream, HANG))
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **PARTIAL)


def test_reading_to_the_end_stops_when_the_worker_shuts_down(api, alice, drains, upstream, monkeypatch):
    monkeypatch.setattr(draining, "_has_ended", False)  # restores it after the test
    reply = begun(api, upstream, HANG)
    gevent.spawn_later(0.1, draining.end)
    disconnect(reply)
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **PARTIAL)


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "once"}], ids=["drained", "kept"])
def test_a_process_reads_a_limited_number_of_replies_to_their_end(api, alice, drains, upstream, monkeypatch, headers):
    monkeypatch.setattr(relay, "_READ_TO_END_MAX", 0)
    disconnect(begun(api, upstream, 0.5, *REST, **headers))
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **PARTIAL)
    assert not IdempotentRequest.objects.exists()  # so a retry may run again


def test_a_reply_read_to_its_end_makes_room_for_another(api, alice, drains, upstream, monkeypatch):
    monkeypatch.setattr(relay, "_READ_TO_END_MAX", 1)
    for _ in range(3):
        disconnect(begun(api, upstream, 0.02, *REST))
    assert [done.settlement for done in Completion.objects.all()] == ["reported"] * 3


def test_a_connected_client_gets_the_reply_of_a_draining_provider(api, alice, drains, upstream):
    upstream.will(stream(ROLE, words("Hello "), *REST))
    answer = ask_streamed(api)
    assert text(parsed(b"".join(answer.streaming_content))) == "Hello you"
    assert_answered(answer, "scripted", 1)
    assert_charged(alice, "reported", **REPORTED)
