"""JSON Schema translated into the part of OpenAPI's schema that Gemini supports."""

import pytest

from completions.providers.gemini import schema
from gateway_project import errors


def translate(given, budget_bytes=10_000):
    return schema.translate(given, "p", schema.ExpansionBudget(budget_bytes))


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
        {"$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}}}, "$ref": "#/$defs/A"},
        {"$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)}, "$ref": "#/$defs/0"},
        {"$defs": {"A": {"description": "x" * 6_000}}, "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]},
    ],
    ids=["itself", "unknown", "elsewhere", "circle", "recursive", "doubling", "large"],
)
def test_missing_recursive_or_large_definitions_are_refused(given):
    with pytest.raises(errors.InvalidRequest, match=r"^p (is|refers)") as caught:
        translate(given)
    assert caught.value.param == "p"
