"""GET /api/rankings: public, the same for every client, and answered from memory."""

import time
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request

from completions.models import Category
from gateway_project import errors
from gateway_project.web.openapi import specification
from gateway_project.web.query_parameters import FilteredView
from rankings.api import filters, replies
from rankings.api.filters import RankingFilter, RankingsQuery
from rankings.models import Entry, Source

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


class RankedModelSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="What to send as model.")
    name = serializers.CharField(help_text="The name of the model.")
    provider = serializers.CharField(help_text="The maker of the model.")
    category = serializers.ChoiceField(choices=Category.values, help_text="As in GET /v1/models.")
    contextWindow = serializers.IntegerField(help_text="Maximum tokens of prompt and reply together.")
    imageSupport = serializers.BooleanField(help_text="Whether it reads images.")
    functionCalling = serializers.BooleanField(help_text="Whether it calls functions and other tools.")
    commercialUse = serializers.BooleanField(help_text="Whether its license permits commercial use.")
    license = serializers.CharField(allow_null=True, help_text="The license of the model, if it is known.")


class RankingBenchmarksSerializer(serializers.Serializer[Any]):
    mmlu = serializers.FloatField(allow_null=True, min_value=0, max_value=100, help_text="Questions of many subjects.")
    hellaswag = serializers.FloatField(allow_null=True, min_value=0, max_value=100, help_text="How a story goes on.")
    humanEval = serializers.FloatField(allow_null=True, min_value=0, max_value=100, help_text="Short programs.")


@extend_schema_serializer(description="null: not measured.")
class RankingScoresSerializer(serializers.Serializer[Any]):
    overall = serializers.FloatField(allow_null=True, min_value=0, max_value=100, help_text="What the models are ranked by.")
    quality = serializers.FloatField(allow_null=True, min_value=0, max_value=100, help_text="How good its answers are.")
    speed = serializers.FloatField(allow_null=True, min_value=0, max_value=100, help_text="How fast it answers.")
    cost = serializers.FloatField(allow_null=True, min_value=0, max_value=100, help_text="The higher, the cheaper.")
    elo = serializers.IntegerField(allow_null=True, help_text="A rating from comparisons of pairs.")
    benchmarks = RankingBenchmarksSerializer(help_text="The results of single benchmarks.")


class RankingMetadataSerializer(serializers.Serializer[Any]):
    confidence = serializers.FloatField(min_value=0, max_value=1, help_text="How sure the rank is.")
    available = serializers.BooleanField(help_text="Whether completions are served now.")
    dataFreshnessHours = serializers.FloatField(min_value=0, help_text="The age of the data, in hours.")
    lastUpdated = serializers.DateTimeField(help_text="When the data last changed.")


class RankingEntrySerializer(serializers.Serializer[Any]):
    rank = serializers.IntegerField(help_text="Among all models of the leaderboard, whatever the filters.")
    categoryRank = serializers.IntegerField(help_text="Among those of the model's own category.")
    change = serializers.IntegerField(help_text="Ranks gained since a week ago.")
    model = RankedModelSerializer(help_text="The model.")
    scores = RankingScoresSerializer(help_text="0 to 100, but for elo.")
    metadata = RankingMetadataSerializer(help_text="How good the data is.")


class RankingPaginationSerializer(serializers.Serializer[Any]):
    total = serializers.IntegerField(help_text="How many entries match.")
    limit = serializers.IntegerField(help_text="The limit that was asked for.")
    offset = serializers.IntegerField(help_text="How many entries were skipped.")
    hasMore = serializers.BooleanField(help_text="Whether there are more after these.")


class SourceHealthSerializer(serializers.Serializer[Any]):
    source = serializers.ChoiceField(choices=Source.values, help_text="The source.")  # type: ignore[assignment]
    isHealthy = serializers.BooleanField(help_text="Whether the source could be read of late.")
    lastSyncAt = serializers.DateTimeField(allow_null=True, help_text="null: never yet.")


class RankingPageSerializer(serializers.Serializer[Any]):
    rankings = RankingEntrySerializer(many=True, help_text="The entries, in the order that was asked for.")
    pagination = RankingPaginationSerializer(help_text="Which of all entries these are.")
    sources = SourceHealthSerializer(many=True, help_text="The state of every source.")
    timestamp = serializers.DateTimeField(help_text="When the reply was made, in steps of ten seconds.")


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

    @specification.extend_schema(
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
