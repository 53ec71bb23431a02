"""The Python functions that a completion calls in a web process: no feature may add to them unnoticed.

Processor time differs from machine to machine and from minute to minute. The number of calls does not, and the time follows it.
It is counted for one client on one connection, with every feature that is on by default. The smallest number of several
requests counts, for each function: what the process does beside them only adds. ``call_budget.csv`` has the calls of each
function from when the budget was set, so that a failure can name those that grew. CALL_BUDGET=write writes it anew.
"""

import csv
import functools
import http.client
import json
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import factories, waiting
from tests.live import calls, conftest
from tests.live.gateway import QUESTION, Gateway, wait_until_settled
from tests.upstream import DONE, FINISH, ROLE, Script, at_once, stream, usage, whole, words

# The calls of a whole completion; of a stream of 104 events that arrive at once; and of each further event, when it arrives at
# once with others, and when it arrives alone. A little is left for what differs from run to run.
BUDGET = {"whole": 684, "stream": 782, "event": 0.1, "lone event": 26.5}
_OTHER_PYTHONS = 1.02  # of the budget: the standard library of another version calls a little more or less
_MEASURED = (3, 11)
_WARM_UP, _COUNTED = 10, 12
_FOUND_NOTHING = "gevent/_compat.py exc_clear"  # of a read: whether the next event is there yet depends on the machine
_TABLE = Path(__file__).with_name("call_budget.csv")
Calls = Mapping[str, float]  # by function


@pytest.fixture
def calls_file(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def gateway(transactional_db: None, calls_file: Path, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway with one worker, which counts. It reads the catalog at the beginning only, as if it were busier."""
    settings = {"GATEWAY_CATALOG_CACHE_SECONDS": "60", calls.FILE_ENV: str(calls_file)}
    served = conftest.start(tmp_path / "log", settings, "tests/live/counting.conf.py")
    yield served
    served.stop()


def test_a_completion_stays_within_its_budget_of_calls(gateway, alice, large, upstream, calls_file):
    secret = factories.make_key(alice)[1]
    client = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=waiting.PROCESS_SECONDS_MAX)

    def fewest(answer: Callable[[], None], *, warm_up: int = 1) -> Calls:
        """Return the fewest calls of each function. In single requests, a busy machine adds reads that find nothing yet."""
        for _ in range(warm_up):
            answer()
        since = len(calls.read(calls_file))
        for _ in range(_COUNTED + 1):
            answer()
        counted = calls.read(calls_file)[since + 1 :]
        fewest_of_each = functools.reduce(operator.and_, counted)
        return {function: number for function, number in fewest_of_each.items() if function != _FOUND_NOTHING}

    def ask_whole() -> None:
        assert b'"finish_reason":"stop"' in _ask(client, secret).read()

    def ask_stream() -> None:
        assert _ask(client, secret, stream=True).read().endswith(DONE)

    def ask_paced() -> None:
        reply = _ask(client, secret, stream=True)
        while line := reply.readline():
            if b"word" in line:
                is_read.release()
        assert is_read.acquire(blocking=False), "no event waited for the last one"

    upstream.will(whole())
    counted = {"whole": fewest(ask_whole, warm_up=_WARM_UP)}
    upstream.will(_burst(104))
    counted["stream"] = fewest(ask_stream, warm_up=_WARM_UP)
    upstream.will(_burst(304))
    counted["event"] = _each(fewest(ask_stream), counted["stream"], 200)
    is_read = threading.Semaphore(0)
    upstream.will(_paced(10, is_read))
    few = fewest(ask_paced)
    upstream.will(_paced(30, is_read))
    counted["lone event"] = _each(fewest(ask_paced), few, 20)
    client.close()
    wait_until_settled(alice)
    if os.environ.get("CALL_BUDGET") == "write":
        _write_table(counted)
    excesses = [_excess(kind, counted[kind]) for kind in BUDGET if _total(counted[kind]) > _budget(kind)]
    assert not excesses, "\n\n".join(excesses)


# --- Requests -----------------------------------------------------------------------------------------------------------


def _ask(client: http.client.HTTPConnection, secret: str, **fields: Any) -> http.client.HTTPResponse:
    body = json.dumps({"model": "acme/large", "messages": QUESTION, "max_tokens": 400, **fields})
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    client.request("POST", "/v1/chat/completions", body, headers)
    return client.getresponse()


def _burst(events: int) -> list[Any]:
    """Return a stream of so many events, with [DONE], in one write."""
    return at_once(stream(ROLE, words(*["word "] * (events - 4)), FINISH, usage(), DONE))


def _paced(events: int, is_read: threading.Semaphore) -> list[Any]:
    """Return a stream of so many words, each of which waits until the client has read the one before."""
    later: Script = [is_read.acquire, words("word ")] * (events - 1)
    return at_once(stream(ROLE, words("word "), *later, FINISH, usage(), DONE))


# --- Counts -------------------------------------------------------------------------------------------------------------


def _each(more: Calls, fewer: Calls, events: int) -> Calls:
    """Return the calls of each further event, from those of two streams."""
    return {function: (more.get(function, 0) - fewer.get(function, 0)) / events for function in {*more, *fewer}}


def _total(counted: Calls) -> float:
    return round(sum(counted.values()), 1)


def _budget(kind: str) -> float:
    return BUDGET[kind] * (1 if sys.version_info[:2] == _MEASURED else _OTHER_PYTHONS)


def _excess(kind: str, counted: Calls) -> str:
    with _TABLE.open(newline="") as file:
        before = {row["function"]: float(row[kind]) for row in csv.DictReader(file)}
    growth = {function: calls - before.get(function, 0) for function, calls in counted.items()}
    grown = sorted((function for function in growth if growth[function] > 0.01), key=lambda function: -growth[function])
    lines = [f"  {growth[function]:+.2f}  {function}" for function in grown[:20]]
    return "\n".join([f"{kind}: {_total(counted)} calls, and the budget is {_budget(kind)}. More often than before:", *lines])


def _write_table(counted: dict[str, Calls]) -> None:
    with _TABLE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["function", *BUDGET])
        table.writerow(["(all)", *(_total(counted[kind]) for kind in BUDGET)])
        functions = {function for each in counted.values() for function in each}
        for function in sorted(functions, key=lambda each: (-counted["whole"].get(each, 0), each)):
            row = [round(counted[kind].get(function, 0), 2) for kind in BUDGET]
            if max(row) >= 0.1:
                table.writerow([function, *(f"{calls:g}" for calls in row)])
