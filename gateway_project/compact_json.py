"""LEAF. JSON as we write it: without white space, and ten times as fast as Python's own encoder."""

import json
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
# ASCII can carry half a surrogate pair: an upstream may cut its text in the middle of an emoji.
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode


def dumps(value: Any) -> bytes:
    """In UTF-8. Raises UnicodeEncodeError for half a surrogate pair."""
    return _encode(value)


def dumps_ascii(value: Any) -> bytes:
    """In ASCII, whatever the text."""
    return _encode_ascii(value).encode()


def text(value: Any) -> str:
    return _encode(value).decode()
