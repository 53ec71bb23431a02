"""The programs that produce a ``history``: clients that record what they are told, and a reader of the ledger beside them.

Each is a process of its own, ``python -m tests.live.history_programs client|reader``. It reads its task as one line of JSON and
writes what it records as lines of JSON. With the same seed, clients repeat the same requests in the same order.
"""

import dataclasses
import http.client
import json
import math
import random
import select
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

from tests.live.history import BalanceReading, Call, EntryJson, LedgerReading

ODD, DEAR, NEVER = "demo/odd", "demo/dear", "demo/never"
UNLIMITED, LIMITED = ("first", "second"), "limited"
PAGE = 100
TIMEOUT_SECONDS = 300
KINDS = {
    "whole": 6,
    "streamed": 4,
    "left": 3,
    "left_at_once": 1,
    "retried": 6,
    "contradicted": 1,
    "broken": 1,
    "failing": 1,
    "invalid": 1,
    "unknown": 1,
    "excessive": 1,
}


# --- A client's requests -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Ask:
    """A request, and when its client disconnects."""

    key: str
    fields: dict[str, Any]
    retry_key: str | None = None
    disconnects_after_events: int | None = None  # 0: before the reply's head


def asks(seed: str, client: int, count: int) -> Iterator[Ask]:
    chance = random.Random(f"{seed}/{client}")
    for number in range(count):
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        key = chance.choice([*UNLIMITED, LIMITED])
        yield _ask(kind, key, chance, f"{seed}/{number // 6}")  # several clients send the same request at about the same time


def _ask(kind: str, key: str, chance: random.Random, shared: str) -> Ask:
    match kind:
        case "whole":
            return Ask(key, _fields(chance))
        case "streamed":
            return Ask(key, _streamed(chance))
        case "left":
            slow = {"delay_seconds": 0.004, "report_usage": chance.random() < 0.5}
            return Ask(key, _streamed(chance, echo=slow), disconnects_after_events=chance.randint(1, 4))
        case "left_at_once":
            return Ask(key, _fields(chance, echo={"delay_seconds": 0.004}), disconnects_after_events=0)
        case "retried":
            same = random.Random(shared)
            fields = _streamed(same) if same.random() < 0.5 else _fields(same)
            return Ask(
                key, fields, shared, disconnects_after_events=1 if fields.get("stream") and chance.random() < 0.3 else None
            )
        case "contradicted":
            return Ask(key, {**_fields(chance), "user": str(chance.random())}, shared)
        case "broken":
            return Ask(key, _streamed(chance, echo={"break_after_tokens": chance.randint(1, 3)}))  # after no text it is free
        case "failing":
            return Ask(key, {**_fields(chance), "model": NEVER, "echo": {"status": chance.choice([400, 429, 500])}})
        case "invalid":
            return Ask(key, {**_fields(chance), "model": NEVER, "temperature": 3})
        case "unknown":
            return Ask(chance.choice([key, "nobody"]), {**_fields(chance), "model": "demo/unheard-of"})
    return Ask(key, {**_fields(chance), "model": DEAR, "max_tokens": 4_096})  # ties up what other requests need


def _fields(chance: random.Random, **more: Any) -> dict[str, Any]:
    text = "word " * chance.randint(1, 30)
    fields = {"model": chance.choice([ODD, DEAR]), "messages": [{"role": "user", "content": text}], **more}
    return fields if chance.random() < 0.2 else {**fields, "max_tokens": chance.randint(1, 40)}


def _streamed(chance: random.Random, **more: Any) -> dict[str, Any]:
    return _fields(chance, stream=True, stream_options={"include_usage": chance.random() < 0.7}, **more)


# --- Its replies -------------------------------------------------------------------------------------------------


def call(port: int, secret: str, ask: Ask, name: str, trust: ssl.SSLContext | None = None) -> Call:
    """Send a request, over TLS if there is a certificate to ``trust``, and record what comes."""
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json", "Connection": "close"}
    if ask.retry_key:
        headers["Idempotency-Key"] = ask.retry_key
    facts: dict[str, Any] = {}
    client = _connection(port, trust)
    called_at = time.monotonic()
    try:
        client.request("POST", "/v1/chat/completions", json.dumps(ask.fields), headers)
        for fact in _received(client, ask):
            facts.update(fact)
    except (ConnectionError, http.client.HTTPException, TimeoutError):
        pass  # what has arrived is recorded
    finally:
        client.close()
    fields = ask.fields
    return Call(
        name, ask.key, fields["model"], called_at, max_tokens=fields.get("max_tokens"), retry_key=ask.retry_key, **facts
    )


