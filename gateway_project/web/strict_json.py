"""The parser of request bodies: one JSON object in UTF-8, limited in size, without anything that parsers read differently."""

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
    """A DRF parser of strict JSON. Raises ApiErrors, which have a status each, instead of DRF's ParseError."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        return loads(read_body(stream))


def content_length(request: HttpRequest | Request) -> int:
    """Return the length of the body that the request announces, at most REQUEST_BYTES_MAX. Raises an ApiError.

    A view that needs a body calls this first: DRF takes a body without a length for an empty form, and does not parse it.
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
    """Read the body, within REQUEST_BYTES_MAX and REQUEST_BODY_TIMEOUT_SECONDS. Raises an ApiError."""
    length = content_length(request)
    try:
        # Without a timeout, a client that sends half a body would occupy this greenlet for ever.
        with gevent.Timeout(settings.REQUEST_BODY_TIMEOUT_SECONDS):
            body = request.read(length)
    except gevent.Timeout:
        raise errors.RequestTimeout("The request body did not arrive in time.") from None
    if len(body) < length:
        raise errors.InvalidRequest("The request body ended before its Content-Length.")
    return body


def loads(body: bytes) -> dict[str, Any]:
    """Parse one JSON object. Raises InvalidRequest with the reason.

    Python's parser also accepts UTF-16, NaN, repeated names (the last one wins) and NUL characters, which PostgreSQL rejects
    later. Each is an error here, because two parsers must never read the same bytes differently.
    """
    try:
        value = _decode(body.decode())
    except UnicodeDecodeError:
        raise errors.InvalidRequest("The request body is not UTF-8.") from None
    except RecursionError:
        raise errors.InvalidRequest(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise errors.InvalidRequest(f"The request body is not valid JSON: {error}.") from None
    except ValueError:  # Python raises it for integers of thousands of digits, which take quadratic time to parse
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
    # isascii reads a flag of the string. Only other strings can contain half of a surrogate pair, which is not valid text.
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise errors.InvalidRequest("The request body contains half of a surrogate pair.") from None
