"""GET /api/openapi.json: the description of the API is valid, complete, and matches the code."""

import builtins
import hashlib
import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from django.urls import get_resolver
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema
from rest_framework.fields import Field
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from billing.models import LedgerEntry
from billing.payments.webhook import Webhook
from completions.inbound.chat_completions.views import UnknownPathView
from completions.models import RoutableAlias
from completions.request import schema
from completions.request.messages import ROLES
from gateway_project import errors
from gateway_project.web import public_page
from gateway_project.web.openapi import specification
from tests import chat, factories, usage
from tests.conftest import client_for
from tests.gateway_project.web.openapi.operations import MANAGED, OPERATIONS, PATHS

PUBLIC = {"/api/rankings"}
MESSAGES = {"/v1/messages", "/v1/messages/quote", "/v1/messages/count_tokens"}
ERRORS = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.ApiError)]


@pytest.fixture(scope="module")
def document() -> dict:
    specification._rendered_document.cache_clear()  # a test with other addresses may have made it
    GENERATOR_STATS.reset()
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


def test_the_document_is_generated_without_warnings(document):
    assert not GENERATOR_STATS


def test_the_document_lists_exactly_the_paths_of_the_api(document):
    described = [(path, method) for path, operations in document["paths"].items() for method in operations]
    assert sorted(described) == sorted(OPERATIONS)


def test_the_document_describes_every_view_of_the_api(document):
    described = {path.strip("/").partition("{")[0] for path in document["paths"]}
    for prefix in ("v1/", "api/billing/"):
        include: Any
        [include] = [pattern for pattern in get_resolver().url_patterns if str(pattern.pattern) == prefix]
        for pattern in include.url_patterns:
            assert issubclass(pattern.callback.view_class, APIView)
            if pattern.callback.view_class in (UnknownPathView, Webhook):  # the latter is for the processor alone
                continue
            assert f"{prefix}{pattern.pattern}".partition("<")[0] in described


def test_every_operation_but_the_public_one_takes_a_bearer_key_and_describes_errors(document, subtests):
    for path, method in OPERATIONS:
        with subtests.test(f"{method} {path}"):
            operation = document["paths"][path][method]
            name = "managementKey" if (path, method) in MANAGED else "apiKey"
            assert operation.get("security", [])[:1] == ([] if path in PUBLIC else [{name: []}])
            scheme = document["components"]["securitySchemes"][name]
            assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
            reply = resolve(document, operation["responses"]["default"]["content"]["application/json"]["schema"])
            error = resolve(document, reply["properties"]["error"])
            assert set(error["required"]) == ({"type", "message"} if path in MESSAGES else {"message", "type", "code", "param"})
            of_some = {"limit_source", "resets_at", "held", "held_since", "reason"}
            assert set(error["properties"]) - set(error["required"]) == ({"details"} if path in MESSAGES else of_some)


RATE_HEADERS = {
    *(f"x-ratelimit-{name}-{what}" for name in ("limit", "remaining", "reset") for what in ("requests", "tokens")),
    *(f"x-ratelimit-{name}-concurrent" for name in ("limit", "remaining")),
}


def test_only_replies_to_a_key_under_v1_describe_rate_limit_headers(document, subtests):
    for path, method in OPERATIONS:
        with subtests.test(f"{method} {path}"):
            for status, response in document["paths"][path][method]["responses"].items():
                described = {name for name in response["headers"] if name.startswith("x-ratelimit-")}
                assert described == (RATE_HEADERS if path.startswith("/v1/") and status != "401" else set())


def test_every_reply_describes_its_request_id(document, subtests):
    for path, method in OPERATIONS:
        with subtests.test(f"{method} {path}"):
            assert all(
                "x-request-id" in response["headers"] for response in document["paths"][path][method]["responses"].values()
            )


