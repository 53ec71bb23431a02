"""Sums of a run by model, over its requests whose details are kept."""

from typing import Any

from django.db.models import BigIntegerField, Count, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from completions.models import Completion
from keys.models import Run


def by_model(run: Run) -> QuerySet[Any, Any]:
    """Return sums by ``model_id``, the dearest first. ``counted_nanos`` is the part of ``cost_nanos`` that own keys cost."""
    completions = Completion.objects.filter(key=run.key_id, run=run.name).values("model_id").order_by()
    nothing = Value(0, output_field=BigIntegerField())
    return completions.annotate(
        requests=Count("pk", filter=~Q(settlement=Completion.Settlement.CORRECTED)),
        tokens=Sum(Coalesce(F("prompt_tokens"), 0) + Coalesce(F("completion_tokens"), 0)),
        counted_nanos=Coalesce(Sum("provider_nanos", filter=Q(counts_price=True)), nothing),
        cost_nanos=Coalesce(Sum("cost_nanos"), nothing) + F("counted_nanos"),
    ).order_by("-cost_nanos", "model_id")
