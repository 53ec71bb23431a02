"""The API reference at /docs/reference, made from the OpenAPI description. Each operation has a page; a search finds fields."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from gateway_project.web import hosts, public_page
from gateway_project.web.openapi import specification

Schema = dict[str, Any]
SEARCH_CHARACTERS_MAX = 100
_DEPTH_MAX = 7
# How the paths of each group begin; a path belongs to the first that fits.
_GROUPS: dict[str, str | tuple[str, ...]] = {
    "Completions": ("/v1/chat/", "/v1/quote", "/v1/completions", "/v1/generation", "/v1/embeddings"),
    "Anthropic’s Messages": "/v1/messages",
    "OpenAI’s Responses": "/v1/responses",
    "Models and usage": "/v1/",
    "Balance and ledger": "/api/billing/",
    "Keys": "/api/keys",
    "Rankings": "/",
}


class Field(NamedTuple):
    name: str
    kind: str
    is_required: bool
    description: str

    @property
    def root(self) -> str:
        """The field in which this one is; of an event its own name."""
        return self.name if self.kind == "event" else re.split(r"[.\[]", self.name)[0]


class Media(NamedTuple):
    kind: str
    fields: list[Field]
    example: str


class Operation(NamedTuple):
    """``request`` is empty where there is no body; ``curl`` ends with it."""

    id: str
    group: str
    method: str
    path: str
    title: str
    description: str
    is_public: bool
    parameters: list[Field]
    request: list[Field]
    replies: list[Media]
    headers: list[Field]
    errors: dict[str, str]  # codes by status
    curl: str

    @property
    def description_html(self) -> str:
        return mark_code(self.description)

    @property
    def fields(self) -> Iterator[Field]:
        yield from self.parameters
        yield from self.request
        for reply in self.replies:
            yield from reply.fields
        yield from self.headers


def mark_code(text: str) -> str:
    """Return the text as HTML, with what is in backticks as code."""
    return mark_safe(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))  # noqa: S308  it is escaped


@require_safe
def show(request: HttpRequest, operation_id: str = "") -> HttpResponseBase:
    """Show the operations by name, or with ``?q=`` where its words are found. With ``operation_id`` show that one whole."""
    words = request.GET.get("q", "").strip()[:SEARCH_CHARACTERS_MAX]
    addresses = hosts.api_url(request), hosts.base_url(request)
    key = None if words else ("docs", operation_id, addresses)
    return public_page.respond(request, key, lambda: _render(*addresses, words, operation_id), is_document=True)


def _render(api_url: str, base_url: str, words: str, operation_id: str) -> str:
    operations = read_operations(api_url, base_url)
    shown = next((each for each in operations if each.id == operation_id), None)
    if operation_id and shown is None:
        raise Http404
    groups: dict[str, list[Operation]] = {}
    for each in operations:
        groups.setdefault(each.group, []).append(each)
    headers = [header for each in operations for header in each.headers]
    context = {
        "api_url": api_url,
        "base_url": base_url,
        "groups": groups.items(),
        "shown": shown,
        "common_headers": [each for each in dict.fromkeys(headers) if 3 * headers.count(each) > len(operations)],
        "words": words,
        "found": list(_found(operations, words.casefold())) if words else [],
        "search_characters_max": SEARCH_CHARACTERS_MAX,
        "canonical_path": reverse("operation", args=[operation_id]) if shown else reverse("reference"),
    }
    return render_to_string("docs/operation.html" if shown else "docs/reference.html", context)


def _found(operations: list[Operation], words: str) -> Iterator[tuple[Operation, list[Field]]]:
    """Yield each operation that has the words, with the fields in which they are."""
    for each in operations:
        fields = [field for field in each.fields if words in f"{field.name} {field.description}".casefold()]
        if fields or words in f"{each.path} {each.title} {each.description}".casefold():
            yield each, list(dict.fromkeys(fields))


@lru_cache(maxsize=4)
def read_operations(api_url: str, base_url: str) -> list[Operation]:
    """Return the operations of the OpenAPI description, those of a group together. The addresses are for the examples."""
    document = specification.read_document()
    found = [
        _operation(document, path, method, operation, api_url if path.startswith("/v1/") else base_url)
        for path, method, operation in specification.operations(document)
    ]
    return sorted(found, key=lambda each: ([*_GROUPS].index(each.group), each.method != "POST"))


def _operation(document: Schema, path: str, method: str, operation: Schema, address: str) -> Operation:
    responses = operation["responses"]
    success = next(response for status, response in responses.items() if status.startswith("2"))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return Operation(
        id=operation["operationId"],
        group=next(title for title, beginnings in _GROUPS.items() if path.startswith(beginnings)),
        method=method.upper(),
        path=path,
        title=operation["summary"],
        description=operation["description"],
        is_public=not operation.get("security"),
        parameters=[_parameter(document, each) for each in operation.get("parameters", [])],
        request=list(_fields(document, body.get("schema", {}))),
        replies=[_media(document, kind, media) for kind, media in success.get("content", {}).items()],
        headers=[
            Field(name, _kind(document, each["schema"]), False, each["description"])
            for name, each in success.get("headers", {}).items()
        ],
        errors={status: each["description"] for status, each in responses.items() if status.isdigit() and status >= "400"},
        curl=_curl(address, path, method.upper(), operation, body.get("example")),
    )


def _parameter(document: Schema, parameter: Schema) -> Field:
    where = {"query": "in the address", "path": "in the path", "header": "header"}[parameter["in"]]
    kind = f"{where}, {_kind(document, parameter['schema'])}"
    return Field(parameter["name"], kind, parameter.get("required", False), parameter.get("description", ""))


def _media(document: Schema, kind: str, media: Schema) -> Media:
    example = media.get("x-stream", media.get("example", ""))
    text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
    fields = _events(document, media["schema"]) if kind == "text/event-stream" else _fields(document, media["schema"])
    return Media(kind, list(fields), text.strip())


def _events(document: Schema, schema: Schema) -> Iterator[Field]:
    """Yield the events of a stream by their types, without their fields, most of which are the reply's; else their fields."""
    for event in variants(document, schema):
        name = event["properties"].get("type", {}).get("const")
        yield from [Field(name, "event", False, event.get("description", ""))] if name else _fields(document, event)


