"""The project's middleware for pages, which API requests never reach. Additions to Django's are subclasses, for checks."""

import functools
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from typing import Any
from urllib.parse import unquote

import csp.constants
import gevent
import psycopg
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import BadRequest
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.response import HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.decorators import decorator_from_middleware
from django.utils.deprecation import MiddlewareMixin

from gateway_project import errors, large_work, logs
from gateway_project.db import pool
from gateway_project.net import disconnects
from gateway_project.web import error_replies, in_flight, strict_json
from gateway_project.web.bodies_in_flight import Arrived, process_bodies
from gateway_project.web.client_address import network_of
from gateway_project.web.gunicorn import bodies

logger = logging.getLogger("gateway.request")

FORM_BYTES_MAX = large_work.LARGE_BYTES  # of a form that someone sends who is not signed in
_CANCEL_SECONDS = 2
_WORK_PER_BYTE = 8  # a form takes at least so many times as long to parse as JSON
_NOT_PUBLIC = {"accounts", "admin", "dashboard"}  # first segments of paths
_SessionStore = import_module(settings.SESSION_ENGINE).SessionStore


class PageErrorMiddleware(MiddlewareMixin):
    """Answers in words an error of the API that a page raised, or of the database. All others are Django's to report.

    Rejects addresses that contain a NUL: PostgreSQL accepts none in texts, so a query would fail later with a 500.
    """

    def process_request(self, request: HttpRequest) -> None:
        if "\x00" in request.path_info:
            raise Http404
        if "\x00" in unquote(request.META.get("QUERY_STRING", "")):
            raise BadRequest("The address contains a NUL character.")

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not (isinstance(exception, errors.ApiError) or pool.is_unavailable(exception)):
            return None
        return error_replies.respond(request, error_replies.translate(exception))


class PageBodyMiddleware(MiddlewareMixin):
    """Reads the form, within its bounds and REQUEST_BODY_TIMEOUT_SECONDS, before anything else of the request.

    Django would wait for the rest of it for ever. A request whose client has hung up meanwhile ends. Only whoever is signed in
    sends more than FORM_BYTES_MAX, which counts among the bytes in flight. Forms that take long to parse take turns.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            strict_json.refuse_chunks(request)
            with _counted(request, _length(request)) as arrived:
                vars(request)["body_arrived"] = arrived
                return super().__call__(request)  # type: ignore[return-value]
        except errors.LengthRequired as refusal:
            disconnects.stop_reading(request.META.get("gunicorn.socket"))  # there may be no end of it
            return error_replies.refuse(request, refusal)
        except (errors.ApiError, *pool.DATABASE_ERRORS) as refusal:  # of its bytes: whatever happens later is a reply
            return error_replies.refuse(request, error_replies.translate(refusal))

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        length = _length(request)
        if not length:
            return None
        client = request.META.get("gunicorn.socket")
        try:
            with gevent.Timeout(settings.REQUEST_BODY_TIMEOUT_SECONDS):
                _read(request, length)
        except gevent.Timeout:
            disconnects.stop_reading(client)
            return error_replies.respond(request, errors.RequestTimeout("The form did not arrive in time."))
        except UnreadablePostError:
            raise BadRequest("The form ended before its Content-Length.") from None
        if disconnects.has_disconnected(client):
            return HttpResponse(status=errors.RequestTimeout.status)  # unread: the client has hung up
        _parse(request, length)
        return None


def _length(request: HttpRequest) -> int:
    text = request.META.get("CONTENT_LENGTH") or ""
    return int(text) if text.isascii() and text.isdigit() else 0


def _counted(request: HttpRequest, length: int) -> AbstractContextManager[Arrived]:
    """Count a large form of someone who is signed in. Raises RequestTooLarge for others, and what counting raises."""
    if length <= FORM_BYTES_MAX:
        return nullcontext(strict_json.uncounted)
    if length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        raise errors.RequestTooLarge(f"The form is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,} bytes.")
    user_id = None
    if session_key := request.COOKIES.get(settings.SESSION_COOKIE_NAME):
        user_id = _SessionStore(session_key).get(SESSION_KEY)  # whether the session still counts is asked later
        pool.release_connection()  # the form may take long to arrive
    if user_id is None:
        raise errors.RequestTooLarge(f"The form is larger than {FORM_BYTES_MAX:,} bytes. Sign in to send larger ones.")
    return process_bodies.counted(("user", user_id), length)


def _read(request: HttpRequest, length: int) -> None:
    body = bodies.read(request.META, length, vars(request)["body_arrived"])
    if body is None:
        request.body  # noqa: B018  Django keeps it, and parses the form from it
        return
    if len(body) < length:
        raise UnreadablePostError
    request._body = body


def _parse(request: HttpRequest, length: int) -> None:
    """Parse the form. A small one waits for the view, a larger one for its turn, and a large one is parsed in a thread."""
    work_bytes = _WORK_PER_BYTE * length
    if work_bytes <= large_work.LARGE_BYTES:
        return  # when something first asks for a field
    with large_work.turn(work_bytes):
        if length <= FORM_BYTES_MAX:
            request.POST  # noqa: B018  Django keeps it
        elif error := gevent.get_hub().threadpool.apply(_parsing_error, (request,)):
            raise error


def _parsing_error(request: HttpRequest) -> Exception | None:
    """Parse the form, and return what a thread would print."""
    try:
        request.POST  # noqa: B018
    except Exception as error:
        return error
    return None


class PageAddressInFlightMiddleware(MiddlewareMixin):
    """Counts the page under its client's address. Waits for the form and to sign in come before, and so do static files."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        network = network_of(request)
        return _begin(request, in_flight.pages_of_address, network) if network else None


