"""GET /v1/runs/{run_id}: what a run of the key may spend, and has spent, by model."""

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from completions.inbound import descriptions
from completions.inbound.completion_view import RatedView, json_reply
from completions.usage.runs import by_model
from gateway_project import errors
from gateway_project.text import dollars, timestamps
from gateway_project.web.openapi.fields import Constant, Count, Shape, Text
from keys.budgets import runs
from keys.models import Run

_DOLLARS = "US dollars, exactly."


class ModelOfRun(Shape):
    model = Text("The model that answered.")
    requests = Count("Those that were admitted.")
    spent = Text(_DOLLARS)
    provider_spent = Text(f"Of that, the price of providers whose own keys count it. {_DOLLARS}")


class RunObject(Shape):
    id = Text("As x-gateway-run said.")
    object = Constant("run")
    created_at = Text("When its first request was admitted.")
    deadline = Text("From then on its requests are refused. null: it has none.", allow_null=True)
    budget = Text(_DOLLARS)
    spent = Text(_DOLLARS)
    held = Text(f"Held by running requests. {_DOLLARS}")
    left = Text(f"What a new request may hold. {_DOLLARS}")
    requests = Count("Those that were admitted.")
    models = ModelOfRun(many=True, help_text="By model, largest cost first. Less than the whole once details are archived.")


class RunView(RatedView):
    """A run of the key that asks. Also when its budget is used up, or its deadline has passed."""

    @descriptions.key_read(
        "retrieveRun",
        "Retrieve a run",
        "What the requests of the key with one x-gateway-run may spend, hold and have spent, together and by model.",
        RunObject,
        errors.PathNotFound,
    )
    def get(self, request: Request, run_id: str) -> HttpResponse:
        run = self.key.runs.filter(name=run_id).first() if runs.NAME.fullmatch(run_id) else None
        if run is None:
            raise errors.PathNotFound(f"The key has no run {run_id!r}.")
        return json_reply(_describe(run))


def _describe(run: Run) -> dict[str, Any]:
    amounts = {"budget": run.budget_nanos, "spent": run.spent_nanos, "held": run.held_nanos, "left": run.left_nanos}
    return {
        "id": run.name,
        "object": "run",
        "created_at": timestamps.iso_millis(run.created_at),
        "deadline": run.deadline and timestamps.iso_millis(run.deadline),
        **{name: dollars.format_plain(nanos) for name, nanos in amounts.items()},
        "requests": run.requests,
        "models": [_describe_model(each) for each in by_model(run)],
    }


def _describe_model(sums: dict[str, Any]) -> dict[str, Any]:
    spent, counted = map(dollars.format_plain, (sums["cost_nanos"], sums["counted_nanos"]))
    return {"model": sums["model_id"], "requests": sums["requests"], "spent": spent, "provider_spent": counted}
