"""Replaces what gunicorn does for every request in ways that take many calls of Python, with what takes few.

Its settings do not change in a worker. What it replaces is tested against gunicorn's own, and the version is pinned.
"""

import time
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

from gunicorn import util
from gunicorn.http import message, wsgi
from gunicorn.http.body import LengthReader
from gunicorn.http.message import HeaderPolicy, Request
from gunicorn.http.parser import Parser
from gunicorn.http.unreader import SocketUnreader

from gateway_project.net import sockets

_finish_body = Parser.finish_body
_parse_request_line, _parse_headers = Request.parse_request_line, Request.parse_headers
_process_headers = wsgi.Response.process_headers
_base_environ, _http_date, _ip_in_allow_list = wsgi.base_environ, util.http_date, message._ip_in_allow_list
_PEERS_MAX = 1_024
_NAMES_MAX = 256
_LINES_MAX, _LINE_BYTES_MAX = 256, 256
_lines: dict[bytes, tuple[str, str, str, str, str, tuple[int, int]]] = {}  # of request lines: what gunicorn found in each
_read_line = attrgetter("method", "uri", "path", "query", "fragment", "version")
_plain_names: set[str] = set()  # of headers of replies that gunicorn sends as they are


def install() -> None:
    """Replace them. Call it once per worker."""
    HeaderPolicy._peer_is_trusted_proxy = peer_is_trusted_proxy
    message.bytes_to_str = methodcaller("decode", "latin-1")  # it is only given bytes
    util.http_date = http_date
    util.is_hoppish = lru_cache(maxsize=256)(util.is_hoppish)  # a name of a reply's header
    util.unquote_to_wsgi_str = lru_cache(maxsize=256)(util.unquote_to_wsgi_str)  # a path
    Request.parse_request_line = parse_request_line
    Request.parse_headers = parse_headers
    wsgi.base_environ = base_environ
    wsgi.Response.process_headers = process_headers
    Parser.finish_body = finish_body
    SocketUnreader.chunk = chunk


def peer_is_trusted_proxy(request: Any) -> bool:
    """Return whether the client's headers about forwarding count; whether its address is one of a proxy's is looked up once."""
    address = request.peer_addr
    return not isinstance(address, tuple) or _is_trusted(request.cfg, address[0])


@lru_cache(maxsize=_PEERS_MAX)
def _is_trusted(cfg: Any, address: str) -> bool:
    return bool(_ip_in_allow_list(address, cfg.forwarded_allow_ips, cfg.forwarded_allow_networks()))


def finish_body(parser: Any, *args: Any, **options: Any) -> bool:
    """Discard what was not read of the last body: nothing of one that was read to its length."""
    body = parser.mesg and parser.mesg.body
    if body and type(body.reader) is LengthReader and not body.reader.length and not body.failed:
        return True
    return bool(_finish_body(parser, *args, **options))


def chunk(unreader: SocketUnreader, size_hint: int | None = None) -> bytes:
    """Return the next bytes of a connection. Wait before reading: between two requests gunicorn's own reading finds nothing."""
    size = unreader.mxchunk
    if size_hint and size_hint > size:
        size = min(size_hint, unreader.max_body_chunk)
    return sockets.receive(unreader.sock, size)


def parse_request_line(request: Any, line: bytes) -> None:
    """Parse the first line of a request. It is kept if it has no query, which may hold a secret."""
    if facts := _lines.get(line):
        request.method, request.uri, request.path, request.query, request.fragment, request.version = facts
        return
    _parse_request_line(request, line)
    if len(line) <= _LINE_BYTES_MAX and b"?" not in line:
        if len(_lines) >= _LINES_MAX:
            _lines.clear()
        _lines[line] = _read_line(request)


def parse_headers(request: Any, data: bytes, from_trailer: bool = False) -> list[tuple[str, str]]:
    """Parse the headers of a request in few calls.

    Leave a head to gunicorn's own function if it is a trailer, is folded, repeats a header that may come once, or has
    characters that cannot be printed.
    """
    lines = data.decode("latin-1").split("\r\n")
    is_usual = b"\r\n " not in data and len(lines) <= request.limit_request_fields and "".join(lines).isprintable()
    usual = _parse_usual(request, lines) if is_usual and not from_trailer else None
    if usual is None:
        usual = _parse_headers(request, data, from_trailer)
    return usual


def _parse_usual(request: Any, lines: list[str]) -> list[tuple[str, str]] | None:
    """Return the headers; None if one is not usual. Raises as gunicorn does for headers about which it has rules."""
    headers, scheme_state = [], [False]
    seen: set[str] = set()
    trusted = request._peer_trusted_for_forwarded()
    for line in lines:
        name, colon, value = line.partition(":")
        kind = _kind(name, request.cfg)
        if not (colon and kind.name) or kind.name in seen or len(line) + 2 > request.limit_request_field_size:
            return None
        header = kind.name, value.strip(" \t")
        if kind.has_policy:
            header = request._apply_header_policy(*header, scheme_state, seen, *trusted)
        elif kind.is_single:
            seen.add(kind.name)
        if header:
            headers.append(header)
    return headers


class _Kind(NamedTuple):
    """A header's name as gunicorn writes it, "" if it is invalid, and which rules there are for it."""

    name: str
    is_single: bool = False  # it may come once
    has_policy: bool = False  # gunicorn has further rules


@lru_cache(maxsize=_NAMES_MAX)
def _kind(name: str, cfg: Any) -> _Kind:
    if not message.TOKEN_RE.fullmatch(name) or cfg.strip_header_spaces:
        return _Kind("")
    upper = name.upper()
    has_policy = upper == "EXPECT" or "_" in upper or upper in cfg.secure_scheme_headers
    return _Kind(upper, upper in message.RFC9110_5_3_SINGLETON_FIELDS, has_policy)


def process_headers(response: Any, headers: list[tuple[str, str]]) -> None:
    """Check the headers of a reply, and take them over: together where names are known and values are of printable ASCII."""
    taken, length = [], response.response_length
    for name, value in headers:
        if name in _plain_names and value.isascii() and value.isprintable():
            taken.append((name, value.strip(" ")))
        elif name == "Content-Length" and value.isascii() and value.isdigit():
            taken.append((name, value))
            length = int(value)
        else:
            _learn_headers(response, headers)
            break
    else:
        response.headers += taken
        response.response_length = length


def _learn_headers(response: Any, headers: list[tuple[str, str]]) -> None:
    _process_headers(response, headers)
    if len(_plain_names) < _NAMES_MAX:
        names = {name for name, _ in response.headers}
        _plain_names.update(name for name in names if name.lower() not in ("content-length", "upgrade"))


def http_date(timestamp: float | None = None) -> str:
    """Return the date of a header, which is formatted once a second."""
    return _formatted(int(time.time() if timestamp is None else timestamp))


@lru_cache(maxsize=1)
def _formatted(second: int) -> str:
    return str(_http_date(second))


def base_environ(cfg: Any) -> dict[str, Any]:
    """Return what is the same in each request; gunicorn adds the rest to it."""
    return _kept_environ(cfg).copy()


@lru_cache(maxsize=1)
def _kept_environ(cfg: Any) -> dict[str, Any]:
    environ: dict[str, Any] = _base_environ(cfg)
    return environ
