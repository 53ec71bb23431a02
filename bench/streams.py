"""A thousand paced streams through one worker, one of them unread: memory per stream, and whether any stream starves.

    .venv/bin/python -m bench.streams [STREAMS [EVENTS_PER_SECOND [ARRIVALS]]]

Each stream has a hundred words, of which four come each second. ARRIVALS is how many streams begin each second. Without it, all
begin at once.
"""

import asyncio
import resource
import sys
import time
from typing import Any

import psutil

from bench import run, upstream


def main() -> None:
    streams, events_per_second, arrivals = run.numbers(sys.argv[1:], 1_000, 4, float("inf"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (8_192, 8_192))
    with run.Servers() as servers:
        environ = run.prepared(servers.directory)
        secret = run.fill(environ, servers.directory, servers.upstream(events_per_second))
        port = servers.gateway(environ)
        [worker] = psutil.Process(servers.master.pid).children()
        seconds = upstream.WORDS / events_per_second
        run.write_line(
            asyncio.run(_measured(port, run.completion(secret, stream=True), int(streams), seconds, 1 / arrivals, worker))
        )
        run.write_line(run.manage(environ, "verify_ledger"))


async def _measured(port: int, request: bytes, streams: int, seconds: float, pause_seconds: float, worker: Any) -> str:
    await _warm_up(port, request)
    idle_bytes = worker.memory_info().rss
    readers, began_at = [], time.monotonic()
    for number in range(streams):
        readers.append(asyncio.create_task(_read(port, request, is_slow=number == 0)))
        await asyncio.sleep(pause_seconds)
    assert (left_seconds := seconds * 0.8 - (time.monotonic() - began_at)) > 0, "the first streams end before the last begin"
    await asyncio.sleep(left_seconds)
    each_kb = (worker.memory_info().rss - idle_bytes) / streams / 1024
    counts = sorted(await asyncio.gather(*readers[1:]))
    readers[0].cancel()
    return f"{streams} streams: {each_kb:.1f} KB each; the least had {counts[0]} events, the most {counts[-1]}"


async def _warm_up(port: int, request: bytes) -> None:
    """Send some requests first, so that modules and caches they load do not count as memory of a stream."""
    readers = [asyncio.create_task(_read(port, request, is_slow=False)) for _ in range(20)]
    await asyncio.sleep(2)
    for reader in readers:
        reader.cancel()
    await asyncio.sleep(2)


async def _read(port: int, request: bytes, *, is_slow: bool) -> int:
    """Read a stream and return its number of events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4_096)
    writer.write(request)
    if is_slow:
        await asyncio.Event().wait()
    events = 0
    status = await reader.readline()
    assert b" 200 " in status, status
    while b"[DONE]" not in (line := await reader.readline()) and line:
        events += b'"content"' in line
    writer.close()
    return events


if __name__ == "__main__":
    main()
