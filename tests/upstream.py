"""A scripted OpenAI-compatible upstream: a real HTTP server on loopback, with a thread for each connection.

A script is a list of steps, played after a request has been read:

    bytes   send them unchanged
    0.5     wait so many seconds, unless the peer disconnects first
    RESET   break the connection with a RST
    CLOSE   close it, at any point of the reply
    HANG    send nothing more until the peer disconnects
    Event   wait until a test sets it
    call    any function: go on as soon as it returns

``whole``, ``stream`` and ``refusal`` make the usual scripts. ``requests`` has what was received.
"""

import itertools
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway_project.net import http
from tests import waiting

RESET, CLOSE, HANG = "RESET", "CLOSE", "HANG"
Step = bytes | float | str | threading.Event | Callable[[], object]
Script = list[Step]

KEY = "sk-upstream-0123456789abcdef"  # the gateway must send it to the upstream, and to nobody else
KEY_ENV = "SCRIPTED_UPSTREAM_KEY"
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
DONE = b"data: [DONE]\n\n"
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"  # an interim response


# --- Scripts ----------------------------------------------------------------------------------------------------


def reply(body: bytes, *, status: int = 200, content_type: str = "application/json", **headers: str) -> list[Any]:
    """Return a reply with a Content-Length."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ["\r\n".join([*lines, "", ""]).encode() + body]


def whole(content: str = "Hello you", *, usage: Any = USAGE, **choice: Any) -> list[Any]:
    """Return a chat completion object; ``usage=None`` omits the usage."""
    message = {"role": "assistant", "content": content}
    body = {
        "id": "up-1",
        "object": "chat.completion",
        "created": 1,
        "model": "upstream-name",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
        **({} if usage is None else {"usage": usage}),
    }
    return reply(json.dumps(body).encode())


def refusal(status: int, message: str = "no", **headers: str) -> list[Any]:
    body = {"error": {"message": message, "type": "upstream_type", "code": "upstream_code", "param": None}}
    return reply(json.dumps(body).encode(), status=status, **headers)


def stream(*steps: Step, content_type: str = "text/event-stream") -> list[Any]:
    """Return a chunked reply of status 200. It ends properly unless the last step is RESET, CLOSE or HANG."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    script: Script = [head, *(_coded(step) if isinstance(step, bytes) else step for step in steps)]
    return script if steps and steps[-1] in (RESET, CLOSE, HANG) else [*script, b"0\r\n\r\n"]


def at_once(script: Script) -> list[Any]:
    """Return the script with adjacent bytes joined: what is sent at once arrives at once, before a silence begins."""
    joined: Script = []
    for step in script:
        if joined and isinstance(step, bytes) and isinstance(joined[-1], bytes):
            joined[-1] += step
        else:
            joined.append(step)
    return joined


