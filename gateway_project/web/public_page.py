"""Pages that are the same for everybody: rendered once in some seconds, compressed, and without cookies."""

import gzip
import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response

from gateway_project.cache import TTLCache

_HEADERS = {"Cache-Control": "public, max-age=60", "Vary": "Accept-Encoding"}
_CACHED_SECONDS = 10
_PAGES_MAX = 256


@dataclass(frozen=True)
class _RenderedPage:
    """A page, plain and gzipped. It holds no secret that the compressed size could reveal."""

    html: bytes
    gzipped: bytes
    digest: str
    version: object


_pages: TTLCache[Hashable, _RenderedPage] = TTLCache(seconds=_CACHED_SECONDS, entries_max=_PAGES_MAX)


def respond(request: HttpRequest, key: Hashable, render: Callable[[], str], version: object = None) -> HttpResponseBase:
    """Return the page with that key, rendered if need be, or 304. One that was made of another ``version`` is rendered anew."""
    page = _pages.get(key)
    if page is None or page.version is not version:
        html = render().encode()
        page = _RenderedPage(html, gzip.compress(html, mtime=0), hashlib.sha256(html).hexdigest()[:24], version)
        _pages.put(key, page)
    response = _response(page, is_gzipped="gzip" in request.headers.get("Accept-Encoding", ""))
    return get_conditional_response(request, etag=response["ETag"], response=response) or response


def forget() -> None:
    """Render every page again when it is next asked for."""
    _pages.clear()


def _response(page: _RenderedPage, *, is_gzipped: bool) -> HttpResponse:
    if not is_gzipped:
        return HttpResponse(page.html, headers={**_HEADERS, "ETag": f'"{page.digest}"'})
    return HttpResponse(page.gzipped, headers={**_HEADERS, "ETag": f'"{page.digest}-gzip"', "Content-Encoding": "gzip"})
