"""The framing of event streams: decoding gives the same events however the network cut the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.providers import sse
from tests.completions.providers.cuts import CUTS, cut

LINE = st.binary(max_size=30).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b""))
EVENT = st.lists(LINE, min_size=1, max_size=3)


def decode(pieces: list[bytes], event_bytes_max: int = 1_000_000) -> list[bytes]:
    decoder = sse.Decoder(event_bytes_max)
    return [event for piece in pieces for event in decoder.feed(piece)]


@given(st.lists(EVENT, max_size=4), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.sampled_from([b"", b" "]), LINE, CUTS)
def test_decoded_events_do_not_depend_on_where_the_bytes_are_cut(events, eol, space, comment, cuts):
    sent = b""
    for lines in events:
        sent += b":" + comment + eol + b"id: 7" + eol
        sent += b"".join(b"data:" + space + line + eol for line in lines) + eol
    sent += b": the end" + eol  # a final CR could still become CRLF
    expected = [b"\n".join(line.removeprefix(b" ") if not space else line for line in lines) for lines in events]
    expected = [data for data in expected if data]
    assert decode(cut(sent, cuts)) == expected
    assert decode([bytes([byte]) for byte in sent]) == expected


@pytest.mark.parametrize(
    "sent",
    [
        b"data: a\n\ndata:b\n\n",
        b"data: \n\ndata: b\n\n",
        b"data: a\n\n\ndata: b\n\n",
        b"data: a\ndata: b\n\n",
        b"data: a\r\n\n\n",
    ],
)
def test_events_in_an_unusual_form_are_decoded_as_if_their_bytes_came_one_by_one(sent):
    assert decode([sent]) == decode([bytes([byte]) for byte in sent])


def test_an_event_without_its_blank_line_is_ignored():
    assert decode([b"data: a\n\ndata: b\n"]) == [b"a"]


def test_only_the_first_space_after_the_colon_is_dropped():
    assert decode([b"data:  a\n\n"]) == [b" a"]


def test_comments_and_empty_events_are_ignored():
    assert decode([b": ping\n\nevent: ping\n\nretry: 1\n\ndata:\n\n\n\n"]) == []


@pytest.mark.parametrize("data", [b"x" * 60, b"data: x\n" * 60, b"data:\n" * 60], ids=["one line", "many lines", "empty lines"])
def test_an_endless_event_raises_at_the_size_limit(data):
    with pytest.raises(sse.EventTooLarge):
        decode([data], event_bytes_max=50)


def test_the_size_limit_applies_to_each_event_not_to_a_read():
    assert len(decode([b"data: 0123456789\n\n" * 10], event_bytes_max=50)) == 10
