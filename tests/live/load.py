"""Many clients of one account that use one or several gateways for a time, and what the ledger must say of their replies.

The requests are whole, streamed, and left by their clients midway. A seed repeats their order. Clients with a pace stay to the
end, and send as many requests a second whatever else the machine does: what they get is how much of a service they kept.
"""

import math
import os
import random
import secrets
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPConnection, HTTPException
from itertools import accumulate
from typing import Any, Protocol

from tests import waiting
from tests.faults import Figures
from tests.live import history_programs
from tests.live.history import Call
from tests.live.history_programs import Ask

SEED = os.environ.get("FAULT_SEED") or secrets.token_hex(4)
CLIENTS = 8
PROBE_SECONDS = 0.5
ECHO, REMOTE = "demo/echo", "bench/instant"  # in the gateway's process, and over a socket


class HasPort(Protocol):
    """A gateway, or what stands before several."""

    port: int


def asks(client: int, models: Sequence[str] = (ECHO, REMOTE), left: float = 0.2, keyed: float = 0) -> Iterator[Ask]:
    """Yield the requests of one client, without an end. It leaves one share of them, and sends one with an Idempotency-Key."""
    chance = random.Random(f"{SEED}/{client}")
    while True:
        model = chance.choice(models)
        messages = [{"role": "user", "content": "word " * chance.randint(1, 40)}]
        fields: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": 100, "stream": chance.random() < 0.6}
        if fields["stream"]:
            fields["stream_options"] = {"include_usage": True}
        if model == ECHO:
            fields["echo"] = {"delay_seconds": chance.choice([0, 0.01])}
        leaves = chance.random() < left
        left_after = chance.randint(0, 6 if fields["stream"] else 0) if leaves else None
        yield Ask("first", fields, secrets.token_hex(8) if chance.random() < keyed else None, left_after)


