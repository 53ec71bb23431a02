"""Sums of a run by model, over its requests whose details are kept."""

from typing import Any

from django.db.models import BigIntegerField, Case, Count, F, OuterRef, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce, Concat

from billing.ledger import writer
from billing.models import LedgerEntry
from completions.models import Completion
from keys.models import Run


def by_model(run: Run) -> QuerySet[Any, Any]:
    """Return sums by ``model_id``, the dearest first. ``counted_nanos`` is the part of ``cost_nanos`` that own keys cost."""
    nothing, state = Value(0, output_field=BigIntegerField()), Completion.Settlement
    returned = LedgerEntry.objects.filter(reference=Concat(Value(writer.OVERCHARGE), OuterRef("pk"))).values("amount_nanos")
    completions = Completion.objects.filter(key=run.key_id, run=run.name).order_by()
    completions = completions.annotate(returned_nanos=Case(When(settlement=state.RECOVERED, then=returned), default=nothing))
    sums = completions.values("model_id").annotate(
        requests=Count("pk", filter=~Q(settlement=state.CORRECTED)),
        tokens=Sum(Coalesce(F("prompt_tokens"), 0) + Coalesce(F("completion_tokens"), 0)),
        counted_nanos=Coalesce(Sum("provider_nanos", filter=Q(counts_price=True)), nothing),
        cost_nanos=Sum(Coalesce(F("cost_nanos"), 0) - Coalesce(F("returned_nanos"), 0)) + F("counted_nanos"),
    )
    return sums.order_by("-cost_nanos", "model_id")
