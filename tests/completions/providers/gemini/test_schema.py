"""JSON Schema translated into the part of OpenAPI's schema that Gemini supports."""

import json

import pytest

from completions.providers.gemini import schema
from gateway_project import errors


def translate(given, budget_bytes=10_000):
    translated, is_json = schema.Schemas(budget_bytes, takes_json=False).translate(given, "p")
    assert not is_json
    return translated


@pytest.mark.parametrize(
    ("given", "theirs"),
    [
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"type": "string", "format": ["odd"]}, {"type": "STRING"}),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
        ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}),
        ({"type": "string", "enum": ["a", ""]}, {"type": "STRING"}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER"}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"items": {"type": "number", "exclusiveMinimum": 0}}, {"type": "ARRAY", "items": {"type": "NUMBER"}}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "OBJECT"}),
        ({"properties": {"$ref": {"type": "boolean"}}}, {"type": "OBJECT", "properties": {"$ref": {"type": "BOOLEAN"}}}),
        ({"type": "null"}, {"type": "STRING", "nullable": True}),
        ({"type": 5, "title": "t"}, {"type": "STRING", "title": "t"}),
        (
            {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}], "description": "d"},
            {"type": "STRING", "maxLength": 3, "description": "d", "nullable": True},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "number"}], "description": "d"},
            {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "description": "d"},
        ),
        (
            {"type": ["string", "array", "null"], "items": {"type": "integer"}, "description": "d"},
            {
                "anyOf": [{"type": "STRING"}, {"type": "ARRAY", "items": {"type": "INTEGER"}}],
                "description": "d",
                "nullable": True,
            },
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]},
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        ),
    ],
)
def test_schema_keeps_what_gemini_supports(given, theirs):
    assert translate(given) == theirs


def test_references_are_replaced_by_their_definitions():
    given = {
        "$defs": {"Step": {"type": "object", "properties": {"next": {"$ref": "#/$defs/No~1te"}}}, "No/te": {"type": "string"}},
        "type": "object",
        "properties": {
            "steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}},
            "one": {"allOf": [{"$ref": "#/$defs/Step"}]},
        },
    }
    step = {"type": "OBJECT", "properties": {"next": {"type": "STRING"}}}
    assert translate(given) == {"type": "OBJECT", "properties": {"steps": {"type": "ARRAY", "items": step}, "one": step}}


@pytest.mark.parametrize(
    "given",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/A"},
        {"$ref": "https://example.org/schema.json"},
        {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"},
        {"$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)}, "$ref": "#/$defs/0"},
        {"$defs": {"A": {"description": "x" * 6_000}}, "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]},
    ],
    ids=["itself", "unknown", "elsewhere", "circle", "doubling", "large"],
)
def test_missing_endless_or_large_definitions_are_refused(given):
    with pytest.raises(errors.InvalidRequest, match=r"^p (is|refers)") as caught:
        translate(given)
    assert caught.value.param == "p"


# --- Recursion ---------------------------------------------------------------------------------------------------

NODE = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/Node"}}, "required": ["name"]}
LEAF = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
LIST = {"type": "object", "properties": {"nodes": {"type": "array", "items": {"$ref": "#/$defs/List"}}}, "required": ["nodes"]}
STRICT = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Strict"}, {"type": "null"}]}, "n": {"type": "integer"}},
    "required": ["next", "n"],
    "additionalProperties": False,
}
JSON = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/JSON"}}]}


def rooted(name, **definitions):
    return {"type": "object", "properties": {"value": {"$ref": f"#/$defs/{name}"}}, "$defs": definitions}


# A recursive schema -> what Gemini is sent as JSON Schema, and the keyword that is not sent everywhere.
RECURSIVE = {
    "an optional property": (rooted("Node", Node=NODE), rooted("Node", Node=NODE), ""),
    "the root": ({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, {**NODE, "$defs": {"Node": NODE}}, ""),
    "the root itself": (
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/root"}},
            "$defs": {"root": {"type": "object", "properties": {"next": {"$ref": "#/$defs/root"}}}},
        },
        "",
    ),
    "definitions elsewhere": (
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/N~1o", "description": "d"}},
            "definitions": {"N/o": {"type": "object", "properties": {"b": {"allOf": [{"$ref": "#/definitions/N~1o"}]}}}},
        },
        {
            "type": "object",
            "properties": {"a": {"description": "d", "anyOf": [{"$ref": "#/$defs/N1o"}]}},
            "$defs": {"N1o": {"type": "object", "properties": {"b": {"$ref": "#/$defs/N1o"}}}},
        },
        "",
    ),
    "a required list": (rooted("List", List=LIST), rooted("List", List={**LIST, "required": []}), "required"),
    "a strict schema": (rooted("Strict", Strict=STRICT), rooted("Strict", Strict={**STRICT, "required": ["n"]}), "required"),
    "two definitions": (
        rooted(
            "A",
            A={"properties": {"b": {"$ref": "#/$defs/B"}}},
            B={"properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]},
        ),
        rooted(
            "A",
            A={"properties": {"b": {"$ref": "#/$defs/B"}}},
            B={"properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]},
        ),
        "",
    ),
}


@pytest.mark.parametrize(("given", "theirs", "lost"), RECURSIVE.values(), ids=RECURSIVE)
def test_recursive_schema_is_sent_as_json_schema(given, theirs, lost):
    schemas = schema.Schemas(10_000, takes_json=True)
    assert schemas.translate(given, "p") == (theirs, True)
    assert [*schemas.lost] == ([f"p.{lost}"] if lost else [])


@pytest.mark.parametrize(
    ("given", "takes_json"),
    [
        *((given, False) for given, _, _ in RECURSIVE.values()),
        (rooted("JSON", JSON=JSON), True),
        (rooted("JSON", JSON=JSON), False),
    ],
    ids=[*RECURSIVE, "without a property", "without a property, older"],
)
def test_recursion_ends_where_gemini_cannot_end_it(given, takes_json):
    schemas = schema.Schemas(10_000, takes_json=takes_json)
    translated, is_json = schemas.translate(given, "p")
    assert (is_json, [*schemas.lost]) == (False, ["p.$ref"])
    assert "$ref" not in json.dumps(translated)


def test_recursion_ends_earlier_where_it_would_be_too_large():
    branches = {f"p{n}": {"$ref": "#/$defs/A"} for n in range(9)}
    given = rooted("A", A={"type": "object", "properties": branches})
    translated, _ = schema.Schemas(30_000, takes_json=False).translate(given, "p")
    assert len(json.dumps(translated)) < 30_000
    assert set(translated["properties"]["value"]["properties"]) == {*branches}
