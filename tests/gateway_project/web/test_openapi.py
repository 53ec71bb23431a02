"""GET /api/openapi.json: the description of the API is valid, complete, and matches the code."""

from typing import Any

import pytest
from django.core.management import call_command
from django.urls import get_resolver
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema
from rest_framework.views import APIView

from billing.models import LedgerEntry
from completions.models import RoutableAlias
from completions.request import schema
from completions.request.messages import ROLES
from completions.views import UnknownPathView
from tests import chat
from tests.conftest import client_for

PATHS = {
    "/v1/chat/completions": "post",
    "/v1/models": "get",
    "/v1/models/{model_id}": "get",
    "/v1/usage": "get",
    "/api/billing/balance": "get",
    "/api/billing/ledger": "get",
    "/api/billing/ledger.csv": "get",
    "/api/rankings": "get",
}


PUBLIC = {"/api/rankings"}


@pytest.fixture(scope="module")
def document() -> dict:
    reply = client_for(None).get("/api/openapi.json")
    assert reply.status_code == 200
    assert reply["content-type"] == "application/json"
    return reply.json()


def resolve(document: dict, part: dict) -> dict:
    """Follow a $ref."""
    while "$ref" in part:
        name = part["$ref"].removeprefix("#/components/schemas/")
        part = document["components"]["schemas"][name]
    return part


def reply_fields(document: dict, path: str) -> dict:
    content = document["paths"][path]["get"]["responses"]["200"]["content"]
    return resolve(document, content["application/json"]["schema"])["properties"]


def test_the_document_is_valid_openapi(document):
    validate_schema(document)
    assert document["openapi"].startswith("3.")


def test_the_document_is_generated_without_warnings(tmp_path):
    GENERATOR_STATS.reset()
    call_command("spectacular", file=str(tmp_path / "openapi.yaml"), fail_on_warn=True, validate=True)


def test_the_document_lists_exactly_the_paths_of_the_api(document):
    assert {path: list(operations) for path, operations in document["paths"].items()} == {
        path: [method] for path, method in PATHS.items()
    }


def test_the_document_describes_every_view_of_the_api(document):
    described = {path.strip("/").partition("{")[0] for path in document["paths"]}
    for prefix in ("v1/", "api/billing/"):
        include: Any
        [include] = [pattern for pattern in get_resolver().url_patterns if str(pattern.pattern) == prefix]
        for pattern in include.url_patterns:
            assert issubclass(pattern.callback.view_class, APIView)
            if pattern.callback.view_class is UnknownPathView:
                continue
            assert f"{prefix}{pattern.pattern}".partition("<")[0] in described


@pytest.mark.parametrize(("path", "method"), PATHS.items())
def test_every_operation_but_the_public_one_takes_a_bearer_key_and_describes_errors(document, path, method):
    operation = document["paths"][path][method]
    assert operation.get("security", []) == ([] if path in PUBLIC else [{"apiKey": []}])
    scheme = document["components"]["securitySchemes"]["apiKey"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    error = resolve(document, operation["responses"]["default"]["content"]["application/json"]["schema"])
    assert set(error["properties"]["error"]["properties"]) == {"message", "type", "code", "param"}
    assert set(error["properties"]["error"]["required"]) == {"message", "type", "code", "param"}


@pytest.mark.parametrize(("path", "method"), PATHS.items())
def test_only_replies_under_v1_describe_rate_limit_headers(document, path, method):
    names = {f"x-ratelimit-{name}-{what}" for name in ("limit", "remaining", "reset") for what in ("requests", "tokens")}
    for response in document["paths"][path][method]["responses"].values():
        assert set(response.get("headers", {})) == (names if path.startswith("/v1/") else set())


def test_every_operation_has_a_unique_id(document):
    names = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(set(names)) == len(PATHS)


def test_a_chat_request_has_its_fields_and_bounds(document):
    body = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]
    assert list(body["content"]) == ["application/json"]
    request = resolve(document, body["content"]["application/json"]["schema"])
    assert set(request["required"]) == {"model", "messages"}
    fields = request["properties"]
    assert (fields["model"]["type"], fields["model"]["maxLength"]) == ("string", schema.MODEL_CHARACTERS_MAX)
    assert (fields["messages"]["type"], fields["messages"]["minItems"], fields["messages"]["maxItems"]) == ("array", 1, 2_048)
    bounds = {name: (field["type"], field["minimum"], field["maximum"]) for name, field in fields.items() if "minimum" in field}
    assert bounds == {
        "max_tokens": ("integer", 1, schema.MAX_TOKENS_MAX),
        "max_completion_tokens": ("integer", 1, schema.MAX_TOKENS_MAX),
        "temperature": ("number", 0, 2),
        "top_p": ("number", 0, 1),
        "frequency_penalty": ("number", -2, 2),
        "presence_penalty": ("number", -2, 2),
        "n": ("integer", 1, schema.CHOICES_MAX),
        "top_logprobs": ("integer", 0, 20),
    }
    assert (fields["stream"]["type"], fields["stream"]["default"]) == ("boolean", False)
    assert all(fields[name]["nullable"] for name in fields if name not in ("model", "messages"))
    message = resolve(document, fields["messages"]["items"])
    assert set(message["required"]) == {"role"}
    text, parts = message["properties"]["content"]["oneOf"]
    assert (text["type"], parts["type"]) == ("string", "array")
    kinds = {"text", "image_url", "input_audio", "file", "refusal"}
    assert set(parts["items"]["properties"]) == {"type", *kinds}
    assert set(parts["items"]["properties"]["type"]["enum"]) == kinds
    role = message["properties"]["role"]
    assert resolve(document, role.get("allOf", [role])[0])["enum"] == list(ROLES)