def _coded(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""  # an empty chunk would be the last one


def event(data: Any) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta: dict[str, Any] | None = None, finish_reason: str | None = None, **fields: Any) -> bytes:
    """Return one event of a stream as OpenAI sends it; pass ``choices=[]`` and ``usage`` as fields."""
    choices = [{"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish_reason}]
    head = {"id": "up-1", "object": "chat.completion.chunk", "created": 1, "model": "upstream-name"}
    return event({**head, "choices": choices, **fields})


ROLE = chunk({"role": "assistant", "content": ""})
FINISH = chunk(finish_reason="stop")


def words(*contents: str) -> bytes:
    return b"".join(chunk({"content": content}) for content in contents)


def usage(value: Any = USAGE) -> bytes:
    return chunk(choices=[], usage=value)


def streamed(*contents: str) -> list[Any]:
    """Return a complete stream: role, words, finish reason, usage, [DONE]."""
    return stream(ROLE, words(*(contents or ("Hello ", "you"))), FINISH, usage(), DONE)


# --- The server -------------------------------------------------------------------------------------------------


@dataclass
class Received:
    """A received request. ``raw`` is its body as it came, ``played`` counts the steps of its script; ``disconnected`` is set
    when its peer disconnects.
    """

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    connection: int
    raw: bytes = b""
    played: int = 0
    disconnected: threading.Event = field(default_factory=threading.Event)


class Listener:
    """A port on loopback, and a thread that passes each of its connections to ``serve``."""

    def __init__(self) -> None:
        self.serve: Callable[[socket.socket], object] = socket.socket.close
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.serve(connection)


_idle: list[Listener] = []  # of upstreams that have ended: with the same addresses, the catalogs of tests are the same


class Upstream:
    def __init__(self) -> None:
        self.requests: list[Received] = []
        self._scripts: list[Script] = [whole()]
        self._scripts_for: dict[str, Script] = {}  # by the Authorization header
        self._answer: Callable[[Received], Script] | None = None
        self._stopped = threading.Event()
        self._listener = _idle.pop() if _idle else Listener()
        self._connections: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._listener.port}/v1"
        self._numbers = itertools.count(1)
        self._listener.serve = self._accept

    def will(self, *scripts: Script) -> None:
        """Play these scripts, one for each request, and the last one for every further request."""
        self._scripts = list(scripts)

    def will_for(self, authorization: str, script: Script) -> None:
        """Play this script for every request with this Authorization header."""
        self._scripts_for[authorization] = script

    def will_answer(self, answer: "Callable[[Received], Script]") -> None:
        """Play the script that a function makes of each request."""
        self._answer = answer

    def sees_disconnect(self) -> bool:
        """Wait until the peer of the first request has disconnected. Return whether it did."""
        waiting.until(lambda: self.requests)
        return self.requests[0].disconnected.wait(waiting.SECONDS_MAX)

    def stop(self) -> None:
        """Break all connections, and accept no others."""
        self._break()
        self._listener.close()

    def end(self) -> None:
        """Break all connections, and leave the address to the next upstream of this process."""
        self._break()
        _idle.append(self._listener)

    def _break(self) -> None:
        self._stopped.set()
        self._listener.serve = socket.socket.close
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.add(connection)
        threading.Thread(target=self._serve, args=(connection, next(self._numbers)), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as reader, suppress(OSError, ValueError):
            while received := self._read(reader, number):
                self.requests.append(received)
                if not self._play(self._script_for(received), connection, received):
                    break
        self._connections.discard(connection)

    def _script_for(self, received: Received) -> Script:
        if self._answer:
            return self._answer(received)
        if script := self._scripts_for.get(received.headers.get("authorization", "")):
            return script
        return self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]

    def _read(self, reader: Any, number: int) -> Received | None:
        line = reader.readline()
        if not line:
            return None
        headers = {}
        while (header := reader.readline().strip()) != b"":
            name, _, value = header.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", 0)))
        return Received(line.split()[1].decode(), headers, json.loads(body or b"{}"), number, body)

    def _play(self, script: Script, connection: socket.socket, received: Received) -> bool:
        """Play the script. Return whether the connection may serve another request."""
        for step in script:
            if isinstance(step, bytes):
                try:
                    connection.sendall(step)
                except OSError:
                    received.disconnected.set()
                    return False
            elif callable(step):
                step()
            elif step == RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            elif step == CLOSE:
                connection.shutdown(socket.SHUT_RDWR)
                return False
            elif self._disconnects_during(step, connection):
                received.disconnected.set()
                return False
            received.played += 1
        return True

    def _disconnects_during(self, step: Step, connection: socket.socket) -> bool:
        deadline = time.monotonic() + (step if isinstance(step, float | int) else 3 * waiting.SECONDS_MAX)
        over = step if isinstance(step, threading.Event) else self._stopped
        poller = select.poll()  # select() takes no file descriptor above 1,023
        poller.register(connection, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0 and not over.is_set() and not self._stopped.is_set():
            if poller.poll(min(left, 0.05) * 1_000):
                try:
                    return not connection.recv(1, socket.MSG_PEEK)
                except OSError:
                    return True
        return False


@contextmanager
def running() -> Iterator[Upstream]:
    """Run an upstream that replies "Hello you" unless a test gives it other scripts."""
    server = Upstream()
    yield server
    for clients in list(http._pools.values()):
        for key in [key for key in clients if urlsplit(key[0]).port == urlsplit(server.url).port]:
            clients.pop(key).close()
    server.end()


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """An upstream whose API key is in the environment."""
    monkeypatch.setenv(KEY_ENV, KEY)
    with running() as server:
        yield server


@pytest.fixture
def spare() -> Iterator[Upstream]:
    """A second upstream, which needs no key."""
    with running() as server:
        yield server
