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

_finish_body = Parser.finish_body
_base_environ, _http_date, _ip_in_allow_list = wsgi.base_environ, util.http_date, message._ip_in_allow_list
_PEERS_MAX = 1_024


def install() -> None:
    """Replace them. Call it once per worker."""
    HeaderPolicy._peer_is_trusted_proxy = peer_is_trusted_proxy
    message.bytes_to_str = methodcaller("decode", "latin-1")  # it is only given bytes
    util.http_date = http_date
    util.is_hoppish = lru_cache(maxsize=256)(util.is_hoppish)  # a name of a reply's header
    util.unquote_to_wsgi_str = lru_cache(maxsize=256)(util.unquote_to_wsgi_str)  # a path
    wsgi.base_environ = base_environ
    Parser.finish_body = finish_body


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
