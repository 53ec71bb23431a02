"""A text that cannot be kept is replaced and named, in every language: an agent that once read a binary file can go on."""

from typing import Any

import pytest

from completions.models import Completion
from tests import factories
from tests.completions.rows import assert_charged, events
from tests.upstream import streamed, whole

NAMED = "invalid_characters"
# How the text of a user is written, what the provider reads, whether the header names it.
TEXTS: dict[str, tuple[bytes, str, bool]] = {
    "a NUL": (rb"a\u0000b", "a\ufffdb", True),
    "many": (rb"\u0000\u0000\ud800\udc00\udc00", "\ufffd\ufffd\U00010000\ufffd", True),
    "the first half of a pair": (rb"a\ud83d", "a\ufffd", True),
    "the second half": (rb"\uDE00b", "\ufffdb", True),
    "halves in the wrong order": (rb"\ude00\ud83d", "\ufffd\ufffd", True),
    "two first halves": (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600", True),
    "a half before an escape": (rb"\ud83d\n", "\ufffd\n", True),
    "a half before a backslash": (rb"\ud83d\\ude00", "\ufffd\\ude00", True),
    "a half after a written pair": (rb"\\ud83d\ude00", "\\ud83d\ufffd", True),
    "a half in UTF-8": (b"a\xed\xa0\xbdb", "a\ufffdb", True),
    "a NUL after a backslash": (rb"\\\u0000", "\\\ufffd", True),
    "a written NUL": (rb"\\u0000", "\\u0000", False),
    "a pair": (rb"\ud83d\ude00", "\U0001f600", False),
    "text": ("ä\U0001f600".encode(), "ä\U0001f600", False),
}
BODIES = {
    "/v1/chat/completions": b'{"model": "acme/large", "messages": [{"role": "user", "content": "%b"}]}',
    "/v1/messages": b'{"model": "acme/large", "max_tokens": 9, "messages": [{"role": "user", "content": "%b"}]}',
    "/v1/responses": b'{"model": "acme/large", "input": "%b"}',
}


def send(api: Any, path: str, body: bytes, **headers: str) -> Any:
    return api.generic("POST", path, body, content_type="application/json", **headers)


def read_by(upstream) -> str:
    [sent] = upstream.requests
    content: Any = sent.body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(("written", "read", "is_named"), TEXTS.values(), ids=TEXTS)
def test_what_cannot_be_kept_is_replaced_and_named(api, alice, large, upstream, path, written, read, is_named):
    upstream.will(whole())
    reply = send(api, path, BODIES[path] % written)
    assert reply.status_code == 200, reply.content
    assert read_by(upstream) == read
    assert reply.headers.get("x-gateway-ignored-fields", "") == (NAMED if is_named else "")
    assert Completion.objects.get().settlement == "reported"


@pytest.mark.parametrize("path", BODIES)
def test_a_byte_order_mark_is_left_out(api, alice, large, upstream, path):
    upstream.will(whole())
    reply = send(api, path, b"\xef\xbb\xbf" + BODIES[path] % b"Hello")
    assert reply.status_code == 200, reply.content
    assert read_by(upstream) == "Hello"
    assert "x-gateway-ignored-fields" not in reply.headers
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=9 * 3_000 + 2 * 15_000)


def test_a_stream_is_named_so_too_beside_what_is_not_sent(api, large, upstream):
    upstream.will(streamed("Hi"))
    body = BODIES["/v1/chat/completions"].replace(b"{", rb'{"stream": true, "strange": "\u0000", ', 1)
    reply = send(api, "/v1/chat/completions", body % b"Hello")
    assert events(reply)[-1] == "[DONE]"
    assert reply["x-gateway-ignored-fields"] == f"strange, {NAMED}"


def test_a_large_body_is_mended_for_every_attempt(api, alice, large, upstream, spare):
    provider = factories.make_provider("spare", kind="openai", base_url=spare.url, api_key_env="SCRIPTED_UPSTREAM_KEY")
    large.routes.create(provider=provider, upstream_model="large-2026", priority=2)
    upstream.will([b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"])
    spare.will(whole())
    text = rb"x\u0000" * 40_000
    reply = send(api, "/v1/chat/completions", BODIES["/v1/chat/completions"] % text)
    assert reply.status_code == 200, reply.content
    assert read_by(spare) == "x\ufffd" * 40_000
    assert reply["x-gateway-ignored-fields"] == NAMED


def test_a_repetition_is_known_by_what_was_read(api, alice, large, upstream):
    upstream.will(whole())
    path = "/v1/chat/completions"
    first = send(api, path, BODIES[path] % rb"a\u0000", HTTP_IDEMPOTENCY_KEY="k")
    for text in (rb"a\u0000", "a\ufffd".encode()):
        again = send(api, path, BODIES[path] % text, HTTP_IDEMPOTENCY_KEY="k")
        assert (again.status_code, again["Idempotent-Replayed"], again.content) == (200, "true", first.content)
    assert len(upstream.requests) == Completion.objects.count() == 1


def test_what_a_response_stores_can_be_named_by_the_next(api, alice, large, upstream):
    upstream.will(whole())
    first = send(api, "/v1/responses", BODIES["/v1/responses"] % rb"a\u0000")
    named = b'{"previous_response_id": "%b", ' % first.json()["id"].encode()
    upstream.requests.clear()
    upstream.will(whole())
    second = send(api, "/v1/responses", BODIES["/v1/responses"].replace(b"{", named, 1) % b"b")
    assert second.status_code == 200, second.content
    [sent] = upstream.requests
    assert "a\ufffd" in str(sent.body["messages"])
    assert "x-gateway-ignored-fields" not in second.headers


REFUSED = {
    "a NUL byte": b"a\x00b",
    "bytes of no text": b"\xff\xfe",
    "half an escape": rb"\ud83",
    "two names that become one": rb'", "a\u0000": 1, "a\ud800": "',
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_no_text_stays_refused(api, large, upstream, text):
    path = "/v1/chat/completions"
    reply = send(api, path, BODIES[path] % text)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    assert upstream.requests == []
    assert not Completion.objects.exists()
