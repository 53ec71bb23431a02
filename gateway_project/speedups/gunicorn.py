"""Parts of gunicorn that take many calls of Python for every request. Its settings do not change in a worker."""

from functools import lru_cache
from operator import methodcaller
from typing import Any

from gunicorn import util
from gunicorn.config import Config
from gunicorn.http import message, wsgi
from gunicorn.http.message import HeaderPolicy
from gunicorn.http.wsgi import Response

from gateway_project.net import sockets
from gateway_project.speedups.libraries import attribute

_get_setting, _base_environ, _write = Config.__getattr__, wsgi.base_environ, Response.write
read_latin_1, is_hoppish = methodcaller("decode", "latin-1"), lru_cache(256)(util.is_hoppish)
_PEERS_MAX = 1_024
_JOINED_BYTES_MAX = 65_536  # of a reply and its head


def get_setting(cfg: Config, name: str) -> Any:
    """Return a setting. It is an attribute from then on, which Python finds without a call."""
    value = vars(cfg)[name] = _get_setting(cfg, name)
    return value


def peer_is_trusted_proxy(request: Any) -> bool:
    """Return whether the client's headers about forwarding count; whether its address is one of a proxy's is looked up once."""
    address = request.peer_addr
    return not isinstance(address, tuple) or _is_trusted(request.cfg, address[0])


@lru_cache(maxsize=_PEERS_MAX)
def _is_trusted(cfg: Any, address: str) -> bool:
    return bool(message._ip_in_allow_list(address, cfg.forwarded_allow_ips, cfg.forwarded_allow_networks()))


def base_environ(cfg: Config) -> dict[str, Any]:
    """Return what is the same in each request; gunicorn adds the rest to it."""
    return _kept_environ(cfg).copy()


@lru_cache(maxsize=1)
def _kept_environ(cfg: Config) -> dict[str, Any]:
    environ: dict[str, Any] = _base_environ(cfg)
    return environ


def write(response: Response, data: bytes) -> None:
    """Send with one system call what frames a part of a reply, too: a whole reply with its head, and each part of a stream."""
    if 0 < len(data) <= _JOINED_BYTES_MAX and response.headers_sent and response.chunked and not response._omits_body:
        response.sent += len(data)
        sockets.send_all(response.sock, b"%X\r\n%b\r\n" % (len(data), data))
        return
    framed = _framed(response, data)
    if framed is None:
        _write(response, data)
        return
    response.headers_sent = True
    response.sent += len(data)
    sockets.send_all(response.sock, framed)


def _framed(response: Response, data: bytes) -> bytes | None:
    """Return the head of a reply with ``data``, the whole reply or the first part of a stream; None for anything else."""
    if not 0 < len(data) <= _JOINED_BYTES_MAX or response._omits_body or response.headers_sent:
        return None
    if response.chunked:
        body = b"%X\r\n%b\r\n" % (len(data), data)
    elif response.response_length == len(data):
        body = data
    else:
        return None
    lines = [*response.default_headers(), *[f"{name}: {value}\r\n" for name, value in response.headers], "\r\n"]
    return "".join(lines).encode("latin-1") + body


SPEEDUPS = [
    attribute(Config, "__getattr__", get_setting, "36", "test_each_setting_has_the_value_that_gunicorn_returns"),
    # It is only given bytes.
    attribute(message, "bytes_to_str", read_latin_1, "8", "test_a_part_of_a_request_is_read_as_by_gunicorn"),
    attribute(wsgi, "base_environ", base_environ, "10", "test_each_request_has_an_environ_of_its_own"),
    attribute(
        HeaderPolicy, "_peer_is_trusted_proxy", peer_is_trusted_proxy, "10", "test_a_peer_is_trusted_as_by_gunicorn_each_time"
    ),
    attribute(util, "is_hoppish", is_hoppish, "11", "test_a_header_is_hop_by_hop_as_for_gunicorn"),
    attribute(Response, "write", write, "13", "test_a_small_reply_is_sent_as_gunicorn_sends_it"),
]
