"""Bodies in chunks and compressed ones: what is read of them, and what is refused in bounded memory."""

import gzip
import io
import json
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from backports import zstd
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


def zlib_alone(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


HALVES = RAW[:100], RAW[100:]
# Content-Encoding, how the body is packed.
READ: dict[str, tuple[str, bytes]] = {
    "gzip": ("gzip", gzip.compress(RAW)),
    "capitals": ("GZIP", gzip.compress(RAW)),
    "its other name": (" x-gzip ", gzip.compress(RAW)),
    "gzip of two members": ("gzip", b"".join(map(gzip.compress, HALVES))),
    "gzip of an empty member": ("gzip", gzip.compress(RAW) + gzip.compress(b"")),
    "gzip with zeros behind it": ("gzip", gzip.compress(RAW) + bytes(500)),
    "gzip of a hundred members": ("gzip", b"".join(gzip.compress(RAW[at : at + 51]) for at in range(0, len(RAW), 51))),
    "zstd": ("zstd", zstd.compress(RAW)),
    "zstd of two frames": ("zstd", b"".join(map(zstd.compress, HALVES))),
    "zstd of the highest level": ("zstd", zstd.compress(RAW, 22)),
    "deflate": ("deflate", zlib.compress(RAW)),
    "deflate without zlib's head": ("deflate", zlib_alone(RAW)),
    "gzip twice": ("gzip, gzip", gzip.compress(gzip.compress(RAW))),
    "gzip, then zstd": ("gzip,zstd", zstd.compress(gzip.compress(RAW))),
    "identity beside it": ("identity, gzip", gzip.compress(RAW)),
    "identity": ("identity", RAW),
    "nothing": (",", RAW),
}


@pytest.mark.parametrize(("encoding", "packed"), READ.values(), ids=READ)
@pytest.mark.parametrize("transfer", [{}, {"HTTP_TRANSFER_ENCODING": "chunked"}])
def test_a_packed_body_is_unpacked(encoding, packed, transfer):
    assert strict_json.read_body(arriving(packed, HTTP_CONTENT_ENCODING=encoding, **transfer)) == RAW


@pytest.mark.parametrize("encoding", ["", "identity"])
def test_a_body_in_chunks_is_read_whole(encoding):
    headers = {"HTTP_TRANSFER_ENCODING": "chunked", "HTTP_CONTENT_ENCODING": encoding}
    assert strict_json.read_body(arriving(RAW, **headers)) == RAW


def test_a_packed_completion_is_that_of_its_text(api, echo_model):
    reply = send(api, gzip.compress(chat.body()), HTTP_CONTENT_ENCODING="gzip")
    assert reply.status_code == 200
    assert reply.json()["choices"] == chat.ask(api).json()["choices"]


LANGUAGES = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/quote"]


@pytest.mark.parametrize("path", LANGUAGES)
def test_every_language_reads_packed_bodies(api, echo_model, path):
    fields = {"model": "demo/echo", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    if path == "/v1/responses":
        fields = {"model": "demo/echo", "input": "hi"}
    raw = json.dumps(fields).encode()
    packed = {
        "gzip": gzip.compress(raw[:9]) + gzip.compress(raw[9:]),
        "zstd": zstd.compress(raw),
        "deflate": zlib.compress(raw),
    }
    for coding, body in packed.items():
        assert send(api, body, path, HTTP_CONTENT_ENCODING=coding).status_code == 200


# --- What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["br", "compress", "gzip, br", "gzip, gzip, gzip", "*", "gzip;q=1"])
def test_another_encoding_is_a_415_that_names_those_that_are_read(api, echo_model, encoding):
    before = everything_written()
    reply = send(api, zlib.compress(RAW), HTTP_CONTENT_ENCODING=encoding)
    error = assert_error(reply, 415, "invalid_request_error")
    said = "The Content-Encoding of the request body must be one or two of zstd, gzip, deflate, or identity."
    assert error["message"] == said
    assert reply["accept-encoding"] == "zstd, gzip, deflate"
    assert everything_written() == before


def test_a_packed_body_of_the_management_api_is_a_415(alice):
    client = client_for(management_keys.issue(alice, name="terraform", created_by=alice.members.get())[1])
    assert_error(
        send(client, gzip.compress(b"{}"), path="/api/keys", HTTP_CONTENT_ENCODING="gzip"), 415, "invalid_request_error"
    )


BROKEN: dict[str, tuple[str, bytes]] = {
    "no gzip": ("gzip", RAW),
    "cut off": ("gzip", gzip.compress(RAW)[:-1]),
    "a wrong checksum": ("gzip", gzip.compress(RAW)[:-8] + bytes(8)),
    "more behind its end": ("gzip", gzip.compress(RAW) + b"x"),
    "a second member that is cut off": ("gzip", gzip.compress(RAW) + gzip.compress(RAW)[:-1]),
    "more members than any client makes": ("gzip", gzip.compress(RAW) + gzip.compress(b"") * packed_bodies.MEMBERS_MAX),
    "zlib": ("gzip", zlib.compress(RAW)),
    "no zstd": ("zstd", RAW),
    "zstd cut off": ("zstd", zstd.compress(RAW)[:-1]),
    "more behind zstd": ("zstd", zstd.compress(RAW) + b"x"),
    "no deflate": ("deflate", RAW),
    "deflate cut off": ("deflate", zlib_alone(RAW)[:-1]),
    "two of deflate": ("deflate", zlib.compress(RAW) * 2),
    "gzip once instead of twice": ("gzip, gzip", gzip.compress(RAW)),
}


@pytest.mark.parametrize(("coding", "body"), BROKEN.values(), ids=BROKEN)
def test_what_is_not_packed_as_it_says_is_refused(api, echo_model, coding, body):
    before = everything_written()
    error = assert_error(send(api, body, HTTP_CONTENT_ENCODING=coding), 400, "invalid_request_error")
    assert coding[:4] in error["message"]
    assert everything_written() == before


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress, "deflate": zlib_alone}


def test_a_packed_body_may_unpack_to_the_largest_size_and_no_more(settings):
    settings.REQUEST_BYTES_MAX = len(RAW)
    for coding, pack in PACKERS.items():
        assert packed_bodies.unpack(pack(RAW), [coding], strict_json.uncounted) == RAW
        with pytest.raises(errors.RequestTooLarge, match="unpacked"):
            packed_bodies.unpack(pack(RAW + b" "), [coding], strict_json.uncounted)


@pytest.mark.parametrize("applied", [["gzip"], ["zstd"], ["deflate"], ["gzip", "gzip"], ["zstd", "gzip"]], ids="-".join)
def test_a_bomb_takes_no_more_memory_than_the_largest_body(settings, applied):
    settings.REQUEST_BYTES_MAX = 1_000_000
    bomb = bytes(50_000_000)
    for coding in applied:
        bomb = PACKERS[coding](bomb)
    packed_bodies.unpack(zstd.compress(RAW), ["zstd"], strict_json.uncounted)  # its import takes memory, too
    tracemalloc.start()
    with pytest.raises(errors.RequestTooLarge):
        packed_bodies.unpack(bomb, applied, strict_json.uncounted)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000


def test_zstd_with_a_window_of_more_than_8_megabytes_is_refused():
    options: Any = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    packer = zstd.ZstdCompressor(options=options)
    packed = packer.compress(bytes(9_000_000)) + packer.flush()
    with pytest.raises(errors.InvalidRequest, match="not zstd"):
        packed_bodies.unpack(packed, ["zstd"], strict_json.uncounted)


def test_what_is_unpacked_counts_while_it_is_unpacked():
    counted: list[int] = []
    packed = gzip.compress(bytes(1_000_000))
    packed_bodies.unpack(packed, ["gzip"], counted.append)
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