def test_a_completion_describes_its_headers(document):
    operation = document["paths"]["/v1/chat/completions"]["post"]
    described = operation["responses"]["200"]["headers"]
    facts = {"provider", "attempts", "failed-providers", "cost", "max-cost", "ranking", "finish-reason", "ignored-fields"}
    facts |= {"own-key", "run", "run-budget", "run-left", "run-deadline"}
    own = {f"x-gateway-{name}" for name in facts} | {"Idempotent-Replayed", "Idempotent-Stored"}
    assert set(described) == {*own, *RATE_HEADERS, "x-request-id"}
    assert described["x-gateway-attempts"]["schema"]["type"] == "integer"
    assert all(header["description"] for header in described.values())
    for status in ("502", "503", "504"):
        assert {"x-gateway-provider", "x-gateway-attempts", "x-gateway-max-cost"} <= set(
            operation["responses"][status]["headers"]
        )


def test_a_completion_takes_an_idempotency_key(document, api, echo_model):
    parameter, *_ = document["paths"]["/v1/chat/completions"]["post"]["parameters"]
    assert (parameter["in"], parameter["name"], parameter.get("required", False)) == ("header", "Idempotency-Key", False)
    bounds, fields = parameter["schema"], {"model": "demo/echo", "messages": [{"role": "user", "content": "hi"}]}
    for length, status in ((bounds["minLength"], 200), (bounds["maxLength"], 200), (0, 400), (bounds["maxLength"] + 1, 400)):
        assert api.post(chat.PATH, fields, headers={"Idempotency-Key": "k" * length}).status_code == status
    for key in (" ~!", "\x7f", "\xe9", "a\tb"):
        matches = re.search(bounds["pattern"], key) is not None
        assert (api.post(chat.PATH, fields, headers={"Idempotency-Key": key}).status_code == 200) is matches


def test_errors_are_described_by_status_with_their_codes_and_headers(document, subtests):
    for path, method in OPERATIONS:
        with subtests.test(f"{method} {path}"):
            responses = document["paths"][path][method]["responses"]
            described = {int(status) for status in responses if status not in ("200", "201", "304", "default")}
            assert {500, 503} <= described <= {error.status for error in ERRORS} | ({529} if path == "/v1/messages" else set())
            described -= {529}  # of Anthropic's API alone
            assert (401 in described) is (path not in PUBLIC)
            if path == "/v1/chat/completions":
                assert described == {error.status for error in ERRORS} - {403, 405, 411}  # of other operations
            for status in described:
                response = responses[str(status)]
                assert response["content"] == responses["default"]["content"]
                codes = {error.code for error in ERRORS if error.status == status}
                assert set(response["description"].split(" or ")) <= codes
                if path == "/v1/chat/completions":
                    sent = {name for error in ERRORS if error.status == status for name in error.fixed_headers}
                    assert sent <= set(response["headers"])


def test_the_servers_are_relative_where_one_address_serves_everything(document):
    assert document["servers"] == [{"url": "/"}]
    assert not any("servers" in document["paths"][path][method] for path, method in OPERATIONS)


def test_the_servers_are_the_two_addresses_where_there_are_two(settings):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = "api.example.org", "example.org"
    settings.ALLOWED_HOSTS, settings.GATEWAY_DEVELOPMENT = ["api.example.org", "example.org"], False
    _forget()
    try:
        document = client_for(None).get("/api/openapi.json", headers={"Host": "example.org"}).json()
    finally:
        _forget()
    assert document["servers"] == [{"url": "https://example.org"}]
    for path, method in OPERATIONS:
        servers = document["paths"][path][method].get("servers")
        assert servers == ([{"url": "https://api.example.org"}] if path.startswith("/v1/") else None)


def _forget() -> None:
    specification._rendered_document.cache_clear()
    public_page.forget()


def descriptions(part: Any) -> Iterator[str]:
    """Every description and summary in the document."""
    if isinstance(part, list):
        for item in part:
            yield from descriptions(item)
    elif isinstance(part, dict):
        yield from (part[name] for name in ("description", "summary", "title") if isinstance(part.get(name), str))
        for item in part.values():
            yield from descriptions(item)


