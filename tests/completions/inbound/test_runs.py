"""Every endpoint that costs money counts on the run that its headers name."""

import json
from typing import Any, cast

import pytest

from completions.models import Completion, ModelKind
from keys.models import Run
from tests import factories
from tests.conftest import client_for

TEXT = {"model": "demo/echo", "messages": [{"role": "user", "content": "one two"}], "max_tokens": 10}
RESPONSE = {"model": "demo/echo", "input": "one two", "max_output_tokens": 10}
ENDPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", TEXT),
    "messages": ("/v1/messages", TEXT),
    "responses": ("/v1/responses", RESPONSE),
    "background": ("/v1/responses", {**RESPONSE, "background": True}),
    "compaction": ("/v1/responses/compact", {"model": "demo/echo", "input": "one two"}),
    "embeddings": ("/v1/embeddings", {"model": "demo/vectors", "input": "one two"}),
}
HEADERS = {"x-gateway-run": "nightly", "x-gateway-run-budget": "0.50"}


def post(client: Any, path: str, fields: dict[str, Any], **headers: str) -> Any:
    raw = cast(Any, json.dumps(fields).encode())
    return client.generic("POST", path, raw, content_type="application/json", headers={**HEADERS, **headers})


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_endpoint_that_costs_money_counts_on_its_run(alice, echo_model, endpoint):
    factories.make_model("demo/vectors", kind=ModelKind.EMBEDDING)
    key, secret = factories.make_key(alice)
    path, fields = ENDPOINTS[endpoint]
    reply = post(client_for(secret), path, fields)
    assert (reply.status_code, reply["x-gateway-run"], reply["x-gateway-run-budget"]) == (200, "nightly", "0.50")
    run, completion = Run.objects.get(), Completion.objects.get()
    assert (run.requests, completion.run, run.key_id) == (1, "nightly", key.pk)
    assert run.held_nanos == 0 < run.spent_nanos == completion.cost_nanos


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_endpoint_that_costs_money_refuses_beyond_the_budget(alice, echo_model, endpoint):
    factories.make_model("demo/vectors", kind=ModelKind.EMBEDDING)
    key, secret = factories.make_key(alice)
    Run.objects.create(key=key, name="nightly", budget_nanos=10, spent_nanos=10)
    path, fields = ENDPOINTS[endpoint]
    reply = post(client_for(secret), path, fields)
    assert (reply.status_code, reply["x-should-retry"], reply["x-gateway-run-left"]) == (402, "false", "0.00")
    error = reply.json()["error"]
    assert "Sending it again does not help." in error["message"]
    assert (error.get("details") or error)["run_id"] == "nightly"
    assert Completion.objects.count() == 0