counts_as_page = decorator_from_middleware(PageAddressInFlightMiddleware)  # a view that is large, public and none of the pages


class PageQueryMiddleware(MiddlewareMixin):
    """Cancels the query of a page that changes nothing when its client has hung up, and ends the page with it."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        client = request.META.get("gunicorn.socket")
        if client is None or request.method not in ("GET", "HEAD"):
            return super().__call__(request)  # type: ignore[return-value]
        with connection.execute_wrapper(functools.partial(_query, request, client)):
            return super().__call__(request)  # type: ignore[return-value]


def _query(
    request: HttpRequest, client: Any, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
) -> Any:
    """Run a query, and count its time to the pace of the page. Raise RequestTimeout when the client has hung up."""
    began = time.monotonic()
    gone = errors.RequestTimeout("The client disconnected.")
    if disconnects.has_disconnected(client):
        raise gone
    try:
        with disconnects.raise_on_disconnect(client, gone):
            return execute(sql, params, many, context)
    except errors.RequestTimeout:
        database = context["connection"]
        with suppress(psycopg.Error):
            database.connection.cancel_safe(timeout=_CANCEL_SECONDS)
        database.close()  # the pool opens another one: this one has a reply to come
        raise
    finally:
        in_flight.count_query(request, time.monotonic() - began)


class PageUserInFlightMiddleware(MiddlewareMixin):
    """Counts the page under its user instead, if someone is signed in."""

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        if not asks_who(request):
            return None
        try:
            user_id = request.user.pk  # None: no user is signed in
        except (errors.RequestTimeout, *pool.DATABASE_ERRORS) as error:
            return error_replies.refuse(request, error_replies.translate(error))
        return _begin(request, in_flight.pages_of_user, user_id) if user_id is not None else None


def asks_who(request: HttpRequest) -> bool:
    """Return whether the page depends on who is signed in, by its path: to look would keep caches from sharing the page."""
    match = request.resolver_match
    return match is not None and match.route.partition("/")[0] in _NOT_PUBLIC


def _begin(request: HttpRequest, pages: in_flight.PagesInFlight, owner: Any) -> HttpResponse | None:
    try:
        pages.begin(request, owner)
    except errors.RateLimitExceeded as refusal:
        return error_replies.refuse(request, refusal)
    return None


class PageSessionMiddleware(SessionMiddleware):
    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Save the session, unless the client has hung up: Django would report a failure."""
        try:
            return super().process_response(request, response)
        except errors.RequestTimeout as error:
            return error_replies.refuse(request, error)


class PageCsrfMiddleware(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        logs.report_failure(logger, "the form was refused: %s", reason)  # Django's own line about it is off
        response: HttpResponse = super()._reject(request, reason)  # type: ignore[misc]
        return response


class PagePolicyMiddleware(CSPMiddleware):
    """Computes the policy once for all pages but those that change it: the library copies the settings for each reply."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if settings.DEBUG or any(name.startswith("_csp") for name in vars(response)):
            return super().process_response(request, response)
        response.setdefault(csp.constants.HEADER, _policy())
        return response


_policy = functools.cache(build_policy)
