"""Sixteen ways of a provider to misbehave: as the only route and as the first of two, for whole replies and for streams.

``make faults`` writes the table of `docs/reliability.md` from what happens here. Deadlines are fractions of a second.
"""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from billing.models import Hold, LedgerEntry
from completions.models import Completion
from tests import faults
from tests.completions.routes import add, change_provider
from tests.completions.rows import ask, lost_nanos, parsed, text
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import (
    CLOSE,
    HANG,
    RESET,
    ROLE,
    USAGE,
    Listener,
    Script,
    at_once,
    event,
    refusal,
    reply,
    stream,
    streamed,
    whole,
    words,
)

REPORTED_NANOS = 9 * 3_000 + 2 * 15_000
TEXT_NANOS = 5 * 3_000 + 2 * 15_000  # of the estimated prompt and "Hello "
SLOW = 0.8  # seconds, beyond the deadline to begin

BODY = whole()[0].partition(b"\r\n\r\n")[2]
HALF = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY[:60]]
ERROR = {"error": {"message": "overloaded", "type": "server_error", "code": 500}}
FILTERED = {"error": {"message": "The prompt was filtered.", "type": "invalid_request_error", "code": "content_filter"}}
FAILED_CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hello "}, "finish_reason": "error", **ERROR}


@dataclass(frozen=True)
class Misbehaviour:
    """What the provider does with a whole request and with a streamed one, and what happens, by the columns of the page."""

    whole: Script
    streamed: Script
    outcomes: tuple[str, str, str, str]
    scheme: str = "http"
    host: str = "127.0.0.1"


def either(script: Script, *outcomes: str, **address: str) -> Misbehaviour:
    return Misbehaviour(script, script, outcomes, **address)  # type: ignore[arg-type]


SECOND = "second"
SECOND_AND_LOSS = f"{SECOND}, loss"
BROKEN_OFF = "broken off"
FILTER = "400"
FAULTS = {
    "Slow first token": Misbehaviour(
        [SLOW, *whole()],
        [SLOW, *at_once(streamed())],
        ("answered", "504, loss", SECOND_AND_LOSS, SECOND_AND_LOSS),
    ),
    "No response": either([HANG], "504, loss", "504, loss", SECOND_AND_LOSS, SECOND_AND_LOSS),
    "Cut": Misbehaviour(
        [*HALF, CLOSE],
        stream(ROLE, CLOSE),
        ("502, loss", "502 twice", SECOND_AND_LOSS, SECOND),
    ),
    "Stall": Misbehaviour(
        [*HALF, HANG],
        at_once(stream(ROLE, HANG)),
        ("504, loss", "504, loss", SECOND_AND_LOSS, SECOND_AND_LOSS),
    ),
    "Empty reply": Misbehaviour(reply(b""), stream(b""), ("502", "502", SECOND, SECOND)),
    "Malformed JSON": Misbehaviour(reply(BODY[:-3]), stream(b'data: {"choices":\n\n'), ("502", "502", SECOND, SECOND)),
    "Wrong type": either(reply(b"<html>Welcome</html>", content_type="text/html"), "502", "502", SECOND, SECOND),
    "429 with Retry-After": either(refusal(429, retry_after="20"), "503", "503", SECOND, SECOND),
    "500": either(refusal(500), "502 twice", "502 twice", SECOND, SECOND),
    "401": either(refusal(401), "502", "502", SECOND, SECOND),
    "Content filter": either(reply(json.dumps(FILTERED).encode(), status=400), FILTER, FILTER, FILTER, FILTER),
    "Reset": either([RESET], "502 twice", "502 twice", SECOND, SECOND),
    "TLS": either(whole(), "502 twice", "502 twice", SECOND, SECOND, scheme="https"),
    "DNS": either(whole(), "502", "502", SECOND, SECOND, host="upstream.invalid"),
    "Error in a 200": Misbehaviour(
        reply(json.dumps(ERROR).encode()),
        stream(event(ERROR)),
        ("502 twice", "502 twice", SECOND, SECOND),
    ),
    "Error after text": Misbehaviour(
        reply(json.dumps({"choices": [FAILED_CHOICE], "usage": USAGE}).encode()),
        stream(ROLE + words("Hello "), 0.05, event(ERROR)),
        ("502 twice", BROKEN_OFF, SECOND, BROKEN_OFF),
    ),
}
CELLS = {
    (what, column): cell
    for what, each in FAULTS.items()
    for column, cell in zip(faults.PROVIDER_COLUMNS, each.outcomes, strict=True)
}