def test_no_description_is_a_docstring(document):
    """Docstrings are written for developers."""
    documented: list[Any] = [Serializer, APIView, Field]
    for each in documented:
        documented.extend(each.__subclasses__())
    docstrings = {inspect.cleandoc(each.__doc__) for each in documented if each.__doc__}
    methods = {method for each in documented for method in vars(each).values() if inspect.isfunction(method)}
    docstrings |= {inspect.cleandoc(method.__doc__) for method in methods if method.__doc__}
    assert docstrings.isdisjoint(descriptions(document))


def test_every_operation_and_reply_is_described(document):
    for operations in document["paths"].values():
        for operation in (operations[method] for method in ("get", "post") if method in operations):
            assert operation["summary"]
            assert operation["description"].endswith(".")
            assert all(response["description"] for response in operation["responses"].values())
            assert all(parameter["description"] for parameter in operation.get("parameters", []) if parameter["in"] != "path")


def validate(document: dict, media: dict) -> None:
    """Raises ValidationError unless the media type's example is of its schema. A schema of OpenAPI 3.1 is a JSON schema."""
    jsonschema.validate(media["example"], {**media["schema"], "components": document["components"]})


def test_every_operation_has_examples_of_its_schemas(document, subtests):
    """They stand in gateway_project/web/openapi/examples.json, by the operation's id."""
    for path, method in OPERATIONS:
        with subtests.test(f"{method} {path}"):
            operation = document["paths"][path][method]
            success = operation["responses"].get("200") or operation["responses"]["201"]
            medias = [*success["content"].values()]
            if "requestBody" in operation:
                medias.append(operation["requestBody"]["content"]["application/json"])
            for media in medias:
                assert media.get("example"), operation["operationId"]
                validate(document, media)
                for event in re.findall("^data: ({.+)$", media.get("x-stream", ""), re.MULTILINE):
                    validate(document, {**media, "example": json.loads(event)})
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path" or "example" in parameter:
                    jsonschema.validate(parameter["example"], parameter["schema"])


def test_there_is_no_example_of_what_is_no_operation(document):
    names = {operation["operationId"] for operations in document["paths"].values() for operation in operations.values()}
    assert set(json.loads(specification._EXAMPLES.read_text())) == names


def test_the_example_of_an_export_has_its_checksum():
    page = json.loads(specification._EXAMPLES.read_text())["exportUsage"]["reply"]
    data = json.dumps(page["data"], separators=(",", ":")).encode()
    assert hashlib.sha256(data).hexdigest() == page["checksum"]


@pytest.mark.parametrize("path", [path for path, method in PATHS.items() if path.startswith("/v1/") and method == "post"])
def test_the_example_of_a_request_is_answered(document, api, echo_model, path):
    factories.make_model("demo/embed", kind="embedding", input="0.10", output="0", max_output_tokens=1)
    media = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    reply = api.post(path, media["example"], content_type="application/json")
    assert reply.status_code == 200, reply.content
    described = document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]
    assert set(reply.json()) == set(described["example"])
    validate(document, {**described, "example": reply.json()})


def test_names_of_schemas_are_plain(document):
    names = set(document["components"]["schemas"])
    assert {"ChatCompletionRequest", "ChatCompletion", "ChatCompletionMessage", "CompletionUsage", "Model", "Message"} <= names
    assert {"ModelResponse", "LedgerEntry", "LedgerEntryType", "RankingSource", "SpendingType", "ErrorResponse"} <= names
    assert [name for name in names if re.search("Serializer|Enum|Answer|Tokens$|[^A-Za-z]|^[a-z]", name)] == []


def test_names_of_schemas_are_free_in_languages_and_generators(document):
    """A class of the name would hide one of the language's or of the generator's own."""
    names = set(document["components"]["schemas"])
    python = {*dir(builtins), "Any", "Client", "AuthenticatedClient", "File", "Response", "Unset", "UnexpectedStatus"}
    typescript = {"Array", "Blob", "Date", "Document", "Error", "Event", "File", "Function", "Key", "Map", "Node", "Null"}
    typescript |= {"Number", "Object", "Promise", "Record", "Request", "Response", "Set", "String", "Symbol", "Text", "Window"}
    java = {
        "Class",
        "Enum",
        "Integer",
        "List",
        "Locale",
        "Optional",
        "Override",
        "Process",
        "Random",
        "State",
        "Thread",
        "Void",
    }
    assert names & (python | typescript | java) == set()
    # openapi-python-client has a variable of the class's name, beside those of its members.
    schemas = document["components"]["schemas"]
    assert [
        name for name in names if re.sub("(?<!^)([A-Z])", r"_\1", name).lower() in schemas[name].get("properties", {})
    ] == []


