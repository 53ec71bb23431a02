"""Pages that are the same for everybody: rendered once in some seconds, compressed, and served as bytes without cookies.

One page is rendered at a time; meanwhile the previous one is served. A page of free text has no key and is rendered for each
request: it would fill the cache.
"""

import functools
import gzip
import hashlib
import math
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from gateway_project import errors
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from gateway_project.web import error_replies, hosts

_HEADERS = {"Cache-Control": "public, max-age=60", "Vary": "Accept-Encoding"}
_CACHED_SECONDS = 10
_PREVIOUS_SECONDS_MAX = 30  # beside a request that renders the next
_PAGES_MAX = 256
_DOCUMENTS_MAX = 128

_UNCRAWLED = ["/dashboard/", "/accounts/", "/admin/", "/api/", "/mails/", "/v1/"]
_ROBOTS = "User-agent: *\n" + "".join(f"Disallow: {path}\n" for path in _UNCRAWLED)

_rendering = threading.Lock()

View = Callable[..., HttpResponseBase]


def view(unavailable: str) -> Callable[[View], View]:
    """Return a decorator that turns errors into pages, uncached. ``unavailable`` is the message when the database fails."""

    def decorate(function: View) -> View:
        @require_safe
        @functools.wraps(function)
        def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                return function(request, *args, **kwargs)
            except pool.DATABASE_ERRORS:
                error: errors.ApiError = errors.ServiceUnavailable(unavailable)
            except errors.ApiError as refusal:
                error = refusal
            response = error_replies.refuse(request, error)
            response["Cache-Control"] = "no-store"
            return response

        return page

    return decorate


@dataclass(frozen=True)
class RenderedPage:
    """A page, plain and gzipped. It holds no secret that the compressed size could reveal."""

    content: bytes
    gzipped: bytes
    digest: str


_Pages = StaleWhileRefresh[Hashable, RenderedPage]
_pages = _Pages(seconds=_CACHED_SECONDS, entries_max=_PAGES_MAX, stale_seconds_max=_PREVIOUS_SECONDS_MAX)
_documents = _Pages(seconds=math.inf, entries_max=_DOCUMENTS_MAX)


def respond(
    request: HttpRequest,
    key: Hashable | None,
    render: Callable[[], str],
    version: Hashable = None,
    headers: dict[str, str] | None = None,
    is_document: bool = False,
) -> HttpResponseBase:
    """Return the page with that key, rendered if need be, or 304. One that was made of another ``version`` is rendered anew.

    ``is_document``: it changes only with the code, and is rendered once.
    """
    page = _render(render) if key is None else _kept(_documents if is_document else _pages, key, render, version)
    return _reply(request, page, {**_HEADERS, **(headers or {})})


def _kept(pages: _Pages, key: Hashable, render: Callable[[], str], version: Hashable) -> RenderedPage:
    def load(previous: RenderedPage | None) -> RenderedPage:
        if previous is not None:
            return _render(render)
        with _turn():  # another one may have rendered it meanwhile
            return pages.get(key, lambda _: _compress(render()), version)

    return pages.get(key, load, version)


def _render(render: Callable[[], str]) -> RenderedPage:
    with _turn():
        return _compress(render())


def _turn() -> threading.Lock:
    pool.release_connection()  # whoever renders may need it
    return _rendering


def _compress(text: str) -> RenderedPage:
    content = text.encode()
    return RenderedPage(content, gzip.compress(content, mtime=0), hashlib.sha256(content).hexdigest()[:24])


def forget() -> None:
    """Render every page again when it is next asked for."""
    _pages.clear()
    _documents.clear()


def _reply(request: HttpRequest, page: RenderedPage, headers: dict[str, str]) -> HttpResponseBase:
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        content, etag, headers = page.gzipped, f'"{page.digest}-gzip"', {**headers, "Content-Encoding": "gzip"}
    else:
        content, etag = page.content, f'"{page.digest}"'
    response = HttpResponse(content, headers={**headers, "ETag": etag})
    return get_conditional_response(request, etag=etag, response=response) or response


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Say what search engines may read, and name the sitemap."""
    text = f"{_ROBOTS}Sitemap: {hosts.base_url(request)}{reverse('sitemap')}\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers={"Cache-Control": "public, max-age=86400"})
