"""The parser of request bodies: one JSON object in UTF-8, limited in size, without anything that parsers read differently.

msgspec parses. It is strict about UTF-8, surrogates, control characters and numbers, and takes a fifth of the time of Python's
parser, which only words the refusals. NUL characters, the depth, and names that occur twice are checked beside it: those
between strings and colons that the parsed objects do not have. A large body is parsed in slices, between which ``pause`` is
called.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import msgspec
from django.conf import settings
from django.http import HttpRequest
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from gateway_project import errors, large_work
from gateway_project.deadline import Deadline
from gateway_project.net import disconnects
from gateway_project.web import packed_bodies
from gateway_project.web.gunicorn import bodies

DEPTH_MAX = 64
_decode, _NUL = msgspec.json.Decoder().decode, rb"\u0000"
_SLICE_BYTES = 262_144  # takes up to 3 ms
_TEXT_PER_SYNTAX = 8  # a character outside strings takes at least as long as so many within
_EXPLAINED_BYTES_MAX = 65_536  # a refusal of a larger body does not say where: Python's parser may take a second for it


class StrictJSONParser(BaseParser):
    """A DRF parser of strict JSON. Raises ApiErrors, which have a status each, instead of DRF's ParseError."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        text = read_body(stream)
        with large_work.turn(work_bytes(text)) as pause:
            return loads(text, syntax_max=settings.REQUEST_SYNTAX_MAX, pause=pause)


def uncounted(_arrived_bytes: int) -> None:
    """Count nothing of a body that arrives."""


class Body:
    """The body of a request, with its length and packing, which are known before it arrives.

    ``bytes_max`` is the maximum that it may take in memory. ``arrived`` is told how many bytes have.
    """

    arrived: Callable[[int], None] = staticmethod(uncounted)
    text = b""

    def __init__(self, request: HttpRequest) -> None:
        """Raises an ApiError for what is certain to be refused."""
        headers = request.META
        self.is_plain = "HTTP_TRANSFER_ENCODING" not in headers and "HTTP_CONTENT_ENCODING" not in headers
        self.is_chunked = not self.is_plain and _is_chunked(request)
        self.length_bytes = 0 if self.is_chunked else _announced_bytes(request)
        self.packing = [] if self.is_plain else _codings(request)
        self.bytes_max = self.length_bytes + settings.REQUEST_BYTES_MAX * (self.is_chunked + len(self.packing))

    def receive(self, request: HttpRequest) -> None:
        """Read the body, within its bounds of bytes and time, and unpack it. Raises an ApiError."""
        length = self.length_bytes
        if self.is_plain and (buffered := bodies.take_buffered(request.META, length)) is not None:
            self.arrived(length)
            self.text = buffered
            return
        try:
            # Without a timeout, a client that sends half a body would occupy this greenlet for ever.
            with Deadline(settings.REQUEST_BODY_TIMEOUT_SECONDS, _Late()):
                if self.is_chunked:
                    body = _read_chunks(request, self.arrived)
                elif (direct := bodies.read(request.META, length, self.arrived)) is not None:
                    body = direct
                else:
                    body = request.read(length)
                    self.arrived(len(body))
        except _Late:
            disconnects.stop_reading(request.META.get("gunicorn.socket"))
            raise errors.RequestTimeout("The request body did not arrive in time.") from None
        if len(body) < length:
            raise errors.InvalidRequest("The request body ended before its Content-Length.")
        self.text = packed_bodies.unpack(body, self.packing, self.arrived)

    def take(self) -> bytes:
        """Return the text, once. DRF's request keeps this object, and must not keep a large text."""
        text, self.text = self.text, b""
        return text


def read_body(request: HttpRequest) -> bytes:
    body = Body(request)
    body.receive(request)
    return body.text


def content_length(request: HttpRequest | Request) -> int:
    """Return the length of a body that is neither chunked nor compressed, at most REQUEST_BYTES_MAX. Raises an ApiError.

    A view that needs a body calls this first: DRF takes one without a length for an empty form, and does not parse it.
    """
    refuse_chunks(request)
    if _codings(request):
        raise _unsupported_encoding("identity")
    return _announced_bytes(request)


def refuse_chunks(request: HttpRequest | Request) -> None:
    """Raise LengthRequired for a body without a length. A view whose body may be absent calls this first, for that reason."""
    if _is_chunked(request):
        raise errors.LengthRequired("Send the request with a Content-Length; chunked request bodies are not read here.")


def _is_chunked(request: HttpRequest | Request) -> bool:
    return not request.META.get("CONTENT_LENGTH") and "HTTP_TRANSFER_ENCODING" in request.META


def _announced_bytes(request: HttpRequest | Request) -> int:
    length = request.META.get("CONTENT_LENGTH") or ""
    if not (length.isascii() and length.isdigit() and int(length)):
        raise errors.InvalidRequest("The request body is empty. Send a JSON object.")
    if int(length) > settings.REQUEST_BYTES_MAX:
        raise errors.RequestTooLarge(f"The request body is larger than {settings.REQUEST_BYTES_MAX} bytes.")
    return int(length)