@pytest.fixture
def plain() -> Iterator[Listener]:
    """A port whose server speaks no TLS."""
    listener = Listener()

    def answer(connection: socket.socket) -> None:
        with connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    listener.serve = answer
    yield listener
    listener.close()


@pytest.fixture(autouse=True)
def _deadlines(settings):
    settings.UPSTREAM_FIRST_BYTE_SECONDS = settings.UPSTREAM_WHOLE_SECONDS = settings.UPSTREAM_IDLE_SECONDS = 0.3
    settings.UPSTREAM_TOTAL_SECONDS = 2


@fault(
    "Provider",
    "A provider misbehaves in [sixteen ways](#a-provider-that-misbehaves), as the only or the first route",
    "Before the first byte the second route answers, and only its reply is paid. Refusals of content are final",
)
@pytest.mark.parametrize("column", faults.PROVIDER_COLUMNS)
@pytest.mark.parametrize("what", FAULTS)
def test_a_provider_misbehaves(api, alice, large, upstream, spare, plain, record_property, what, column):
    misbehaviour, is_streamed = FAULTS[what], column.endswith("streamed")
    port = plain.port if misbehaviour.scheme == "https" else upstream.url.rpartition(":")[2].removesuffix("/v1")
    change_provider(large, base_url=f"{misbehaviour.scheme}://{misbehaviour.host}:{port}/v1")
    upstream.will(misbehaviour.streamed if is_streamed else misbehaviour.whole)
    spare.will(streamed() if is_streamed else whole())
    if column.startswith("Two"):
        add(large, spare)
    lost_before_nanos = lost_nanos("scripted")
    answer = ask(api, stream=is_streamed, max_tokens=10)
    found, charged_nanos = outcome(answer)
    if lost_nanos("scripted") > lost_before_nanos:
        found += ", loss"
    record_property("provider", (what, column, found))
    assert found == CELLS[what, column]
    assert_books(alice, charged_nanos)


def outcome(answer: Any) -> tuple[str, int]:
    """Return the words for a reply, and what it must cost."""
    raw, done = b"".join(answer.streaming_content) if answer.streaming else answer.content, Completion.objects.get()
    attempts = int(answer["x-gateway-attempts"])
    failed = answer.get("x-gateway-failed-providers", "")
    if answer.status_code != 200:
        assert failed == ", ".join(["scripted"] * attempts)
        return str(answer.status_code) + {1: "", 2: " twice"}[attempts], 0
    if answer.streaming and b'"error"' in raw:
        assert (text(parsed(raw)), attempts, failed) == ("Hello ", 1, "")
        return BROKEN_OFF, TEXT_NANOS
    said = text(parsed(raw)) if answer.streaming else json.loads(raw)["choices"][0]["message"]["content"]
    assert said == "Hello you"
    assert (done.provider_id, attempts) == (answer["x-gateway-provider"], done.attempts)
    assert failed == ", ".join(["scripted"] * (attempts - 1))
    return {"scripted": "answered", "spare": SECOND}[answer["x-gateway-provider"]], REPORTED_NANOS


def assert_books(account: Any, charged_nanos: int) -> None:
    """One hold, resolved; one entry for what is charged, or none."""
    debits = LedgerEntry.objects.filter(type=LedgerEntry.Type.USAGE_DEBIT).values_list("amount_nanos", flat=True)
    assert list(debits) == ([-charged_nanos] if charged_nanos else [])
    state = Hold.State.SETTLED if charged_nanos else Hold.State.RELEASED
    assert [hold.state for hold in Hold.objects.filter(account=account)] == [state]
    account.refresh_from_db()
    assert account.held_nanos == 0
    assert_ledger_is_consistent()


def test_the_page_has_this_table():
    assert faults.providers_in(faults.PAGE.read_text()) == CELLS
