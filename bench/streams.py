"""A thousand paced streams through one worker, one of them unread: memory per stream, and whether any stream starves.

.venv/bin/python -m bench.streams [STREAMS [SECONDS [ARRIVALS]]]

ARRIVALS is how many streams begin each second. Without it, all begin at once.
"""

import asyncio
import json
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench import run

PACE_SECONDS = 0.25
_CHUNK = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "bench"}


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20
    pause_seconds = 1 / float(sys.argv[3]) if len(sys.argv) > 3 else 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (8_192, 8_192))
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    environ = run.prepared(directory)
    upstream_port, port = run.free_port(), run.free_port()
    environ["PORT"] = str(port)
    secret = run.fill(environ, directory, upstream_port)
    process = run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0)
    try:
        run.wait(port)
        [worker] = psutil.Process(process.pid).children()
        asyncio.run(_measure(port, upstream_port, run.completion(secret, stream=True), streams, seconds, pause_seconds, worker))
        run.manage(environ, "verify_ledger")
    finally:
        process.terminate()
        process.wait(60)


async def _measure(
    port: int, upstream_port: int, request: bytes, streams: int, seconds: float, pause_seconds: float, worker: Any
) -> None:
    speak = partial(_serve_stream, seconds=seconds)
    upstream = await asyncio.start_server(speak, "127.0.0.1", upstream_port, backlog=streams)
    await _warm_up(port, request)
    idle_bytes = worker.memory_info().rss
    readers, began_at = [], time.monotonic()
    for number in range(streams):
        readers.append(asyncio.create_task(_read(port, request, is_slow=number == 0)))
        await asyncio.sleep(pause_seconds)
    assert (left_seconds := seconds * 0.8 - (time.monotonic() - began_at)) > 0, "the first streams end before the last begin"
    await asyncio.sleep(left_seconds)
    peak_bytes = worker.memory_info().rss
    counts = sorted(await asyncio.gather(*readers[1:]))
    readers[0].cancel()
    upstream.close()
    sys.stdout.write(
        f"{streams} streams of {int(seconds / PACE_SECONDS)} events: {(peak_bytes - idle_bytes) / streams / 1024:.1f} KB each;"
        f" the least had {counts[0]} events, the most {counts[-1]}\n"
    )


async def _warm_up(port: int, request: bytes) -> None:
    """Send some requests first, so that modules and caches they load do not count as memory of a stream."""
    readers = [asyncio.create_task(_read(port, request, is_slow=False)) for _ in range(20)]
    await asyncio.sleep(2)
    for reader in readers:
        reader.cancel()
    await asyncio.sleep(2)


async def _serve_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Serve an upstream stream with one word per PACE_SECONDS."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r")[0])
        await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for _ in range(int(seconds / PACE_SECONDS)):
            writer.write(_event({"index": 0, "delta": {"content": "word "}, "finish_reason": None}))
            await writer.drain()
            await asyncio.sleep(PACE_SECONDS)
        writer.write(_event({"index": 0, "delta": {}, "finish_reason": "stop"}) + b"data: [DONE]\n\n")
        await writer.drain()
    except OSError:
        pass  # the gateway closed the connection
    finally:
        writer.close()


def _event(choice: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps({**_CHUNK, "choices": [choice]}).encode() + b"\n\n"


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
