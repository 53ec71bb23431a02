"""Translates JSON Schema for Gemini. Pure.

Usually to Gemini's own schema, a part of OpenAPI's: https://ai.google.dev/api/caching#Schema. An unknown keyword is a 400, so
only the keywords named here are kept. Some others are expressed by those that Gemini has: null among the types, constants,
references to definitions.

It has no recursion. So a recursive schema is sent as JSON Schema, of which Gemini takes a part, too (``json_schema``). For a
model that knows none, and where Gemini could not end the recursion, it ends after a few levels.
"""

import json
from collections import Counter
from typing import Any

from completions.providers.gemini import json_schema
from gateway_project import errors

Schema = dict[str, Any]

_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_KEPT = (
    *("title", "description", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"),
    *("minProperties", "maxProperties", "pattern"),
)
_FORMATS = ("date-time", "float", "double", "int32", "int64")  # Gemini refuses any other format of a string with 400
_LEVELS_MAX = 64
_REPEATS = (3, 2, 1)  # how often a definition may stand in itself: the largest numbers that are not too large
_STRUCTURE = frozenset({"properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$ref"})


class Schemas:
    """Translates the schemas of one request. ``lost`` names what is not sent of them everywhere, once.

    ``bytes_left`` is how much expanded references may still add: no more than the hold pays for. ``takes_json``: the model
    knows JSON Schema, too.
    """

    def __init__(self, bytes_left: int, *, takes_json: bool) -> None:
        self.bytes_left, self._takes_json = bytes_left, takes_json
        self.lost: dict[str, None] = {}

    def translate(self, schema: Schema, param: str) -> tuple[Schema, bool]:
        """Return the schema with definitions in place of references; or as JSON Schema, and True. Raises InvalidRequest."""
        is_recursive = json_schema.is_recursive(schema)
        if is_recursive and self._takes_json and (written := json_schema.write(schema, param)):
            sent, is_loosened = written
            if is_loosened:
                self.lost[f"{param}.required"] = None
            return sent, True
        bytes_left = self.bytes_left
        for repeats in _REPEATS if is_recursive else (0,):
            self.bytes_left = bytes_left
            try:
                translated = _Translation(schema, param, self, repeats).translate(schema, _LEVELS_MAX)
            except _TooLarge as error:
                problem = str(error)
            else:
                if is_recursive:
                    self.lost[f"{param}.$ref"] = None
                return translated, False
        raise errors.wrong(param, problem)


class _TooLarge(Exception):
    """The definitions exceed the budget, or are nested too deep."""


class _Translation:
    """Translates one schema. A definition that stands in itself more than ``repeats`` times loses what it is made of."""

    def __init__(self, root: Schema, param: str, schemas: Schemas, repeats: int) -> None:
        self._root, self._param, self._schemas, self._repeats = root, param, schemas, repeats
        self._open = Counter[str]()  # the references that lead to the schema that is being translated

    def translate(self, schema: Any, levels: int) -> Schema:
        """``levels``: how much deeper the schema may be nested."""
        followed: list[str] = []
        schema = self._resolve(schema, levels, followed)
        self._open.update(followed)
        translated = self._translate(schema, levels)
        self._open.subtract(followed)
        return translated

    def _translate(self, schema: Schema, levels: int) -> Schema:
        types, nullable = _types(schema)
        alternatives, can_be_null = self._alternatives(schema, types, levels)
        kept: Schema = {name: schema[name] for name in _KEPT if name in schema}
        if nullable or can_be_null:
            kept["nullable"] = True
        if len(alternatives) == 1:
            return {**self.translate(alternatives[0], levels - 1), **kept}
        if alternatives:
            return {**kept, "anyOf": [self.translate(alternative, levels - 1) for alternative in alternatives]}
        kept["type"] = types[0].upper()
        return {**kept, **_values(schema, types[0]), **self._children(schema, types[0], levels)}

    def _resolve(self, schema: Any, levels: int, followed: list[str]) -> Schema:
        """Return the schema with its own ``$ref`` and single ``allOf`` replaced by what they stand for."""
        for _ in range(levels):
            if not isinstance(schema, dict):  # the schema "true" allows anything
                return {}
            rest = {name: value for name, value in schema.items() if name not in ("$ref", "allOf")}
            reference, parts = schema.get("$ref"), schema.get("allOf")
            if isinstance(reference, str) and reference not in followed:
                followed.append(reference)
                schema = {**self._definition(reference), **rest}
            elif isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict):
                schema = {**parts[0], **rest}
            elif isinstance(reference, str):
                break
            else:
                return schema
        raise _TooLarge("is recursive, or nested too deep for this model")

    def _definition(self, reference: str) -> Schema:
        found = json_schema.definition(self._root, reference, self._param)
        if self._open[reference] > self._repeats:
            kind = {"type": _types(found)[0][0]}
            return {**kind, **{name: value for name, value in found.items() if name not in _STRUCTURE}}
        self._schemas.bytes_left -= len(json.dumps(found))
        if self._schemas.bytes_left < 0:
            raise _TooLarge("is larger than the request once its definitions are written out")
        return found

    def _alternatives(self, schema: Schema, types: list[str], levels: int) -> tuple[list[Schema], bool]:
        """Return the alternatives without null, and whether null was one. Those beside properties or items are ignored."""
        given = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(given, list) and not ("properties" in schema or "items" in schema):
            others = [alternative for alternative in given if self._resolve(alternative, levels, []).get("type") != "null"]
            return others, len(others) < len(given)
        return ([_of_one_type(schema, kind) for kind in types] if len(types) > 1 else []), False

    def _children(self, schema: Schema, kind: str, levels: int) -> Schema:
        if kind == "array":
            return {"items": self.translate(schema.get("items"), levels - 1)}  # Gemini refuses an array without items with 400
        properties = schema.get("properties")
        if kind != "object" or not isinstance(properties, dict) or not properties:
            return {}
        required = schema.get("required")
        names = [name for name in required if name in properties] if isinstance(required, list) else []
        children: Schema = {"properties": {name: self.translate(value, levels - 1) for name, value in properties.items()}}
        return {**children, "required": names} if names else children


def _types(schema: Schema) -> tuple[list[str], bool]:
    """Return the types of a value without null, and whether it may be null. Gemini wants a type for every value."""
    given = schema.get("type")
    named = [kind for kind in (given if isinstance(given, list) else [given]) if isinstance(kind, str)]
    kinds = [kind for kind in dict.fromkeys(named) if kind in _TYPES]
    nullable = "null" in named or schema.get("nullable") is True or None in _enum(schema)
    if kinds:
        return kinds, nullable
    return ["object" if "properties" in schema else "array" if "items" in schema else "string"], nullable


def _of_one_type(schema: Schema, kind: str) -> Schema:
    keywords = {"array": ("items",), "object": ("properties", "required"), "string": ("enum", "const", "format")}.get(kind, ())
    return {"type": kind, **{name: schema[name] for name in keywords if name in schema}}


def _values(schema: Schema, kind: str) -> Schema:
    """Return the enum and the format of a value. Gemini's enum takes only strings that are not empty."""
    kept = {"format": schema["format"]} if schema.get("format") in _FORMATS else {}
    values = [value for value in _enum(schema) if value is not None]
    if kind == "string" and values and all(isinstance(value, str) and value for value in values):
        return {**kept, "enum": values}
    return kept


def _enum(schema: Schema) -> list[Any]:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if isinstance(values, list) else []