@dataclass
class Load:
    """Clients in threads, each of which sends its next request to any of the gateways when the last one is over."""

    gateways: Sequence[HasPort]
    secret: str
    models: Sequence[str] = (ECHO, REMOTE)
    trust: ssl.SSLContext | None = None  # the certificates of what serves TLS
    keyed: float = 0  # the share of requests with an Idempotency-Key
    pace_seconds: float | None = None  # how often each client sends a request; None: as soon as the last one is over
    calls: list[Call] = field(default_factory=list)
    served_at: dict[int, list[float]] = field(default_factory=dict)  # by port: when each reply of status 200 ended
    cut_off: list[Call] = field(default_factory=list)  # the client stayed, and did not get the end of its reply
    probed_seconds: list[float] = field(default_factory=list)  # how long each reply of /readyz took
    _over: threading.Event = field(default_factory=threading.Event)

    def answered(self) -> int:
        return sum(call.status == 200 for call in self.calls)

    def statuses(self) -> Counter[int | None]:
        return Counter(call.status for call in self.calls)

    def rate(self, since: float, until: float) -> float:
        """Return the replies of status 200 per second between two moments."""
        return sum(since <= moment < until for times in self.served_at.values() for moment in times) / (until - since)

    def kept(self, since: float, until: float) -> float:
        """Return the rate between two moments, as a part of the rate within the eight seconds before."""
        return self.rate(since, until) / self.rate(since - 8, since)

    def seconds_until_served(self, since: float) -> float:
        """Return after how many seconds every gateway had served a reply again, or infinity."""
        first = [
            min((moment for moment in self.served_at.get(each.port, []) if moment >= since), default=math.inf)
            for each in self.gateways
        ]
        return max(first) - since

    def run(self, client: int) -> None:
        chance = random.Random(f"{SEED}/gateways/{client}")
        wanted = asks(client, self.models, 0.2 if self.pace_seconds is None else 0, self.keyed)
        next_at = time.monotonic() + (self.pace_seconds or 0) * client / CLIENTS
        for number, ask in enumerate(wanted):
            if self._over.wait(max(next_at - time.monotonic(), 0)):
                return
            next_at = max(next_at, time.monotonic() - 1) + (self.pace_seconds or 0)
            port = chance.choice(self.gateways).port
            call = history_programs.call(port, self.secret, ask, f"{client}/{number}", self.trust)
            self.calls.append(call)
            if call.status == 200 and call.is_whole:
                self.served_at.setdefault(port, []).append(call.replied_at)
            if ask.disconnects_after_events is None and not call.is_whole:
                self.cut_off.append(call)

    def probe(self) -> None:
        """Ask every gateway whether it is ready, as a balancer does. One that has ended refuses the connection."""
        while not self._over.wait(PROBE_SECONDS):
            for port in {each.port for each in self.gateways}:
                asked_at = time.monotonic()
                with (
                    suppress(OSError, HTTPException),
                    closing(HTTPConnection("127.0.0.1", port, timeout=waiting.PROCESS_SECONDS_MAX)) as client,
                ):
                    client.request("GET", "/readyz")
                    client.getresponse().read()
                self.probed_seconds.append(time.monotonic() - asked_at)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Run while the block runs. At its end all requests are over."""
        threads = [threading.Thread(target=self.run, args=[client]) for client in range(CLIENTS)]
        if not self.trust:
            threads.append(threading.Thread(target=self.probe))
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join()


@dataclass(frozen=True)
class Books:
    """The debits of a database, when no hold is open, and what clients were told by ``calls``."""

    calls: Sequence[Call]
    debits: dict[str, list[int]]  # by completion id: the tokens of the prompt and of the reply
    overcharged: set[str]  # completions that were charged more than these tokens cost
    lost: set[str]  # completions that are dead letters: counted as a loss, and not charged
    deaths: bool  # processes died: what their clients did not get whole may be charged or not

    @cached_property
    def whole(self) -> dict[str, Call]:
        """The replies that arrived to their end."""
        return {call.completion_id: call for call in self.calls if call.completion_id and call.is_whole}

    @cached_property
    def begun(self) -> set[str]:
        """The completions that a client was told of."""
        return {call.completion_id for call in self.calls if call.completion_id}

    def violations(self) -> Iterator[str]:
        due = set(self.whole) if self.deaths else self.begun
        yield from (f"{completion} is not charged" for completion in due - self.lost - set(self.debits))
        yield from (f"{completion} is charged more than it costs" for completion in self.overcharged)
        yield from (f"{completion} is lost, and charged" for completion in self.lost & set(self.debits))
        for completion in set(self.whole) & set(self.debits):
            told = [self.whole[completion].prompt_tokens, self.whole[completion].completion_tokens]
            if self.debits[completion] != told:
                yield f"{completion} is charged for {self.debits[completion]} tokens, and its caller was told {told}"
        others, unknown = set(self.debits) - self.begun, sum(call.is_unknown for call in self.calls)
        if len(others) > unknown:
            yield f"{len(others)} charges for {unknown} requests whose outcome no caller knows"

    def figures(self) -> Figures:
        refusals = sorted(call.replied_at - call.called_at for call in self.calls if call.status not in (200, None))
        refused_seconds = refusals[-1 - len(refusals) // 100] if refusals else None
        return Figures(len(self.calls), len(self.whole), len(refusals), refused_seconds, self._pause_seconds())

    def refusals(self) -> str:
        counted = Counter(call.status for call in self.calls if call.status not in (200, None))
        return ", ".join(f"{number:,} x {status}" for status, number in sorted(counted.items()))

    def _pause_seconds(self) -> float:
        """Return the longest time from one whole reply to the next. It begins when somebody asks, if nobody did before."""
        answered = sorted((call for call in self.calls if call.is_whole), key=lambda call: call.replied_at)
        asked_at = list(accumulate((call.called_at for call in reversed(answered)), min))[::-1]  # the first of all later ones
        served = [number for number, call in enumerate(answered) if call.status == 200]
        began_at = [max(answered[number].replied_at, asked_at[number + 1]) for number in served[:-1]]
        return max((answered[end].replied_at - begin for begin, end in zip(began_at, served[1:], strict=True)), default=0.0)


SECONDS = float(os.environ.get("FAULT_SECONDS") or 30)