def every_schema(part: Any) -> Iterator[dict]:
    """Every part of the document that may be a schema."""
    for item in part if isinstance(part, list) else part.values() if isinstance(part, dict) else ():
        yield from every_schema(item)
    if isinstance(part, dict):
        yield part


def test_null_is_a_type_as_in_json_schema(document):
    assert document["openapi"] == "3.1.0"
    for part in every_schema(document):
        assert "nullable" not in part or isinstance(part["nullable"], dict)
        assert part.get("enum") != [None]


def test_every_member_of_every_schema_is_described(document):
    missing = {
        (component, name)
        for component, schema in document["components"]["schemas"].items()
        for part in every_schema(schema)
        for name, field in (part.get("properties") or {}).items()
        if not re.search(r"[^ ]", field.get("description", ""))
    }
    assert missing == set()


def test_no_optional_member_has_a_default(document):
    """openapi-typescript would require such a member of every request."""
    for name, described in document["components"]["schemas"].items():
        members = described.get("properties", {})
        optional = members.keys() - set(described.get("required", []))
        assert [member for member in optional if "default" in members[member]] == [], name


def test_every_operation_has_a_unique_id(document):
    names = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(set(names)) == len(OPERATIONS)


def test_a_chat_request_has_its_fields_and_bounds(document):
    body = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]
    assert list(body["content"]) == ["application/json"]
    request = resolve(document, body["content"]["application/json"]["schema"])
    assert set(request["required"]) == {"model", "messages"}
    fields = request["properties"]
    for model in (fields["model"], fields["models"]["items"]):
        assert (model["type"], model["minLength"], model["maxLength"]) == ("string", 1, schema.MODEL_CHARACTERS_MAX)
    assert fields["models"]["maxItems"] == schema.FALLBACKS_MAX
    assert (fields["tools"]["minItems"], fields["tools"]["maxItems"]) == (1, schema.TOOLS_MAX)
    assert (fields["messages"]["type"], fields["messages"]["minItems"], fields["messages"]["maxItems"]) == ("array", 1, 2_048)
    bounds = {
        name: (field["type"][0], field["minimum"], field["maximum"]) for name, field in fields.items() if "minimum" in field
    }
    assert bounds == {
        "max_tokens": ("integer", 1, schema.MAX_TOKENS_MAX),
        "max_completion_tokens": ("integer", 1, schema.MAX_TOKENS_MAX),
        "temperature": ("number", 0, 2),
        "top_p": ("number", 0, 1),
        "frequency_penalty": ("number", -2, 2),
        "presence_penalty": ("number", -2, 2),
        "n": ("integer", 1, schema.CHOICES_MAX),
        "top_logprobs": ("integer", 0, 20),
        "seed": ("integer", -(2**63), 2**63 - 1),
    }
    assert fields["stream"]["type"] == ["boolean", "null"]
    assert fields["stream"]["description"].endswith(" Default: false.")
    assert all(takes_null(fields[name]) for name in fields if name not in ("model", "messages"))
    message = resolve(document, fields["messages"]["items"])
    assert set(message["required"]) == {"role"}
    text, parts, null = message["properties"]["content"]["oneOf"]
    assert (text["type"], parts["type"], null["type"]) == ("string", "array", "null")
    kinds = {"text", "image_url", "input_audio", "file", "refusal"}
    assert set(resolve(document, parts["items"])["discriminator"]["mapping"]) == kinds
    for kind, reference in resolve(document, parts["items"])["discriminator"]["mapping"].items():
        part = resolve(document, {"$ref": reference})["properties"]
        assert (set(part), part["type"]["const"]) == ({"type", kind}, kind)
    assert resolve(document, message["properties"]["role"])["enum"] == list(ROLES)


