"""Completions whose upstream sends interim, second or endless responses. Reads are bounded and yield to other greenlets."""

import time
from typing import Any, cast

import gevent
import pytest

from completions import chat
from completions.providers import reading
from gateway_project.net import http
from tests.completions.rows import ask, ask_streamed, assert_charged, assert_released, events, text
from tests.upstream import DONE, EARLY_HINTS, FINISH, HANG, ROLE, usage, whole, words
from tests.upstream import stream as streamed

# --- Interim and second responses -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("large")
def test_an_interim_response_is_skipped(api, alice, upstream):
    upstream.will([EARLY_HINTS, 0.05, EARLY_HINTS, *whole("Hello you")])
    assert ask(api).json()["choices"][0]["message"]["content"] == "Hello you"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.usefixtures("large")
def test_an_interim_response_before_a_stream_is_skipped(api, alice, upstream):
    upstream.will([EARLY_HINTS, *streamed(0.05, ROLE, 0.05, words("Hello you"), 0.05, FINISH, usage(), DONE)])
    assert text(events(ask_streamed(api))) == "Hello you"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.usefixtures("large")
def test_a_second_response_is_dropped_with_its_connection(api, alice, upstream):
    upstream.will([whole("Hello you")[0] + whole("Hello somebody else")[0]], whole("Hello again"))
    assert ask(api).json()["choices"][0]["message"]["content"] == "Hello you"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    assert ask(api).json()["choices"][0]["message"]["content"] == "Hello again"
    assert [received.connection for received in upstream.requests] == [1, 2]


# --- Bounds -----------------------------------------------------------------------------------------------------------

HEADS = {
    "one long header": b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 70_000,
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X-One-Of-Many: of them\r\n" * 4_000,
    "in replies before the reply": EARLY_HINTS * 5_000,
    "in replies without headers": b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
}


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_an_endless_head_is_an_upstream_error(api, alice, upstream, head):
    upstream.will([head, HANG])
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert upstream.sees_disconnect()
    assert_released(alice)


class EndlessResponse:
    """A response that always has more to read."""

    idle_seconds = 5

    def read_some(self, timeout_seconds):
        return b": comment\n\n"


def test_a_stream_that_never_pauses_yields_to_other_greenlets():
    turns = []
    gevent.spawn(turns.append, "other")
    paced, deadline = reading.PacedReader(cast(Any, EndlessResponse()), chat.no_pace), time.monotonic() + 60
    while not turns and time.monotonic() < deadline:
        paced.read()
    assert turns == ["other"]


class EndingResponse:
    """A response whose total deadline passes in its first wait."""

    idle_seconds = 5

    def __init__(self):
        self.has_waited = False

    def read_some(self, timeout_seconds):
        if self.has_waited:
            raise http.TimedOut("total")
        self.has_waited = True


def test_the_total_deadline_brings_its_error_and_no_heartbeat_before():
    with pytest.raises(http.TimedOut, match="total"):
        reading.PacedReader(cast(Any, EndingResponse()), chat.no_pace).read()
