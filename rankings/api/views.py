"""GET /api/rankings: public, the same for everybody, and answered from memory."""

import time
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from rankings.api import filters, replies
from rankings.api.filters import Query
from rankings.api.serializers import RankingsQuerySerializer, RankingsSerializer

_HEADERS = {
    "Cache-Control": "public, max-age=300",
    "Access-Control-Allow-Origin": "*",  # nothing in it is anybody's own
    "Link": '<https://creativecommons.org/licenses/by/4.0/>; rel="license"',
}
_QUERIES_MAX = 4_096
_queries: dict[str, Query] = {}  # by query string; only such as were valid


class RankingsView(APIView):
    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """What was asked in these very words before needs no second reading; everything else goes the whole way."""
        whole_way = super().as_view(**initkwargs)

        @wraps(whole_way)
        def view(request: HttpRequest) -> HttpResponseBase:
            query = _queries.get(request.META.get("QUERY_STRING", "")) if request.method == "GET" else None
            return _answer(query, request) if query else whole_way(request)

        return view

    @extend_schema(auth=[], parameters=[RankingsQuerySerializer], responses=RankingsSerializer)
    def get(self, request: Request) -> HttpResponse:
        query = filters.parse(request.query_params)
        if len(_queries) >= _QUERIES_MAX:
            _queries.clear()
        _queries[request.META.get("QUERY_STRING", "")] = query
        return _answer(query, request)


def _answer(query: Query, request: HttpRequest | Request) -> HttpResponse:
    reply = replies.reply(query, time.time())
    tags = request.META.get("HTTP_IF_NONE_MATCH", "").split(",")
    headers = {**_HEADERS, "ETag": reply.etag}
    if any(tag.strip() == "*" or reply.is_as_good_as(tag.strip().removeprefix("W/")) for tag in tags):
        return HttpResponse(status=304, headers=headers)
    return HttpResponse(reply.body, content_type="application/json", headers=headers)
