"""Clients that leave: the upstream is freed at once; or read to its end, where it must be paid to its end anyway."""

import threading

import gevent
import pytest

from completions.models import Completion, IdempotentRequest
from completions.relay import stream as relay
from gateway_project.net import draining
from tests.completions.routes import assert_answered, change_provider
from tests.completions.rows import ask_streamed, assert_charged, assert_true_book, leave, parsed, text
from tests.upstream import DONE, FINISH, RESET, ROLE, STAY, stream, usage, words

PARTIAL = {"prompt": 5, "completion": 2, "nanos": 5 * 3_000 + 2 * 15_000}
REPORTED = {"prompt": 9, "completion": 2, "nanos": 57_000}
REST = (words("you"), FINISH, usage(), DONE)


@pytest.fixture
def drains(large):
    change_provider(large, drains=True)


def begun(api, upstream, *steps, **headers):
    """A reply of which "Hello " was read; ``steps`` are still to come."""
    upstream.will(stream(ROLE, 0.02, words("Hello "), *steps))
    reply = api.post(
        "/v1/chat/completions",
        {"model": "acme/large", "messages": [{"role": "user", "content": "Say hello, please."}], "stream": True},
        headers=headers,
    )
    body = iter(reply.streaming_content)
    assert text(parsed(next(body) + next(body))) == "Hello "
    return reply


def test_by_default_a_client_that_leaves_frees_the_upstream_at_once(api, alice, large, upstream):
    reply = begun(api, upstream, STAY)
    leave(reply)
    assert upstream.requests[0].left.wait(2)
    assert_charged(alice, "partial", **PARTIAL)


def test_who_must_be_paid_to_the_end_is_read_to_the_end(api, alice, drains, upstream):
    gate = threading.Event()
    reply = begun(api, upstream, gate, *REST)
    gevent.spawn(gate.set)  # once the client has left
    leave(reply)
    assert not upstream.requests[0].left.is_set()
    assert_charged(alice, "reported", **REPORTED)


def test_who_does_not_report_is_charged_for_all_that_was_read(api, alice, drains, upstream):
    leave(begun(api, upstream, 0.05, words("x" * 400), FINISH, DONE))
    assert_charged(alice, "estimated", prompt=5, completion=102, nanos=5 * 3_000 + 102 * 15_000)


def test_who_breaks_off_while_it_is_drained_is_charged_so_far(api, alice, drains, upstream):
    leave(begun(api, upstream, 0.05, words("x" * 400), 0.05, RESET))
    assert_charged(alice, "partial", prompt=5, completion=102, nanos=5 * 3_000 + 102 * 15_000)


def test_draining_ends_by_the_providers_own_time(api, alice, drains, large, upstream):
    change_provider(large, total_seconds=1)
    leave(begun(api, upstream, *[step for _ in range(100) for step in (0.1, words("abcd"))]))
    assert upstream.requests[0].left.wait(5)
    [done] = Completion.objects.all()
    assert (done.settlement, done.prompt_tokens) == ("partial", 5)
    assert 2 < done.completion_tokens < 50
    assert relay._read_to_end == set()
    assert_true_book()


def test_draining_ends_when_it_falls_silent(api, alice, drains, large, upstream):
    change_provider(large, idle_seconds=1)
    leave(begun(api, upstream, STAY))
    assert upstream.requests[0].left.wait(5)
    assert_charged(alice, "partial", **PARTIAL)


def test_a_server_that_must_go_drains_no_more(api, alice, drains, upstream, monkeypatch):
    monkeypatch.setattr(draining, "_has_ended", False)  # and back, after the test
    reply = begun(api, upstream, STAY)
    gevent.spawn_later(0.1, draining.end)
    leave(reply)
    assert upstream.requests[0].left.wait(5)
    assert_charged(alice, "partial", **PARTIAL)


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "once"}], ids=["drained", "kept"])
def test_so_many_are_read_for_nobody_and_no_more(api, alice, drains, upstream, monkeypatch, headers):
    monkeypatch.setattr(relay, "_READ_TO_END_MAX", 0)
    leave(begun(api, upstream, 0.5, *REST, **headers))
    assert upstream.requests[0].left.wait(5)
    assert_charged(alice, "partial", **PARTIAL)
    assert not IdempotentRequest.objects.exists()  # it may be tried again


def test_who_has_been_drained_makes_room(api, alice, drains, upstream, monkeypatch):
    monkeypatch.setattr(relay, "_READ_TO_END_MAX", 1)
    for _ in range(3):
        leave(begun(api, upstream, 0.02, *REST))
    assert [done.settlement for done in Completion.objects.all()] == ["reported"] * 3


def test_a_client_that_stays_is_not_drained(api, alice, drains, upstream):
    upstream.will(stream(ROLE, words("Hello "), *REST))
    answer = ask_streamed(api)
    assert text(parsed(b"".join(answer.streaming_content))) == "Hello you"
    assert_answered(answer, "scripted", 1)
    assert_charged(alice, "reported", **REPORTED)