def _connection(port: int, trust: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if trust is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS, context=trust)


def _received(client: http.client.HTTPConnection, ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield facts in the order of their arrival, until the client disconnects."""
    if ask.disconnects_after_events == 0:
        return
    reply = client.getresponse()
    yield {"status": reply.status, "is_replayed": reply.headers.get("Idempotent-Replayed") == "true"}
    if reply.headers.get_content_type() != "text/event-stream":
        body = reply.read()
        if reply.headers.get_content_type() == "application/json":  # what stands before the gateway says 502 in HTML
            yield _facts(json.loads(body))
        yield {"replied_at": time.monotonic()}
        return
    for number, line in enumerate(line for line in reply if line.startswith(b"data: ")):
        if number == ask.disconnects_after_events:
            return
        if line == b"data: [DONE]\n":
            reply.read()
            yield {"replied_at": time.monotonic()}
        elif line.endswith(b"\n"):  # else the connection broke within the line
            yield _facts(json.loads(line.removeprefix(b"data: ")))


def _facts(body: dict[str, Any]) -> dict[str, Any]:
    facts = {"completion_id": body["id"]} if "id" in body else {}
    usage = body.get("usage") or {}
    return facts | {name: usage[name] for name in ("prompt_tokens", "completion_tokens") if name in usage}


# --- The reader's requests ---------------------------------------------------------------------------------------


def get(port: int, secret: str, path: str) -> Any:
    """Use a new connection each time, so that every worker is asked."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        client.request("GET", path, headers={"Authorization": f"Bearer {secret}", "Connection": "close"})
        reply = client.getresponse()
        body = json.loads(reply.read())
        assert reply.status == 200, body
        return body
    finally:
        client.close()


def read_ledger(port: int, secret: str) -> LedgerReading:
    """Read all pages. New entries push older ones to the next page, which then begins with some of the previous page."""
    began_at = time.monotonic()
    newest_first: list[EntryJson] = []
    seen_ids: set[str] = set()
    count, offset = PAGE, 0
    while count == PAGE:
        page = get(port, secret, f"/api/billing/ledger?limit={PAGE}&offset={offset}")
        entries, count, offset = page["entries"], page["count"], offset + PAGE
        while entries and entries[0]["id"] in seen_ids:
            entries.pop(0)
        newest_first += entries
        seen_ids.update(entry["id"] for entry in entries)
    return LedgerReading(began_at, time.monotonic(), newest_first[::-1])


def read_balance(port: int, secret: str) -> BalanceReading:
    began_at = time.monotonic()
    cents = get(port, secret, "/api/billing/balance")["balanceInCents"]
    return BalanceReading(began_at, time.monotonic(), cents)


def read_prices(port: int, secret: str) -> dict[str, tuple[Decimal, Decimal]]:
    """Return dollars per token of prompt and of reply, by model."""
    listed = get(port, secret, "/v1/models")["data"]
    return {model["id"]: (Decimal(model["pricing"]["prompt"]), Decimal(model["pricing"]["completion"])) for model in listed}


# --- The processes -----------------------------------------------------------------------------------------------


def main() -> None:
    roles: dict[str, Callable[..., Any]] = {"client": _client, "reader": _reader}
    role = roles[sys.argv[1]]
    for seen in role(**json.loads(sys.stdin.readline())):
        facts = {name: value for name, value in dataclasses.asdict(seen).items() if value != math.inf}
        sys.stdout.write(json.dumps({"is": type(seen).__name__, **facts}) + "\n")


def _client(port: int, secrets: dict[str, str], seed: str, client: int, count: int) -> Iterator[Call]:
    for number, ask in enumerate(asks(seed, client, count)):
        yield call(port, secrets[ask.key], ask, f"{client}/{number}")


def _reader(port: int, secret: str) -> Iterator[LedgerReading | BalanceReading]:
    """Read until stdin says to end, and once more then."""
    is_over = False
    while True:
        yield read_balance(port, secret)
        yield read_ledger(port, secret)
        if is_over:
            yield read_balance(port, secret)
            return
        is_over = bool(select.select([sys.stdin], [], [], 0.05)[0])


def parse_output(lines: str) -> list[Any]:
    """Parse what a process has written."""
    kinds = {kind.__name__: kind for kind in (Call, LedgerReading, BalanceReading)}
    return [kinds[facts.pop("is")](**facts) for facts in map(json.loads, lines.splitlines())]


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
