"""The shapes of GET /api/rankings for the OpenAPI description. Requests are checked by ``filters``."""

from typing import Any

from rest_framework import serializers

from completions.models import Category
from rankings.api.filters import LIMIT_DEFAULT, LIMIT_MAX, OFFSET_MAX, ORDERS, SEARCH_CHARACTERS_MAX
from rankings.models import Source
from rankings.publishing.listing import SORTS


class RankingsQuerySerializer(serializers.Serializer[Any]):
    source = serializers.ChoiceField(choices=Source.values, default=Source.INTERNAL.value)  # type: ignore[assignment]
    category = serializers.ChoiceField(choices=Category.values, required=False)
    limit = serializers.IntegerField(min_value=1, max_value=LIMIT_MAX, default=LIMIT_DEFAULT)
    offset = serializers.IntegerField(min_value=0, max_value=OFFSET_MAX, default=0)
    sortBy = serializers.ChoiceField(choices=tuple(SORTS), default="rank")
    sortOrder = serializers.ChoiceField(choices=ORDERS, default="asc")
    search = serializers.CharField(
        required=False, max_length=SEARCH_CHARACTERS_MAX, help_text="In the name, the provider or the id, in any case."
    )
    commercialOnly = serializers.BooleanField(required=False)


class RankedModelSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="What to send as model.")
    name = serializers.CharField()
    provider = serializers.CharField()
    category = serializers.ChoiceField(choices=Category.values)
    contextWindow = serializers.IntegerField()
    imageSupport = serializers.BooleanField()
    functionCalling = serializers.BooleanField()
    commercialUse = serializers.BooleanField()
    license = serializers.CharField(allow_null=True)


class BenchmarksSerializer(serializers.Serializer[Any]):
    mmlu = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    hellaswag = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    humanEval = serializers.FloatField(allow_null=True, min_value=0, max_value=100)


class ScoresSerializer(serializers.Serializer[Any]):
    """null: nobody has measured it."""

    overall = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    quality = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    speed = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    cost = serializers.FloatField(allow_null=True, min_value=0, max_value=100, help_text="The higher, the cheaper.")
    elo = serializers.IntegerField(allow_null=True)
    benchmarks = BenchmarksSerializer()


class RankingMetadataSerializer(serializers.Serializer[Any]):
    confidence = serializers.FloatField(min_value=0, max_value=1)
    dataFreshnessHours = serializers.FloatField(min_value=0)
    lastUpdated = serializers.DateTimeField()


class RankingEntrySerializer(serializers.Serializer[Any]):
    rank = serializers.IntegerField()
    categoryRank = serializers.IntegerField()
    change = serializers.IntegerField(help_text="Ranks gained since a week ago.")
    model = RankedModelSerializer()
    scores = ScoresSerializer()
    metadata = RankingMetadataSerializer()


class RankingsPaginationSerializer(serializers.Serializer[Any]):
    total = serializers.IntegerField()
    limit = serializers.IntegerField()
    offset = serializers.IntegerField()
    hasMore = serializers.BooleanField()


class SourceHealthSerializer(serializers.Serializer[Any]):
    source = serializers.ChoiceField(choices=Source.values)  # type: ignore[assignment]
    isHealthy = serializers.BooleanField()
    lastSyncAt = serializers.DateTimeField(allow_null=True, help_text="null: never yet.")


class RankingsSerializer(serializers.Serializer[Any]):
    rankings = RankingEntrySerializer(many=True)
    pagination = RankingsPaginationSerializer()
    sources = SourceHealthSerializer(many=True)
    timestamp = serializers.DateTimeField()
