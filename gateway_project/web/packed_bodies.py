"""Unpacks request bodies that are compressed with gzip, within a bound of bytes and of time.

A kilobyte may unpack to a megabyte. So it is unpacked slice by slice, and never beyond the bound of other bodies.
"""

import zlib
from collections.abc import Callable

from django.conf import settings

from gateway_project import errors, large_work

_SLICE_BYTES = 262_144
_GZIP = zlib.MAX_WBITS | 16


def unpack(packed: bytes, arrived: Callable[[int], None]) -> bytes:
    """Return the body, of at most REQUEST_BYTES_MAX. ``arrived`` is told how many bytes there are, packed and unpacked.

    Raises InvalidRequest, RequestTooLarge.
    """
    unpacker = zlib.decompressobj(_GZIP)
    body, left = bytearray(), packed
    while left:
        with large_work.turn(max(len(packed), len(body))):
            body += _unpack_slice(unpacker, left)
        left = unpacker.unconsumed_tail
        if len(body) > settings.REQUEST_BYTES_MAX:
            raise errors.RequestTooLarge(f"The request body is larger than {settings.REQUEST_BYTES_MAX} bytes, unpacked.")
        arrived(len(packed) + len(body))
    if not unpacker.eof or unpacker.unused_data:
        raise errors.InvalidRequest("The request body is not one whole gzip file.")
    return bytes(body)


def _unpack_slice(unpacker: "zlib._Decompress", packed: bytes) -> bytes:
    try:
        return unpacker.decompress(packed, _SLICE_BYTES)
    except zlib.error:
        raise errors.InvalidRequest("The request body is not gzip, as its Content-Encoding says.") from None
