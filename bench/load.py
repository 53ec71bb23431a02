"""A load generator: a number of clients, each of which sends its next request when the last one is answered.

    python bench/load.py PORT CLIENTS SECONDS < request-bytes      -> one JSON object

Several requests, separated by NUL, are sent in turn. A reply ends by its Content-Length or its last chunk; only its status is
looked at.
"""

import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator


class Client(asyncio.Protocol):
    """One connection that sends requests one after another until a time."""

    def __init__(self, requests: Iterator[bytes], latencies: list[float], statuses: Counter[int], until: float) -> None:
        self.requests, self.latencies, self.statuses, self.until = requests, latencies, statuses, until
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self.received: bytes = b""
        self.left_bytes: int | None = None
        self.sent_at = time.perf_counter()
        self.transport.write(next(self.requests))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self.left_bytes is not None:  # of a body whose parts need not be kept
            self.left_bytes -= len(data)
        else:
            self.received += data
            head, separator, body = self.received.partition(b"\r\n\r\n")
            self.left_bytes = _left_bytes(head.lower(), body) if separator else None
        if self.left_bytes is not None and self.left_bytes <= 0:
            self._end_reply()

    def _end_reply(self) -> None:
        now = time.perf_counter()
        self.latencies.append(now - self.sent_at)
        self.statuses[int(self.received[9:12])] += 1
        if now < self.until:
            self._send()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _left_bytes(head: bytes, body: bytes) -> int | None:
    """Return how many bytes are left of a body; None while the end of its chunks has not arrived."""
    if b"transfer-encoding: chunked" in head:
        return 0 if body.endswith(b"0\r\n\r\n") else None
    start = head.index(b"content-length:") + 15
    return int(head[start : start + 20].split(b"\r")[0]) - len(body)


async def main(port: int, clients: int, seconds: float) -> None:
    requests = itertools.cycle(sys.stdin.buffer.read().split(b"\0"))
    latencies, statuses = list[float](), Counter[int]()
    loop, started = asyncio.get_running_loop(), time.perf_counter()
    made = [
        await loop.create_connection(lambda: Client(requests, latencies, statuses, started + seconds), "127.0.0.1", port)
        for _ in range(clients)
    ]
    await asyncio.gather(*(client.done for _, client in made))
    elapsed = time.perf_counter() - started
    latencies = sorted(latencies) or [elapsed]  # nothing was answered
    figures = {f"p{part}_ms": latencies[len(latencies) * part // 100] * 1_000 for part in (50, 95, 99)}
    figures |= {"per_second": statuses.total() / elapsed, "slowest_ms": latencies[-1] * 1_000}
    sys.stdout.write(json.dumps({**figures, "statuses": statuses}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