def _codings(request: HttpRequest | Request) -> list[str]:
    """Return how a body is compressed, in the order of doing so. Raises UnsupportedMediaType for what is not read here."""
    try:
        return packed_bodies.codings(request.META.get("HTTP_CONTENT_ENCODING", ""))
    except ValueError:
        raise _unsupported_encoding(packed_bodies.ACCEPTED) from None


def _unsupported_encoding(supported: str) -> errors.UnsupportedMediaType:
    choice = supported if supported == "identity" else f"one or two of {supported}, or identity"
    message = f"The Content-Encoding of the request body must be {choice}."
    return errors.UnsupportedMediaType(message, headers={"Accept-Encoding": supported})


def _read_chunks(request: HttpRequest, arrived: Callable[[int], None]) -> bytes:
    body = bytearray()
    try:
        for piece in bodies.read_chunks(request.META):
            body += piece
            if len(body) > settings.REQUEST_BYTES_MAX:
                raise errors.RequestTooLarge(f"The request body is larger than {settings.REQUEST_BYTES_MAX} bytes.")
            arrived(len(body))
    except bodies.InvalidChunks:
        raise errors.InvalidRequest(
            f"The request body is not in chunked transfer coding, ended too early, or has more than {bodies.CHUNKS_MAX} chunks."
        ) from None
    if not body:
        raise errors.InvalidRequest("The request body is empty. Send a JSON object.")
    return bytes(body)


class _Late(BaseException):
    """The body did not arrive in time."""


def work_bytes(body: bytes) -> int:
    """Return how large a text would be whose parsing takes as long as this body's: many tiny values take long."""
    if len(body) * _TEXT_PER_SYNTAX <= large_work.LARGE_BYTES or len(body) > large_work.LARGE_BYTES:
        return len(body)  # it is not large, or large anyway
    return max(len(body), _TEXT_PER_SYNTAX * sum(map(len, _syntax(body))))


