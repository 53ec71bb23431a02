"""The reply of GET /api/rankings, for the OpenAPI description. ``filters`` declares its parameters."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from completions.models import Category
from rankings.models import Source


class RankedModelSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="What to send as model.")
    name = serializers.CharField()
    provider = serializers.CharField()
    category = serializers.ChoiceField(choices=Category.values, help_text="As in GET /v1/models.")
    contextWindow = serializers.IntegerField()
    imageSupport = serializers.BooleanField()
    functionCalling = serializers.BooleanField()
    commercialUse = serializers.BooleanField()
    license = serializers.CharField(allow_null=True)


class BenchmarksSerializer(serializers.Serializer[Any]):
    mmlu = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    hellaswag = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    humanEval = serializers.FloatField(allow_null=True, min_value=0, max_value=100)


@extend_schema_serializer(description="null: not measured.")
class ScoresSerializer(serializers.Serializer[Any]):
    overall = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    quality = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    speed = serializers.FloatField(allow_null=True, min_value=0, max_value=100)
    cost = serializers.FloatField(allow_null=True, min_value=0, max_value=100, help_text="The higher, the cheaper.")
    elo = serializers.IntegerField(allow_null=True)
    benchmarks = BenchmarksSerializer()


class RankingMetadataSerializer(serializers.Serializer[Any]):
    confidence = serializers.FloatField(min_value=0, max_value=1)
    available = serializers.BooleanField(help_text="Whether completions are served now.")
    dataFreshnessHours = serializers.FloatField(min_value=0)
    lastUpdated = serializers.DateTimeField()


class RankingEntrySerializer(serializers.Serializer[Any]):
    rank = serializers.IntegerField(help_text="Among all models of the leaderboard, whatever the filters.")
    categoryRank = serializers.IntegerField(help_text="Among those of the model's own category.")
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
