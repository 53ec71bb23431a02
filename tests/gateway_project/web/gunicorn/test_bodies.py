"""A body that came with its head is taken at once. Any other stays for the reader that waits."""

import io

import pytest
from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.unreader import IterUnreader

from gateway_project.web.gunicorn import bodies


def make_body(buffered: bytes, *later: bytes, length: int = 5) -> Body:
    unreader = IterUnreader(later)
    unreader.unread(buffered)
    return Body(LengthReader(unreader, length))


@pytest.mark.parametrize("next_request", [b"", b"POST / HTTP/1.1\r\n"])
def test_a_whole_body_is_taken_and_the_next_request_stays(next_request):
    body = make_body(b"hello" + next_request)
    assert bodies.take_buffered({"wsgi.input": body}, 5) == b"hello"
    assert body.read() == b""
    assert body.reader.unreader.take_buffered() == next_request


@pytest.mark.parametrize("buffered", [b"", b"hell"])
def test_what_came_of_a_body_is_left_to_the_reader_that_waits_for_the_rest(buffered):
    body = make_body(buffered, b"hello"[len(buffered) :], b"next")
    assert bodies.take_buffered({"wsgi.input": body}, 5) is None
    assert body.read() == b"hello"


def test_a_body_that_was_begun_is_not_taken():
    begun = make_body(b"hello")
    assert begun.read(2) == b"he"
    assert bodies.take_buffered({"wsgi.input": begun}, 5) is None
    assert begun.read() == b"llo"


def test_a_body_without_a_length_is_not_taken():
    chunked = Body(ChunkedReader(None, IterUnreader([b"5\r\nhello\r\n0\r\n\r\n"])))
    assert bodies.take_buffered({"wsgi.input": chunked}, 5) is None


def test_a_body_of_another_server_is_not_taken():
    assert bodies.take_buffered({}, 5) is None
    assert bodies.take_buffered({"wsgi.input": io.BytesIO(b"hello")}, 5) is None
