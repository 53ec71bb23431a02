"""GET /api/rankings: public, the same for every client, and answered from memory."""

import time
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.request import Request

from gateway_project import errors
from gateway_project.web.openapi import specification
from gateway_project.web.openapi.descriptions import extend_schema
from gateway_project.web.query_parameters import FilteredView
from rankings.api import filters, replies
from rankings.api.filters import RankingFilter, RankingsQuery
from rankings.api.serializers import RankingPageSerializer
from rankings.models import Entry

_HEADERS = {
    "Cache-Control": f"public, max-age={replies.FRESH_SECONDS}",
    "Link": '<https://creativecommons.org/licenses/by/4.0/>; rel="license"',
}
_QUERIES_MAX = 4_096
_parsed_queries: dict[str, RankingsQuery] = {}  # by query string; valid ones only

_IF_NONE_MATCH = OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER, description="The ETag of an earlier reply.")
_REPLY_HEADERS = [
    specification.response_header("ETag", str, "Names the data. Send it back as If-None-Match.", [200, 304]),
    specification.response_header("Cache-Control", str, "How long the reply may be kept.", [200, 304]),
    specification.response_header("Link", str, "The license of the data, and how its source is cited.", [200, 304]),
    specification.response_header("Access-Control-Allow-Origin", str, "Pages of any origin may read the reply.", [200, 304]),
]


class RankingsView(FilteredView):
    queryset = Entry.objects.none()
    filterset_class = RankingFilter
    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Return a view that skips REST framework's dispatch for a query string that was parsed before."""
        dispatched = super().as_view(**initkwargs)

        @wraps(dispatched)
        def view(request: HttpRequest) -> HttpResponseBase:
            query = _parsed_queries.get(request.META.get("QUERY_STRING", "")) if request.method == "GET" else None
            return _respond(query, request) if query else dispatched(request)

        return view

    @extend_schema(
        operation_id="listRankings",
        summary="List models by rank",
        description="Models in the order of one of five sources. Needs no key.",
        auth=[],
        filters=True,
        parameters=[_IF_NONE_MATCH, *_REPLY_HEADERS],
        responses={
            200: RankingPageSerializer,
            304: OpenApiResponse(description="The data has not changed since the reply with the given ETag."),
            **specification.error_responses(errors.InvalidRequest),
        },
    )
    def get(self, request: Request) -> HttpResponse:
        query = self.select(filters.DEFAULTS)
        response = _respond(query, request)
        # Not earlier: REST framework's dispatch is what makes 503 of the database's errors, while nothing was ever read.
        if len(_parsed_queries) >= _QUERIES_MAX:
            _parsed_queries.clear()
        _parsed_queries[request.META.get("QUERY_STRING", "")] = query
        return response


def _respond(query: RankingsQuery, request: HttpRequest | Request) -> HttpResponse:
    """Return the reply, or 304 with its ETag if the client has a copy of the same data."""
    reply = replies.reply(query, time.time())
    headers = {**_HEADERS, "Link": ", ".join(filter(None, [_HEADERS["Link"], reply.citation])), "ETag": reply.etag}
    given = [each.removeprefix("W/") for each in parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))]  # weak comparison
    if "*" in given or reply.etag.removeprefix("W/") in given:
        return HttpResponse(status=304, headers=headers)
    return HttpResponse(reply.body, content_type="application/json", headers=headers)