def takes_null(field: dict) -> bool:
    return "null" in field.get("type", []) or {"type": "null"} in field.get("oneOf", [])


def test_a_completion_is_described_as_json_and_as_an_event_stream(document):
    content = document["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/event-stream"}
    completion = resolve(document, content["application/json"]["schema"])
    names = {"id", "object", "created", "model", "provider", "system_fingerprint", "choices", "usage"}
    assert set(completion["required"]) == names


def test_the_described_completion_has_the_fields_of_a_served_one(document, api, echo_model):
    content = document["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"]["application/json"]
    completion, served = resolve(document, content["schema"])["properties"], chat.ask(api).json()
    usage = described_names(document, completion["usage"])
    assert set(completion) == set(served)
    assert set(resolve(document, completion["choices"]["items"])["properties"]) == set(served["choices"][0])
    assert usage == served_names(served["usage"])


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
    assert set(resolve(document, entry["type"])["enum"]) == set(LedgerEntry.Type.values)


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
    of_all_kinds = {"cache_write_1h_nanos": 2_000_000_000, "web_search_nanos": 10_000_000}
    above = {f"{name}_above_200000_nanos": 9_000_000_000 for name in ("input", "output", "cache_write_1h", "web_search")}
    factories.change_prices(echo_model.prices, **of_all_kinds, **above)
    fields = reply_fields(document, "/v1/models/{model_id}")
    served = served_names(api.get("/v1/models/demo/echo").json())
    for name in ("pricing", "architecture", "capabilities"):
        assert described_names(document, fields[name]) == served[name]
    described = set(fields)
    assert described == set(api.get("/v1/models/demo/echo").json()) | {"alias_of"}
    RoutableAlias.objects.create(id="best/general", model_ids=["demo/echo"])
    assert described == set(api.get("/v1/models/best/general").json())


def described_names(document: dict, part: dict) -> Any:
    """The names of an object's fields, and of the fields of those that are objects."""
    part = resolve(document, part.get("oneOf", [part])[0])  # the other is null
    return {name: described_names(document, field) for name, field in part.get("properties", {}).items()}


def served_names(value: Any) -> Any:
    return {name: served_names(field) for name, field in value.items()} if isinstance(value, dict) else {}


def test_the_described_usage_is_the_served_one(document, alice):
    served = client_for(factories.make_key(alice, limit_cents=1, type="RECURRING", period="DAILY")[1]).get("/v1/usage").json()
    content = document["paths"]["/v1/usage"]["get"]["responses"]["200"]["content"]["application/json"]
    assert described_names(document, content["schema"]) == served_names(served)


def test_the_described_entries_are_the_served_ones(document, alice, api, echo_model):
    chat.ask(api)
    usage.buy(alice, 5, "pi_1")
    entry = described_names(document, reply_fields(document, "/api/billing/ledger")["entries"]["items"])
    entries = api.get("/api/billing/ledger").json()["entries"]
    of_repetitions = {"repeats", "corrects", "chargedBeforeInDollars"}  # only after a process died
    assert set(entry["metadata"]) - of_repetitions == {name for each in entries for name in each["metadata"]}
    assert all(set(each) == set(entry) for each in entries)


def test_parameters_have_the_bounds_and_words_that_are_accepted():
    paths = specification.read_document()["paths"]
    described = {
        (operation["operationId"], parameter["name"]): parameter
        for operations in paths.values()
        for operation in operations.values()
        for parameter in operation.get("parameters", [])
    }
    keys = [parameter["schema"] for (_, name), parameter in described.items() if name == "Idempotency-Key"]
    assert len(keys) > 5
    assert {(schema["minLength"], schema["maxLength"], schema["pattern"]) for schema in keys} == {(1, 255, "^[ -~]+$")}
    available = described["listModels", "available"]["schema"]["enum"]
    assert set(available) == {"true", "false", "all", "1", "0"}  # True would have the name of true in generated clients
    assert all("Not before `from`." in each["description"] for (_, name), each in described.items() if name == "to")
