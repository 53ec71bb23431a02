"""LEAF. JSON as the API takes it: one UTF-8 object, bounded before it is parsed, that means one thing only."""

import json
from collections import Counter
from typing import Any, NoReturn

import gevent
from django.conf import settings
from django.http import HttpRequest
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from gateway_project import errors

DEPTH_MAX = 64


class StrictJSONParser(BaseParser):
    """DRF's way in. Raises the errors of ``gateway_project.errors`` itself, so that each has its own status."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        return loads(read_body(stream))


def body_bytes(request: HttpRequest | Request) -> int:
    """How long the body says it is, within REQUEST_BYTES_MAX.

    A view that wants a body asks this first: DRF takes a body without a length for an empty form, and parses nothing.
    """
    length = request.META.get("CONTENT_LENGTH") or ""
    if not length and "HTTP_TRANSFER_ENCODING" in request.META:
        raise errors.LengthRequired("Send the request with a Content-Length; chunked request bodies are not read.")
    if not (length.isascii() and length.isdigit() and int(length)):
        raise errors.InvalidRequest("The request body is empty. Send a JSON object.")
    if int(length) > settings.REQUEST_BYTES_MAX:
        raise errors.RequestTooLarge(f"The request body is larger than {settings.REQUEST_BYTES_MAX} bytes.")
    return int(length)


def read_body(request: HttpRequest) -> bytes:
    """The body, within REQUEST_BYTES_MAX and REQUEST_BODY_TIMEOUT_SECONDS."""
    length = body_bytes(request)
    try:
        # A peer that sends half a body would otherwise hold this worker's greenlet for ever.
        with gevent.Timeout(settings.REQUEST_BODY_TIMEOUT_SECONDS):
            body = request.read(length)
    except gevent.Timeout:
        raise errors.RequestTimeout("The request body did not arrive in time.") from None
    if len(body) < length:
        raise errors.InvalidRequest("The request body ended before its Content-Length.")
    return body


def loads(body: bytes) -> dict[str, Any]:
    """Parse one JSON object, or raise InvalidRequest with the reason.

    Python's own parser would also accept UTF-16, NaN, repeated names (the last wins) and NUL characters that PostgreSQL
    refuses later; here each is an error, because two readers of the same bytes must never disagree.
    """
    try:
        value = _decode(body.decode())
    except UnicodeDecodeError:
        raise errors.InvalidRequest("The request body is not UTF-8.") from None
    except RecursionError:
        raise errors.InvalidRequest(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise errors.InvalidRequest(f"The request body is not valid JSON: {error}.") from None
    except ValueError:  # Python refuses to read integers of thousands of digits: that takes quadratic time
        raise errors.InvalidRequest("A number in the request body has too many digits.") from None
    if not isinstance(value, dict):
        raise errors.InvalidRequest("The request body must be a JSON object.")
    _check(value, DEPTH_MAX)
    return value


_TOO_DEEP = f"The request body is nested more than {DEPTH_MAX} levels deep."


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise errors.InvalidRequest(f"The name {twice!r} occurs twice in one object.", param=twice)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise errors.InvalidRequest(f"{name} is not a JSON number.")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise errors.InvalidRequest(f"The number {digits[:40]} is too large.")
    return number


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite).decode


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        if not depth:
            raise errors.InvalidRequest(_TOO_DEEP)
        for name, item in value.items():
            _check_text(name)
            _check(item, depth - 1)
    elif isinstance(value, list):
        if not depth:
            raise errors.InvalidRequest(_TOO_DEEP)
        for item in value:
            _check(item, depth - 1)


def _check_text(value: str) -> None:
    if "\x00" in value:
        raise errors.InvalidRequest("The request body contains a NUL character.")
    # isascii is a flag on the string; only the rest can hold half of a surrogate pair, which is not text.
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise errors.InvalidRequest("The request body contains half of a surrogate pair.") from None