def _curl(address: str, path: str, method: str, operation: Schema, body: Any) -> str:
    query = {}
    for parameter in operation.get("parameters", []):
        if "example" in parameter and parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(parameter["example"]))
        elif "example" in parameter and parameter["in"] == "query":
            query[parameter["name"]] = parameter["example"]
    target = f"{address}{path}" + (f"?{urlencode(query)}" if query else "")
    lines = [f'curl "{target}"' if query else f"curl {target}"]
    if method not in ("GET", "POST"):
        lines.append(f"-X {method}")
    elif method == "POST" and body is None:
        lines.append("-X POST")
    for scheme in operation.get("security", [])[:1]:  # of several any one suffices
        key = "GATEWAY_MANAGEMENT_KEY" if "managementKey" in scheme else "GATEWAY_API_KEY"
        lines.append(f'-H "Authorization: Bearer ${key}"')
    if body is not None:
        lines += ['-H "Content-Type: application/json"', f"-d '{json.dumps(body, indent=2)}'"]
    return " \\\n  ".join(lines)


def _fields(document: Schema, schema: Schema) -> Iterator[Field]:
    for path, field, is_required in walk(document, schema):
        yield Field(path, _kind(document, field), is_required, _description(document, field))


def walk(document: Schema, schema: Schema, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Schema, bool]]:
    """Yield the path and schema of each field of an object, and whether it is required, each followed by its inner fields.

    A field of several alternatives comes once.
    """
    if depth >= _DEPTH_MAX:
        return
    found = variants(document, schema)
    items = [variant["items"] for variant in found if variant.get("type") == "array" and "items" in variant]
    if items:
        yield from walk(document, {"oneOf": items}, f"{prefix}[]", depth + 1)
    objects = [variant for variant in found if "properties" in variant]
    for name in dict.fromkeys(name for variant in objects for name in variant["properties"]):
        fields = [variant["properties"][name] for variant in objects if name in variant["properties"]]
        # Descriptions of constants say no more than their values.
        described = dict.fromkeys(_description(document, each) for each in fields if "const" not in each)
        field = fields[0] if len(fields) == 1 else {"oneOf": fields, "description": " ".join(described)}
        path = f"{prefix}.{name}" if prefix else name
        yield path, field, all(name in variant.get("required", ()) for variant in objects)
        yield from walk(document, field, path, depth + 1)


def variants(document: Schema, schema: Schema) -> list[Schema]:
    """Return what a value may be: the schema itself, or its alternatives, with references followed. Null is one of them."""
    if "$ref" in schema:
        return variants(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    parts = schema.get("oneOf") or schema.get("anyOf") or schema.get("allOf")
    if parts:
        return [variant for part in parts for variant in variants(document, part)]
    types = schema.get("type")
    return [{**schema, "type": each} for each in types] if isinstance(types, list) else [schema]


def _description(document: Schema, schema: Schema) -> str:
    found = variants(document, schema)
    return str(schema.get("description") or (found[0].get("description", "") if len(found) == 1 else ""))


def _kind(document: Schema, schema: Schema) -> str:
    """Return in words what values a schema takes: "integer, 1 to 100, default 10"."""
    found = variants(document, schema)
    words = " or ".join(dict.fromkeys(_one_kind(document, each) for each in found if each.get("type") != "null"))
    words += " or null" if any(each.get("type") == "null" for each in found) else ""
    default = next((each["default"] for each in (schema, *found) if each.get("default") is not None), None)
    return words if default is None else f"{words}, default {json.dumps(default).strip(chr(34))}"


def _one_kind(document: Schema, schema: Schema) -> str:
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_kind(document, schema['items']) or 'anything'}"
    if schema.get("format") == "date-time":
        return "time, ISO 8601"
    return f"{schema.get('type', 'anything')}{_bounds(schema)}"


def _bounds(schema: Schema) -> str:
    for low, high, unit in (("minimum", "maximum", ""), ("minLength", "maxLength", " characters")):
        least, most = schema.get(low), schema.get(high)
        if most is not None and abs(most) < 2**31 - 1:
            return f", {least or 0} to {most:,}{unit}"
    return ""
