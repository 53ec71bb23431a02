"""Every fault of an upstream, for a whole reply and for a stream: what the client sees, what is charged, how the hold ends.

One table. Faults of a particular wire format are tested with its adapter.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from billing.models import Hold
from gateway_project import metrics
from tests import waiting
from tests.completions.routes import change_provider, closed_port
from tests.completions.rows import ask, ask_streamed, assert_charged, assert_released, parsed, text
from tests.faults import fault
from tests.upstream import (
    CLOSE,
    DONE,
    FINISH,
    HANG,
    KEY,
    RESET,
    ROLE,
    USAGE,
    Script,
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

MAX_TOKENS = 10
BOUND = 50_000  # bytes of a reply, and of an event
SECRET = "their own words"  # no client may read it, unless its request is invalid


# --- Outcomes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Charge:
    """The settlement, and the charged tokens of prompt and completion."""

    settlement: str
    prompt: int = 0
    completion: int = 0


NOTHING = Charge("released")
REPORTED = Charge("reported", 9, 2)
ESTIMATED = Charge("estimated", 5, 3)  # of 18 bytes of prompt and 9 of reply
SO_FAR = Charge("partial", 5, 2)  # of "Hello "
ALL_THAT_IS_HELD = Charge("reported", 9, 1_000_000)


@dataclass(frozen=True)
class Refused:
    """An error status, before any byte of a reply."""

    status: int
    charge: Charge = NOTHING
    attempts: int = 1
    retry_after: str | None = None


@dataclass(frozen=True)
class Answered:
    """A complete reply."""

    charge: Charge = REPORTED


@dataclass(frozen=True)
class BrokenOff:
    """A stream that began: "Hello ", then one error event, and no [DONE]."""

    charge: Charge = SO_FAR


@dataclass(frozen=True)
class Fault:
    name: str
    script: Script | None  # None: the port is closed
    outcome: Refused | Answered
    streamed: Script | None
    streamed_outcome: Refused | Answered | BrokenOff


def either(name: str, script: Script | None, outcome: Refused) -> Fault:
    """A fault with the same outcome for a whole reply and a stream."""
    return Fault(name, script, outcome, script, outcome)


def broken(name: str, *steps: Any, whole: Script, outcome: Refused, charge: Charge = SO_FAR) -> Fault:
    """A fault whose steps follow "Hello " in a stream."""
    pause = [] if HANG in steps else [0.02]
    return Fault(name, whole, outcome, stream(ROLE + words("Hello "), *pause, *steps), BrokenOff(charge))


def counted(name: str, value: Any, charge: Charge) -> Fault:
    """A complete reply with this usage."""
    usage_events = [] if value is None else [usage(value)]
    return Fault(
        name,
        whole(usage=value),
        Answered(charge),
        stream(ROLE, words("Hello ", "you"), FINISH, *usage_events, DONE),
        Answered(charge),
    )


# --- Faults -----------------------------------------------------------------------------------------------------

WHOLE = whole()
BODY = WHOLE[0].partition(b"\r\n\r\n")[2]
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
HALF = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY[:60]]
STREAM = ROLE + words("Hello ", "you") + FINISH + usage() + DONE
BOMB = gzip.compress(b"data: " + b"x" * 20_000_000)
AGAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmore"
ERROR = {"error": {"message": SECRET, "type": "server_error", "code": 500}}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hel"}, "finish_reason": "error"}


def told(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


FAULTS = [
    # Before it answers
    either("a closed port", None, Refused(502, attempts=2)),
    either("429", refusal(429, SECRET), Refused(503, attempts=2)),
    either("429 with a Retry-After", refusal(429, SECRET, retry_after="20"), Refused(503, retry_after="20")),
    either("500", refusal(500, SECRET), Refused(502, attempts=2)),
    either("502", refusal(502, SECRET), Refused(502, attempts=2)),
    either("503", refusal(503, SECRET), Refused(503, attempts=2)),
    either("500 without an end", [b"HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\nno", RESET], Refused(502, attempts=2)),
    either("401", refusal(401, f"{SECRET} {KEY}"), Refused(502)),
    either("403", refusal(403, SECRET), Refused(502)),
    either("400", refusal(400, "The context is too long."), Refused(400)),
    either("silence before the headers", [HANG], Refused(504)),
    either("a cut before the headers", [CLOSE], Refused(502, attempts=2)),
    either("a reset in the headers", [b"HTTP/1.1 200 OK\r\nX-", RESET], Refused(502, attempts=2)),
    either("no HTTP", [b"SSH-2.0-OpenSSH_9.6\r\n", CLOSE], Refused(502, attempts=2)),
    # After its headers
    either("silence after the headers", [EMPTY, HANG], Refused(504)),
    broken("silence in the middle", HANG, whole=[*HALF, HANG], outcome=Refused(504)),
    broken("a reset in the middle", RESET, whole=[*HALF, 0.02, RESET], outcome=Refused(502)),
    broken("half of it", CLOSE, whole=[*HALF, CLOSE], outcome=Refused(502)),
    broken("an end without a finish reason", whole=reply(b'{"choices":[]}'), outcome=Refused(502)),
    Fault(
        "a [DONE] without a finish reason",
        whole(finish_reason=None),
        Answered(),
        stream(ROLE, words("Hello ", "you"), usage(), DONE),
        Answered(),
    ),
    Fault("a [DONE] and nothing else", reply(b"{}"), Refused(502), stream(DONE), Refused(502)),
    Fault(
        "a byte at a time",
        [WHOLE[0][:60], 0.02, *[bytes([byte]) for byte in WHOLE[0][60:]]],
        Answered(),
        stream(*[bytes([byte]) for byte in STREAM]),
        Answered(),
    ),
    # Garbage
    either("HTML with a 200", reply(f"<html>{SECRET}</html>".encode(), content_type="text/html"), Refused(502)),
    either("nothing with a 200", reply(b""), Refused(502)),
    either("a gzip bomb", reply(BOMB, content_encoding="gzip"), Refused(502)),
    broken("bad JSON", b"data: {" + SECRET.encode() + b"\n\n", whole=reply(BODY[:-3]), outcome=Refused(502)),
    broken(
        "bad UTF-8",
        chunk({"content": "x"}).replace(b'"x"', b'"\xff"'),
        whole=reply(BODY.replace(b"you", b"\xff")),
        outcome=Refused(502),
    ),
    broken("a bomb in the middle", BOMB, whole=reply(BOMB), outcome=Refused(502)),
    broken("a huge line", b"data: " + b"x" * (2 * BOUND), whole=whole("x" * (2 * BOUND)), outcome=Refused(502)),
    broken("a huge event of small lines", b"data: \n" * BOUND, whole=reply(b"[]" * BOUND), outcome=Refused(502)),
    broken("something deep", b"data: " + b"[" * 40_000 + b"\n\n", whole=reply(b"[" * 40_000), outcome=Refused(502)),
    # Errors with a 200
    either("an error with a 200", reply(json.dumps(ERROR).encode()), Refused(502, attempts=2)),
    either("an error in a list with a 200", reply(json.dumps([ERROR]).encode()), Refused(502, attempts=2)),
    either("an error as text with a 200", reply(json.dumps({"error": SECRET}).encode()), Refused(502, attempts=2)),
    either("Mistral's error with a 200", reply(told(object="error", message=SECRET)), Refused(502, attempts=2)),
    either("FastAPI's error with a 200", reply(told(detail=[{"msg": SECRET}])), Refused(502, attempts=2)),
    either("a 429 with a 200", reply(told(error={"message": SECRET, "code": 429})), Refused(503, attempts=2)),
    either("a 401 with a 200", reply(told(error={"message": f"{SECRET} {KEY}", "code": "401"})), Refused(502)),
    either("a 400 with a 200", reply(told(error={"message": "The context is too long.", "code": 400})), Refused(400)),
    Fault(
        "an error after the role",
        reply(b'{"error":"no"}'),
        Refused(502, attempts=2),
        stream(ROLE + event(ERROR)),
        Refused(502, attempts=2),
    ),
    Fault(
        "an error in a choice",
        reply(told(choices=[{**CHOICE, **ERROR}], usage=USAGE)),
        Refused(502, attempts=2),
        stream(ROLE + event({"choices": [{"index": 0, "delta": {}, **ERROR}]})),
        Refused(502, attempts=2),
    ),
    Fault(
        "the finish reason error",
        whole(finish_reason="error"),
        Refused(502, attempts=2),
        stream(ROLE + chunk(finish_reason="error")),
        Refused(502, attempts=2),
    ),
    broken("an error in the middle", event(ERROR), whole=reply(b'[{"error":{}}]'), outcome=Refused(502)),
    broken("an error in a choice in the middle", event({"choices": [ERROR]}), whole=reply(b"[]"), outcome=Refused(502)),
    broken("the finish reason error in the middle", chunk(finish_reason="error"), whole=reply(b"7"), outcome=Refused(502)),
    broken("an error of much text", event({"error": {"message": SECRET * 500}}), whole=reply(b"null"), outcome=Refused(502)),
    # Usage
    counted("no usage", None, ESTIMATED),
    counted("usage of zero", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Charge("reported", 0, 0)),
    counted("negative usage", {**USAGE, "completion_tokens": -2}, ESTIMATED),
    counted("usage of a million millions", {**USAGE, "prompt_tokens": 10**12}, ESTIMATED),
    counted("usage as text", {**USAGE, "prompt_tokens": "9"}, REPORTED),
    counted("usage as words", {**USAGE, "prompt_tokens": "nine"}, ESTIMATED),
    counted("usage as a whole fraction", {**USAGE, "completion_tokens": 2.0}, REPORTED),
    counted("usage as a fraction", {**USAGE, "completion_tokens": 2.5}, ESTIMATED),
    counted("usage above the hold", {**USAGE, "completion_tokens": 1_000_000}, ALL_THAT_IS_HELD),
    # Repetitions
    Fault("the last chunk twice", WHOLE, Answered(), stream(STREAM.replace(FINISH, FINISH + FINISH)), Answered()),
    Fault(
        "usage twice",
        WHOLE,
        Answered(),
        stream(STREAM.replace(FINISH, FINISH + usage({**USAGE, "completion_tokens": 1}))),
        Answered(),
    ),
    Fault("more behind the end", [*WHOLE, 0.02, AGAIN, CLOSE], Answered(), stream(STREAM + b"data: never\n\n"), Answered()),
    Fault("a second reply at once", [WHOLE[0] + AGAIN], Answered(), [*stream(STREAM), AGAIN], Answered()),
    Fault("[DONE] twice", WHOLE, Answered(), stream(STREAM + DONE), Answered()),
    Fault("a break after the finish reason", WHOLE, Answered(), stream(STREAM.removesuffix(DONE), 0.02, RESET), Answered()),
]


# --- The table, row by row ---------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _bounds(settings):
    settings.UPSTREAM_REPLY_BYTES_MAX = settings.UPSTREAM_EVENT_BYTES_MAX = BOUND


@pytest.fixture
def play(large, upstream, settings):
    def play(script: Script | None) -> None:
        if script is None:
            change_provider(large, base_url=closed_port())
            return
        if script == [HANG]:
            settings.UPSTREAM_FIRST_BYTE_SECONDS, settings.UPSTREAM_TOTAL_SECONDS = 1, 2
        elif HANG in script:
            settings.UPSTREAM_IDLE_SECONDS = 0.1
        upstream.will(at_once(script) if HANG in script else script)

    return play


@fault(
    "Provider",
    "A provider fails before or in a whole reply: errors, resets, silence, garbage, impossible usage",
    "The caller gets our error, without the provider's words, or the reply, and pays by the [charging page](charging.md)",
)
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_of_a_whole_reply(api, alice, play, upstream, fault):
    play(fault.script)
    check(lambda: ask(api, max_tokens=MAX_TOKENS), alice, upstream, fault.outcome)


@fault(
    "Provider",
    "A provider fails in a stream, before or after its first word: errors, resets, silence, garbage, impossible usage",
    "The stream ends with an error event or whole; the charge is by the [charging page](charging.md)",
)
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_of_a_stream(api, alice, play, upstream, fault):
    play(fault.streamed)
    check(lambda: ask_streamed(api, max_tokens=MAX_TOKENS), alice, upstream, fault.streamed_outcome)


def check(asking: Callable[[], Any], account: Any, upstream: Any, outcome: Refused | Answered | BrokenOff) -> None:
    lost_before_nanos = metrics.operator_loss_nanos._value.get()
    answer = asking()
    raw = b"".join(answer.streaming_content) if answer.streaming else answer.content
    checks: dict[type, Callable[..., None]] = {Refused: check_refused, Answered: check_answered, BrokenOff: check_broken_off}
    checks[type(outcome)](answer, raw, outcome)
    assert SECRET.encode() not in raw
    assert KEY.encode() not in raw
    assert account.completions.get().attempts == (outcome.attempts if isinstance(outcome, Refused) else 1)
    if upstream.requests:
        waiting.until(lambda: len(upstream.requests) >= account.completions.get().attempts)
        assert len(upstream.requests) == account.completions.get().attempts
    lost_nanos = metrics.operator_loss_nanos._value.get() - lost_before_nanos
    check_charged(account, outcome.charge, lost_nanos)


def check_refused(answer: Any, raw: bytes, outcome: Refused) -> None:
    assert (answer.status_code, answer["Content-Type"]) == (outcome.status, "application/json")
    error = json.loads(raw)["error"]
    assert error["code"] == ("invalid_request_error" if outcome.status == 400 else "upstream_error")
    assert answer.get("Retry-After") == outcome.retry_after


def check_answered(answer: Any, raw: bytes, outcome: Answered) -> None:
    assert answer.status_code == 200
    if not answer.streaming:
        assert json.loads(raw)["choices"][0]["message"]["content"] == "Hello you"
        return
    received = parsed(raw)
    assert text(received) == "Hello you"
    assert [event for event in received if event == "[DONE]" or "error" in event] == ["[DONE]"]
    assert received[-1] == "[DONE]"


def check_broken_off(answer: Any, raw: bytes, outcome: BrokenOff) -> None:
    assert answer.status_code == 200
    received = parsed(raw)
    assert text(received) == "Hello "
    assert "[DONE]" not in received
    assert [event for event in received if "error" in event] == received[-1:]
    assert received[-1]["error"]["code"] == "upstream_error"
    assert list(received[-1]) == ["error"]


def check_charged(account: Any, charge: Charge, lost_nanos: int) -> None:
    """Check the charge, the operator's loss and the ledger, and that no hold is open."""
    nanos = charge.prompt * 3_000 + charge.completion * 15_000
    if charge is NOTHING:
        assert_released(account)
    else:
        charged_nanos = min(nanos, account.holds.get().amount_nanos)
        assert_charged(account, charge.settlement, prompt=charge.prompt, completion=charge.completion, nanos=charged_nanos)
        assert lost_nanos == nanos - charged_nanos
        assert (lost_nanos > 0) == (charge is ALL_THAT_IS_HELD)
    assert not Hold.objects.filter(state=Hold.State.HELD).exists()


def test_the_valid_stream_of_this_table_is_answered(api, alice, play, upstream):
    play(streamed())
    check(lambda: ask_streamed(api, max_tokens=MAX_TOKENS), alice, upstream, Answered())
