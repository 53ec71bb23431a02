"""Replaces what gunicorn does for every request in ways that take many calls of Python, with what takes few.

Its settings do not change in a worker. What it replaces is tested against gunicorn's own, and the version is pinned.
"""

import time
from functools import lru_cache
from operator import methodcaller
from typing import Any

from gunicorn import util
from gunicorn.http import message, wsgi
from gunicorn.http.body import LengthReader
from gunicorn.http.message import HeaderPolicy
from gunicorn.http.parser import Parser
from gunicorn.http.unreader import SocketUnreader

from gateway_project.net import sockets

_finish_body = Parser.finish_body
_process_headers = wsgi.Response.process_headers
_base_environ, _http_date, _ip_in_allow_list = wsgi.base_environ, util.http_date, message._ip_in_allow_list
_PEERS_MAX = 1_024
_NAMES_MAX = 256
_plain_names: set[str] = set()  # of headers of replies that gunicorn sends as they are


def install() -> None:
    """Replace them. Call it once per worker."""
    HeaderPolicy._peer_is_trusted_proxy = peer_is_trusted_proxy
    message.bytes_to_str = methodcaller("decode", "latin-1")  # it is only given bytes
    util.http_date = http_date
    util.is_hoppish = lru_cache(maxsize=256)(util.is_hoppish)  # a name of a reply's header
    util.unquote_to_wsgi_str = lru_cache(maxsize=256)(util.unquote_to_wsgi_str)  # a path
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
    """Return the next bytes of a connection, which is waited for at once: a client sends nothing before it has its reply."""
    size = unreader.mxchunk
    if size_hint and size_hint > size:
        size = min(size_hint, unreader.max_body_chunk)
    return sockets.receive(unreader.sock, size)


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
