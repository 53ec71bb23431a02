"""An upstream that is never the bottleneck: it answers every chat completion at once with the same bytes.

python bench/upstream.py PORT [EVENTS_PER_SECOND]

With a number of events per second, streams are sent an event at a time. So are those of requests with ``PACED``. Streams of
requests with ``LONG`` have ten times as many words.
"""

import asyncio
import json
import sys

WORDS = 100
LONG = {"max_tokens": 10 * WORDS}
PACED, PACED_PER_SECOND = {"seed": 1}, 200
USAGE = {"prompt_tokens": 9, "completion_tokens": WORDS, "total_tokens": 9 + WORDS}
HEAD = {"id": "chatcmpl-upstream", "created": 1, "model": "bench"}


def _whole() -> bytes:
    message = {"role": "assistant", "content": "word " * WORDS}
    choices = [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}]
    body = json.dumps({**HEAD, "object": "chat.completion", "choices": choices, "usage": USAGE}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def _stream(words: int) -> bytes:
    def event(choices: list[object], **more: object) -> bytes:
        chunk = {**HEAD, "object": "chat.completion.chunk", "choices": choices, **more}
        return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"

    def delta(delta: dict[str, object], finish_reason: str | None = None) -> bytes:
        return event([{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    events = [delta({"role": "assistant", "content": ""}), *[delta({"content": "word "})] * words, delta({}, "stop")]
    body = b"".join(events) + event([], usage=USAGE) + b"data: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head + body


WHOLE, STREAM, LONG_STREAM = _whole(), _stream(WORDS), _stream(10 * WORDS)
_LONG_JSON, _PACED_JSON = (json.dumps(fields, separators=(",", ":")).encode()[1:-1] for fields in (LONG, PACED))


class Upstream(asyncio.Protocol):
    def __init__(self, events_per_second: float | None) -> None:
        self._events_per_second = events_per_second

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, separator, body = self.received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        if len(body) < length:
            return
        self.received = body[length:]
        if b'"stream":true' not in body:
            self.transport.write(WHOLE)  # type: ignore[attr-defined]
            return
        stream = LONG_STREAM if _LONG_JSON in body else STREAM
        per_second = PACED_PER_SECOND if _PACED_JSON in body else self._events_per_second
        if per_second is None:
            self.transport.write(stream)  # type: ignore[attr-defined]
        else:
            self._send(stream.split(b"\n\n"), 1 / per_second)

    def _send(self, events: list[bytes], pause_seconds: float) -> None:
        if self.transport.is_closing():
            return
        self.transport.write(events[0] + b"\n\n" * (len(events) > 1))  # type: ignore[attr-defined]
        if len(events) > 1:
            asyncio.get_running_loop().call_later(pause_seconds, self._send, events[1:], pause_seconds)


async def main(port: int, events_per_second: float | None) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Upstream(events_per_second), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else None))
