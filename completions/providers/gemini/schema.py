"""JSON Schema -> what Gemini knows of it, a part of OpenAPI's: https://ai.google.dev/api/caching#Schema. Pure.

A keyword that it does not know is refused with 400, so what stays is listed. What a schema says by other means is said by its
own where it has some: null among the types, a constant, a definition elsewhere in the schema.
"""

import json
from typing import Any

from gateway_project import errors

Schema = dict[str, Any]

_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_KEPT = (
    "title",
    "description",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "pattern",
)
_FORMATS = ("date-time", "float", "double", "int32", "int64")  # any other of a string: 400
_LEVELS_MAX = 64


class ExpansionBudget:
    """Bytes that definitions may add where they are referred to: no more than the hold pays for."""

    def __init__(self, bytes_left: int) -> None:
        self.bytes_left = bytes_left


def translate(schema: Schema, param: str, budget: ExpansionBudget) -> Schema:
    """Raises InvalidRequest for definitions that are not there, are recursive or outgrow ``budget``."""
    return _Translation(schema, param, budget).of(schema, _LEVELS_MAX)


class _Translation:
    def __init__(self, root: Schema, param: str, budget: ExpansionBudget) -> None:
        self._root = root
        self._param = param
        self._budget = budget

    def of(self, schema: Any, levels: int) -> Schema:
        schema = self._unfolded(schema, levels)
        types, nullable = _types(schema)
        alternatives, can_be_null = self._alternatives(schema, types, levels)
        kept: Schema = {name: schema[name] for name in _KEPT if name in schema}
        if nullable or can_be_null:
            kept["nullable"] = True
        if len(alternatives) == 1:
            return {**self.of(alternatives[0], levels - 1), **kept}
        if alternatives:
            return {**kept, "anyOf": [self.of(alternative, levels - 1) for alternative in alternatives]}
        kept["type"] = types[0].upper()
        return {**kept, **_values(schema, types[0]), **self._inside(schema, types[0], levels)}

    def _unfolded(self, schema: Any, levels: int) -> Schema:
        """The schema with what it refers to written out."""
        for _ in range(levels):
            if not isinstance(schema, dict):  # true: anything
                return {}
            rest = {name: value for name, value in schema.items() if name not in ("$ref", "allOf")}
            reference, parts = schema.get("$ref"), schema.get("allOf")
            if isinstance(reference, str):
                schema = {**self._definition(reference), **rest}
            elif isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict):
                schema = {**parts[0], **rest}
            else:
                return schema
        raise errors.wrong(self._param, "is recursive, or nested too deep for this model")

    def _definition(self, reference: str) -> Schema:
        found: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if not reference.startswith("#") or not isinstance(found, dict):
            raise errors.wrong(self._param, f"refers to {reference[:100]}, which is not in it")
        self._budget.bytes_left -= len(json.dumps(found))
        if self._budget.bytes_left < 0:
            raise errors.wrong(self._param, "is recursive, or larger than the request once its definitions are written out")
        return found

    def _alternatives(self, schema: Schema, types: list[str], levels: int) -> tuple[list[Schema], bool]:
        """What a value may be one of, if the schema says nothing else of its inside, and whether null is among it."""
        given = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(given, list) and not ("properties" in schema or "items" in schema):
            unfolded = [self._unfolded(alternative, levels) for alternative in given]
            others = [alternative for alternative in unfolded if alternative.get("type") != "null"]
            return others, len(others) < len(unfolded)
        return ([_of_one_type(schema, kind) for kind in types] if len(types) > 1 else []), False

    def _inside(self, schema: Schema, kind: str, levels: int) -> Schema:
        if kind == "array":
            return {"items": self.of(schema.get("items"), levels - 1)}  # without it: 400
        properties = schema.get("properties")
        if kind != "object" or not isinstance(properties, dict) or not properties:
            return {}
        required = schema.get("required")
        names = [name for name in required if name in properties] if isinstance(required, list) else []
        inside: Schema = {"properties": {name: self.of(value, levels - 1) for name, value in properties.items()}}
        return {**inside, "required": names} if names else inside


def _types(schema: Schema) -> tuple[list[str], bool]:
    """The types, of which Gemini wants one for every value, and whether it may be null."""
    given = schema.get("type")
    named = [kind for kind in (given if isinstance(given, list) else [given]) if isinstance(kind, str)]
    known = [kind for kind in dict.fromkeys(named) if kind in _TYPES]
    nullable = "null" in named or schema.get("nullable") is True or None in _listed(schema)
    if known:
        return known, nullable
    return ["object" if "properties" in schema else "array" if "items" in schema else "string"], nullable


def _of_one_type(schema: Schema, kind: str) -> Schema:
    inside = {"array": ("items",), "object": ("properties", "required"), "string": ("enum", "const", "format")}.get(kind, ())
    return {"type": kind, **{name: schema[name] for name in inside if name in schema}}


def _values(schema: Schema, kind: str) -> Schema:
    """Of what text a value may be, and its format; Gemini can list text alone, and not the empty one."""
    said = {"format": schema["format"]} if schema.get("format") in _FORMATS else {}
    values = [value for value in _listed(schema) if value is not None]
    if kind == "string" and values and all(isinstance(value, str) and value for value in values):
        return {**said, "enum": values}
    return said


def _listed(schema: Schema) -> list[Any]:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if isinstance(values, list) else []