def loads(
    body: bytes, *, syntax_max: int | None = None, uncounted: bytes = b"", pause: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Parse one JSON object. Raises InvalidRequest with the reason, also for what two parsers may read differently.

    ``syntax_max`` bounds the characters outside strings, without white space and those ``uncounted``: the time that parsing
    takes depends on them, and hardly on the length of the strings.
    """
    names = _count_names(body, syntax_max, uncounted, pause)
    try:
        value = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(body, error) from None
    if not isinstance(value, dict):
        raise errors.InvalidRequest("The request body must be a JSON object.")
    pause()
    if _has_nul(body):
        raise errors.InvalidRequest("The request body contains a NUL character.")
    if names != _count_members(value, pause):
        raise _refusal(body, None)
    return value


# --- What can be mended -------------------------------------------------------------------------------------------

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REPLACEMENT = "\ufffd".encode()
_SURROGATE_IN_UTF_8 = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_HIGH, _LOW = rb"[dD][89abAB][0-9a-fA-F]{2}", rb"[dD][c-fC-F][0-9a-fA-F]{2}"
_PAIR_OR_UNSTORABLE = re.compile(rb"\\u(?:0000|%b(\\u%b)?|%b)" % (_HIGH, _LOW, _LOW))
_BACKSLASH = ord("\\")
_FOUND_AT_ONCE = 10_000


def mended(body: bytes, pause: Callable[[], None]) -> tuple[bytes, bool]:
    """Return a refused body without its byte order mark, and whether characters of its texts were replaced.

    U+FFFD replaces each NUL, which PostgreSQL cannot keep, and each half of a surrogate pair, which UTF-8 cannot: an agent
    that once read a binary file sends them with every later request.
    """
    body, replaced = _SURROGATE_IN_UTF_8.subn(_REPLACEMENT, body.removeprefix(_BYTE_ORDER_MARK))
    kept, start, at, found_so_far = bytearray(), 0, 0, 0
    while found := _PAIR_OR_UNSTORABLE.search(body, at):
        if (found_so_far := found_so_far + 1) % _FOUND_AT_ONCE == 0:
            pause()
        at = found.end()
        if _is_escaped(body, found.start()):
            at = found.start() + 2
        elif not found[1]:
            kept += body[start : found.start()] + _REPLACEMENT
            start = at
    return bytes(kept + body[start:]), bool(replaced or start)


def _is_escaped(body: bytes, at: int) -> bool:
    before = at
    while before and body[before - 1] == _BACKSLASH:
        before -= 1
    return (at - before) % 2 == 1


# --- Between the strings ------------------------------------------------------------------------------------------


def _count_names(body: bytes, syntax_max: int | None, uncounted: bytes, pause: Callable[[], None]) -> int:
    """Return the number of names, if the body is JSON. Raises InvalidRequest beyond ``syntax_max`` characters."""
    if len(body) <= _SLICE_BYTES and (syntax_max is None or len(body) <= syntax_max):
        return _outside_strings(body, 0)[0].count(b":")
    names = characters = 0
    for syntax in _syntax(body):
        names += syntax.count(b":")
        characters += len(syntax.translate(None, uncounted))
        if syntax_max is not None and characters > syntax_max:
            raise errors.InvalidRequest(
                f"The request body has more than {syntax_max} characters of JSON outside strings: too many values."
            )
        if len(body) > _SLICE_BYTES:
            pause()
    return names


def _syntax(body: bytes) -> Iterator[bytes]:
    start, is_in_string = 0, 0
    while start < len(body):
        piece = body[start : start + _SLICE_BYTES]
        is_last = start + len(piece) == len(body)
        if not is_last and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = piece[:-1]  # a backslash is not cut off from what it escapes
        start += len(piece)
        syntax, quotes = _outside_strings(piece, is_in_string)
        yield syntax.translate(None, b" \t\r\n")
        is_in_string = (is_in_string + quotes) % 2


def _outside_strings(piece: bytes, is_in_string: int) -> tuple[bytes, int]:
    """Return what is outside of strings, and the number of quotation marks that begin or end one."""
    if b"\\" in piece:
        piece = piece.replace(rb"\\", b"").replace(rb"\"", b"")
    parts = piece.split(b'"')
    return b"".join(parts[is_in_string::2]), len(parts) - 1


def _has_nul(body: bytes) -> bool:
    return _NUL in body and _NUL in body.replace(rb"\\", b"")  # the second for an escaped backslash before u0000


# --- The parsed tree ----------------------------------------------------------------------------------------------


def _count_members(value: Any, pause: Callable[[], None]) -> int:
    """Return the number of members of all objects. Raises InvalidRequest for more than DEPTH_MAX levels."""
    members, level = 0, [value]
    for _ in range(DEPTH_MAX):
        containers: list[Any] = []
        for container in level:
            if type(container) is dict:
                members += len(container)
                container = container.values()
            containers += [item for item in container if type(item) in _CONTAINERS]
        if not containers:
            return members
        level = containers
        if len(level) > _PAUSED_CONTAINERS:
            pause()
    raise errors.InvalidRequest(_TOO_DEEP)


_CONTAINERS = (dict, list)
_PAUSED_CONTAINERS = 1_000
_TOO_DEEP = f"The request body is nested more than {DEPTH_MAX} levels deep."


# --- Refusals, worded by Python's parser --------------------------------------------------------------------------


def _refusal(body: bytes, error: Exception | None) -> errors.InvalidRequest:
    """Return the refusal of a body that msgspec refused with ``error``, or in which a name occurs twice (None)."""
    if isinstance(error, RecursionError):
        return errors.InvalidRequest(_TOO_DEEP)
    if len(body) <= _EXPLAINED_BYTES_MAX:
        try:
            _explain(body)
        except errors.InvalidRequest as refusal:
            return refusal
        except RecursionError:
            return errors.InvalidRequest(_TOO_DEEP)
    if error is None:
        return errors.InvalidRequest("A name occurs twice in one object of the request body.")
    if isinstance(error, UnicodeDecodeError):
        return errors.InvalidRequest("The request body is not UTF-8.")
    if isinstance(error, msgspec.ValidationError):  # the JSON is valid, and a number is beyond what can be read
        reason = "has too many digits" if str(error).startswith("Integer") else "is too large"
        return errors.InvalidRequest(f"A number in the request body {reason}.")
    return errors.InvalidRequest(f"The request body is not valid JSON: {error}.")


def _explain(body: bytes) -> None:
    """Raise InvalidRequest with the reason why a body is refused, if Python's parser knows one, or RecursionError."""
    try:
        value = _explaining_decode(body.decode())
    except UnicodeDecodeError:
        raise errors.InvalidRequest("The request body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise errors.InvalidRequest(f"The request body is not valid JSON: {error}.") from None
    except ValueError:  # Python raises it for integers of thousands of digits, which take quadratic time to parse
        raise errors.InvalidRequest("A number in the request body has too many digits.") from None
    if not isinstance(value, dict):
        raise errors.InvalidRequest("The request body must be a JSON object.")
    if _has_nul(body):
        raise errors.InvalidRequest("The request body contains a NUL character.")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise errors.InvalidRequest("The request body contains half of a surrogate pair.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise errors.InvalidRequest(f"The name {twice!r} occurs twice in one object.", param=twice, quotes_request=True)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise errors.InvalidRequest(f"{name} is not a JSON number.")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise errors.InvalidRequest(f"The number {digits[:40]} is too large.", quotes_request=True)
    return number


_explaining_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite).decode