def test_a_completion_is_described_as_json_and_as_an_event_stream(document):
    content = document["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/event-stream"}
    completion = resolve(document, content["application/json"]["schema"])
    assert set(completion["required"]) == {"id", "object", "created", "model", "choices", "usage"}


def test_the_described_completion_has_the_fields_of_a_served_one(document, api, echo_model):
    content = document["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"]["application/json"]
    completion, served = resolve(document, content["schema"])["properties"], chat.ask(api).json()
    usage = resolve(document, completion["usage"])["properties"]
    assert set(completion) == set(served)
    assert set(resolve(document, completion["choices"]["items"])["properties"]) == set(served["choices"][0])
    assert set(usage) == set(served["usage"])
    for details in ("prompt_tokens_details", "completion_tokens_details"):
        assert set(resolve(document, usage[details])["properties"]) == set(served["usage"][details])


def test_the_ledger_has_its_parameters_bounds_and_defaults(document):
    parameters = {item["name"]: item for item in document["paths"]["/api/billing/ledger"]["get"]["parameters"]}
    assert {name: (item["in"], item.get("required", False)) for name, item in parameters.items()} == {
        name: ("query", False) for name in ("limit", "offset", "type", "apiKey", "from", "to")
    }
    limit, offset = parameters["limit"]["schema"], parameters["offset"]["schema"]
    assert (limit["type"], limit["default"], limit["minimum"], limit["maximum"]) == ("integer", 10, 1, 100)
    assert (offset["type"], offset["default"], offset["minimum"]) == ("integer", 0, 0)
    entry = resolve(document, reply_fields(document, "/api/billing/ledger")["entries"]["items"])["properties"]
    assert set(entry) == {"id", "type", "amountInCents", "balanceAfterInCents", "metadata", "createdAt"}
    kind = entry["type"].get("allOf", [entry["type"]])[0]
    assert set(resolve(document, kind)["enum"]) == set(LedgerEntry.Type.values)


@pytest.mark.parametrize("path", ["/api/billing/ledger", "/api/billing/ledger.csv"])
def test_the_ledger_endpoints_describe_their_filters(document, path):
    parameters = {item["name"]: item["schema"] for item in document["paths"][path]["get"]["parameters"]}
    assert set(parameters) - {"limit", "offset"} == {"type", "apiKey", "from", "to"}
    assert set(parameters["type"]["enum"]) == set(LedgerEntry.Type.values)
    assert (parameters["apiKey"]["type"], parameters["apiKey"]["maxLength"]) == ("string", 64)
    for name in ("from", "to"):
        assert (parameters[name]["type"], parameters[name]["format"]) == ("string", "date-time")


def test_the_csv_export_is_described(document):
    content = document["paths"]["/api/billing/ledger.csv"]["get"]["responses"]["200"]["content"]
    assert {kind: media["schema"]["type"] for kind, media in content.items()} == {"text/csv": "string"}


def test_the_other_replies_describe_their_fields(document):
    assert set(reply_fields(document, "/api/billing/balance")) == {"balanceInCents", "balanceInDollars"}
    assert set(reply_fields(document, "/v1/usage")) == {"object", "key", "limit", "rateLimits", "usage", "balance"}
    model = resolve(document, reply_fields(document, "/v1/models")["data"]["items"])["properties"]
    assert set(model) == set(reply_fields(document, "/v1/models/{model_id}"))


def test_the_described_model_has_the_fields_of_a_served_one(document, api, echo_model):
    described = set(reply_fields(document, "/v1/models/{model_id}"))
    assert described == set(api.get("/v1/models/demo/echo").json()) | {"alias_of"}
    RoutableAlias.objects.create(id="best/general", model_ids=["demo/echo"])
    assert described == set(api.get("/v1/models/best/general").json())
    assert set(reply_fields(document, "/v1/usage")) == set(api.get("/v1/usage").json())
