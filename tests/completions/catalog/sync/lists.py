"""A provider that lists its models: a real HTTP server on loopback, and entries as OpenRouter and OpenAI write them."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: dict[str, str]


class ListServer:
    """Gives these replies, one a request, the last one for every further request. ``asked`` has each request's headers."""

    def __init__(self, address: tuple[Any, ...]) -> None:
        self.url = f"http://127.0.0.1:{address[1]}/v1"
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.meet: Callable[[], Any] = lambda: None  # each request waits here before it is answered
        self._replies: list[Reply] = []

    def will(self, *replies: Reply) -> None:
        self._replies = list(replies)

    def lists(self, *entries: dict[str, Any], **headers: str) -> None:
        self.will(listing(*entries, **headers))

    def next_reply(self) -> Reply:
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def listing(*entries: dict[str, Any], **headers: str) -> Reply:
    return reply(json.dumps({"data": entries}), **headers)


def reply(body: str | bytes = "", status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, body.encode() if isinstance(body, str) else body, named)


@contextmanager
def serving() -> Iterator[ListServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            server.meet()
            answer = server.next_reply()
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = ListServer(httpd.server_address)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def entry(model_id: str = "acme/large", **changed: Any) -> dict[str, Any]:
    """A model as OpenRouter writes it; by itself it says of acme/large what the tests' catalog says."""
    fine = {
        "id": model_id,
        "canonical_slug": f"{model_id}-20260422",
        "hugging_face_id": "",
        "name": "Acme: Large",
        "created": 1,
        "context_length": 128_000,
        "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
        "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003", "image": "0"},
        "top_provider": {"context_length": 128_000, "max_completion_tokens": 4_096, "is_moderated": False},
        "per_request_limits": None,
        "supported_parameters": ["max_tokens", "temperature"],
        "expiration_date": None,
    }
    return {**fine, **changed}


def bare(model_id: str) -> dict[str, Any]:
    """A model as OpenAI writes it."""
    return {"id": model_id, "object": "model", "created": 1721172741, "owned_by": "acme"}


def priced(model_id: str = "acme/large", **changed: Any) -> dict[str, Any]:
    """... with other prices; None takes one away."""
    pricing = {**entry()["pricing"], **changed}
    return entry(model_id, pricing={name: value for name, value in pricing.items() if value is not None})
