"""Fetches the images that a request gives by address, once admission has decided that its caller can pay for it.

Callers choose the addresses. So the gateway connects to public ones alone, also after a redirect, on connections of their own
to the resolved address; it sends nothing of the caller's, and reads a bounded time and number of bytes. An error says no more
than a status.
"""

import base64
import time
from collections.abc import Callable
from urllib.parse import quote

from django.conf import settings

from completions.chat import ChatRequest, RequestBody
from completions.request import remote_images
from completions.request.schema import IMAGE_SCHEMES
from gateway_project import errors, large_work
from gateway_project.net import addresses, http
from gateway_project.text import web_addresses

REQUEST_SECONDS_MAX = 20  # for all images of a request
REDIRECTS_MAX = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_UNQUOTED = "%!#$&'()*+,/:;=?@[]~"
_BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"))
_DEADLINES = http.Deadlines(connect_seconds=5, first_byte_seconds=10, idle_seconds=5, total_seconds=10)


class _Unusable(Exception):
    """An image cannot be had. The message is the end of a sentence."""


def bytes_max() -> int:
    """Return the most bytes of a request's images, as text. They may have as many bytes as a body may."""
    return 4 * settings.REQUEST_BYTES_MAX // 3 + 4 * settings.REQUEST_IMAGES_MAX


def fetch(request: ChatRequest, arrived: Callable[[int], None]) -> None:
    """Put the images into the body. ``arrived`` is told the bytes of their text. Raises InvalidRequest at the first failure."""
    found = request.contents.remote_images
    until = time.monotonic() + REQUEST_SECONDS_MAX
    images: dict[str, str] = {}
    left_bytes = settings.REQUEST_BYTES_MAX
    for path, address in found:
        if address in images:
            continue
        try:
            body = _fetch(address, until, left_bytes)
            images[address] = _data_url(body)
        except _Unusable as failure:
            raise errors.wrong(path, f"cannot be fetched: {failure}") from None
        left_bytes -= len(body)
        arrived(sum(map(len, images.values())))

    def fill(body: RequestBody) -> None:
        body.fields = remote_images.insert(body.fields, found, images)
        if body.original is not None:
            body.original = remote_images.insert_in_blocks(body.original, images)

    request.body.fill(fill)


def _fetch(address: str, until: float, left_bytes: int) -> bytes:
    url = address
    for _ in range(REDIRECTS_MAX + 1):
        url = quote(url, safe=_UNQUOTED)
        _require_allowed(url)
        try:
            fetched = http.get_alone(
                url, deadlines=_DEADLINES, until=until, private_networks=settings.PRIVATE_IMAGES, bytes_max=left_bytes
            )
        except http.OutboundError as error:
            raise _Unusable(_describe(error)) from None
        if fetched.status not in _REDIRECTS:
            break
        url = web_addresses.join(url, fetched.location)
    if fetched.status != 200:
        raise _Unusable(f"its server answered {fetched.status}")
    return fetched.body


def _require_allowed(url: str) -> None:
    parts = web_addresses.parse(url)
    if not url.startswith(IMAGE_SCHEMES) or "@" in parts.netloc:
        raise _Unusable("its address, or one that it redirects to, is not https, or has a password")
    try:
        addresses.check_host(parts.hostname or "", settings.PRIVATE_IMAGES)
    except ValueError:
        raise _Unusable("its address leads to no public host") from None


def _describe(error: http.OutboundError) -> str:
    match error:
        case http.LocalFault() if isinstance(error.__cause__, addresses.NotPermitted):
            return "its address leads to no public host"
        case http.ResponseTooLarge():
            return f"the images of a request may have {settings.REQUEST_BYTES_MAX} bytes"
        case http.ConnectFailed():
            return "there was no connection to its server"
        case http.TimedOut():
            return "its server did not send it in time"
    return "its server broke off, or did not answer in HTTP"


def _data_url(image: bytes) -> str:
    kind = next((kind for beginning, kind in _BEGINNINGS if image.startswith(beginning)), "")
    if image.startswith(b"RIFF") and image[8:12] == b"WEBP":
        kind = "webp"
    if not kind:
        raise _Unusable("it is no PNG, JPEG, GIF or WebP image")
    with large_work.turn(len(image)):
        return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
