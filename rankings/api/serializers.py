"""The reply of GET /api/rankings, for the OpenAPI description. ``filters`` declares its parameters."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from completions.models import Category
from rankings.models import Source


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
