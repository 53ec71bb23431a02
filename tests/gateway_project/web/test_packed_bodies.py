"""Bodies in chunks and compressed ones: what is read of them, and what is refused in bounded memory."""

import gzip
import io
import json
import tracemalloc
import zlib
from typing import Any

import pytest
from django.test import RequestFactory

from gateway_project import errors
from gateway_project.web import packed_bodies, strict_json
from keys import management_keys
from tests import chat
from tests.chat import assert_error, everything_written
from tests.conftest import client_for

RAW = b'{"a": "' + b"x" * 5_000 + b'"}'


def arriving(body: bytes, **headers: Any) -> Any:
    request = RequestFactory().post("/", body, content_type="application/json", **headers)
    environ = {**request.environ, "wsgi.input": io.BytesIO(body)}
    if "HTTP_TRANSFER_ENCODING" in headers:
        environ.pop("CONTENT_LENGTH", None)
    return type(request)(environ)


def send(api: Any, body: bytes, path: str = chat.PATH, **headers: str) -> Any:
    return api.generic("POST", path, body, content_type="application/json", **headers)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", " x-gzip "])
@pytest.mark.parametrize("transfer", [{}, {"HTTP_TRANSFER_ENCODING": "chunked"}])
def test_a_packed_body_is_unpacked(encoding, transfer):
    packed = arriving(gzip.compress(RAW), HTTP_CONTENT_ENCODING=encoding, **transfer)
    assert strict_json.read_body(packed) == RAW


@pytest.mark.parametrize("encoding", ["", "identity"])
def test_a_body_in_chunks_is_read_whole(encoding):
    headers = {"HTTP_TRANSFER_ENCODING": "chunked", "HTTP_CONTENT_ENCODING": encoding}
    assert strict_json.read_body(arriving(RAW, **headers)) == RAW


def test_a_packed_completion_is_that_of_its_text(api, echo_model):
    reply = send(api, gzip.compress(chat.body()), HTTP_CONTENT_ENCODING="gzip")
    assert reply.status_code == 200
    assert reply.json()["choices"] == chat.ask(api).json()["choices"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses", "/v1/quote"])
def test_every_language_reads_packed_bodies(api, echo_model, path):
    fields = {"model": "demo/echo", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    if path == "/v1/responses":
        fields = {"model": "demo/echo", "input": "hi"}
    assert send(api, gzip.compress(json.dumps(fields).encode()), path, HTTP_CONTENT_ENCODING="gzip").status_code == 200


# --- What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip", "gzip, identity", "*"])
def test_another_encoding_is_a_415_that_names_those_that_are_read(api, echo_model, encoding):
    before = everything_written()
    reply = send(api, zlib.compress(RAW), HTTP_CONTENT_ENCODING=encoding)
    error = assert_error(reply, 415, "invalid_request_error")
    assert error["message"] == "The Content-Encoding of the request body must be gzip or identity."
    assert reply["accept-encoding"] == "gzip"
    assert everything_written() == before


def test_a_packed_body_of_the_management_api_is_a_415(alice):
    client = client_for(management_keys.issue(alice, name="terraform", created_by=alice.members.get())[1])
    assert_error(
        send(client, gzip.compress(b"{}"), path="/api/keys", HTTP_CONTENT_ENCODING="gzip"), 415, "invalid_request_error"
    )


BROKEN = {
    "no gzip": RAW,
    "cut off": gzip.compress(RAW)[:-1],
    "a wrong checksum": gzip.compress(RAW)[:-8] + bytes(8),
    "more behind its end": gzip.compress(RAW) + b"x",
    "two files": gzip.compress(RAW) * 2,
    "zlib": zlib.compress(RAW),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_what_is_no_gzip_is_refused(api, echo_model, body):
    before = everything_written()
    error = assert_error(send(api, body, HTTP_CONTENT_ENCODING="gzip"), 400, "invalid_request_error")
    assert "gzip" in error["message"]
    assert everything_written() == before


def test_a_packed_body_may_unpack_to_the_largest_size_and_no_more(settings):
    settings.REQUEST_BYTES_MAX = len(RAW)
    assert packed_bodies.unpack(gzip.compress(RAW), strict_json.uncounted) == RAW
    with pytest.raises(errors.RequestTooLarge, match="unpacked"):
        packed_bodies.unpack(gzip.compress(RAW + b" "), strict_json.uncounted)


def test_a_bomb_takes_no_more_memory_than_the_largest_body(settings):
    settings.REQUEST_BYTES_MAX = 1_000_000
    bomb = _bomb(megabytes=200)
    tracemalloc.start()
    with pytest.raises(errors.RequestTooLarge):
        packed_bodies.unpack(bomb, strict_json.uncounted)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000


def _bomb(megabytes: int) -> bytes:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    return b"".join([packer.compress(bytes(1_000_000)) for _ in range(megabytes)]) + packer.flush()


def test_what_is_unpacked_counts_while_it_is_unpacked():
    counted: list[int] = []
    packed = gzip.compress(bytes(1_000_000))
    packed_bodies.unpack(packed, counted.append)
    assert counted[-1] == len(packed) + 1_000_000
    assert len(counted) > 3


@pytest.mark.parametrize("transfer", [{}, {"HTTP_TRANSFER_ENCODING": "chunked"}])
def test_a_body_above_the_bound_is_a_413_before_it_is_unpacked(api, echo_model, settings, transfer):
    settings.REQUEST_BYTES_MAX = 1_000
    before = everything_written()
    reply = send(api, b"x" * 1_001, HTTP_CONTENT_ENCODING="gzip", **transfer)
    assert_error(reply, 413, "invalid_request_error")
    assert everything_written() == before


def test_an_empty_body_in_chunks_is_refused():
    with pytest.raises(errors.InvalidRequest, match="empty"):
        strict_json.read_body(arriving(b"", HTTP_TRANSFER_ENCODING="chunked"))
