"""Unpacks request bodies by their Content-Encoding, slice by slice and within bounds: a kilobyte may unpack to a megabyte."""

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings

from gateway_project import errors, large_work

CODINGS_MAX = 2  # of one body
MEMBERS_MAX = 1_000  # of one coding: each costs time, and an empty one has 20 bytes
_SLICE_BYTES = 262_144
_FED_BYTES = 65_536  # what comes after a member is copied
_ZSTD_WINDOW_LOG_MAX = 23  # 8 MB, all that RFC 9659 lets a server need for this coding

_Unpacker = Any  # with zlib's interface; the packed rest stays in ``unconsumed_tail``, where it has one, or inside


def codings(header: str) -> list[str]:
    """Return the codings of a Content-Encoding, as they were applied, without identity. Raises ValueError for unknown ones."""
    names = [name.strip().lower() for name in header.split(",")]
    applied = [name for name in names if name not in ("", "identity")]
    if len(applied) > CODINGS_MAX or not _MAKERS.keys() >= set(applied):
        raise ValueError(header)
    return applied


def unpack(packed: bytes, applied: list[str], arrived: Callable[[int], None]) -> bytes:
    """Return the body; tell ``arrived`` how many bytes there are, packed and unpacked."""
    before = 0
    for coding in reversed(applied):
        before += len(packed)
        packed = _unpack(packed, coding, arrived, before)
    return packed


def _unpack(packed: bytes, coding: str, arrived: Callable[[int], None], before: int) -> bytes:
    body, slices = bytearray(), _slices(packed, coding)
    while True:
        with large_work.turn(max(len(packed), len(body))):
            unpacked = next(slices, None)
        if unpacked is None:
            return bytes(body)
        body += unpacked
        if len(body) > settings.REQUEST_BYTES_MAX:
            raise errors.RequestTooLarge(f"The request body is larger than {settings.REQUEST_BYTES_MAX} bytes, unpacked.")
        arrived(before + len(body))


def _slices(packed: bytes, coding: str) -> Iterator[bytes]:
    """Yield the body in slices. gzip and zstd may have several members, one after the other, and zeros behind them."""
    make = _MAKERS[coding]
    unpacker, members = make(packed), 1
    for start in range(0, len(packed), _FED_BYTES):
        left, may_have_more = packed[start : start + _FED_BYTES], False
        while left or may_have_more:
            if unpacker.eof:
                if not (left := left.lstrip(b"\0")):
                    break
                unpacker, members = make(left), members + 1
                if members > MEMBERS_MAX or coding == "deflate":
                    raise errors.InvalidRequest(f"The request body has more than one whole {coding}, or too many members.")
            try:
                piece = unpacker.decompress(left, _SLICE_BYTES)
            except Exception as error:  # each library has a class of its own
                if not (isinstance(error, zlib.error) or type(error).__name__ == "ZstdError"):
                    raise
                raise errors.InvalidRequest(f"The request body is not {coding}, as its Content-Encoding says.") from None
            left = unpacker.unused_data if unpacker.eof else getattr(unpacker, "unconsumed_tail", b"")
            may_have_more = len(piece) == _SLICE_BYTES and not unpacker.eof
            yield piece
    if not unpacker.eof:
        raise errors.InvalidRequest(f"The request body is not whole: its {coding} ends too early.")


def _gzip(_beginning: bytes) -> _Unpacker:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _deflate(beginning: bytes) -> _Unpacker:
    """Return the unpacker of zlib's format, as RFC 9110 has it, or of deflate alone, as some clients send it."""
    is_zlib = len(beginning) > 1 and beginning[0] & 15 == 8 and int.from_bytes(beginning[:2]) % 31 == 0
    return zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def _zstd(_beginning: bytes) -> _Unpacker:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd  # here, because few requests need it
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG_MAX})


_MAKERS: dict[str, Callable[[bytes], _Unpacker]] = {"zstd": _zstd, "gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate}
ACCEPTED = "zstd, gzip, deflate"
