"""Writes a recursive JSON schema in the part of JSON Schema that Gemini takes. Pure.

That part, and what it does to recursion, is in the reference of ``responseJsonSchema``
(https://ai.google.dev/api/generate-content#generationconfig): only these keywords count; a ``$ref`` stands alone; a cycle must
lead through a property that is not required, because Gemini writes it out some times and then leaves that property out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from completions.request.fields import refuse

Schema = dict[str, Any]

_KEPT = (
    *("type", "format", "title", "description", "enum", "minItems", "maxItems", "minimum", "maximum", "propertyOrdering"),
    *("properties", "required", "items", "prefixItems", "anyOf", "oneOf", "additionalProperties"),
)
_LISTS = ("prefixItems", "anyOf", "oneOf", "allOf")
_REFERENCES_MAX = 500  # to compare more of them would hold up the other requests of the worker


def definition(root: Schema, reference: str, param: str) -> Schema:
    """Return the schema that a reference names. Raises InvalidRequest about ``param``."""
    found = _find(root, reference)
    if not isinstance(found, dict):
        refuse(param, f"refers to {reference[:100]}, which is not in it", quotes_request=True)
    return found


def is_recursive(root: Schema) -> bool:
    """Return whether a definition leads back to itself. A reference to nothing leads nowhere here."""
    return _has_cycle(_graph(root))


def write(root: Schema, param: str) -> tuple[Schema, bool] | None:
    """Return a recursive schema with its definitions in ``$defs``; None where Gemini could not end the recursion.

    Return with it whether some properties are not required that were, so that recursion can end.
    """
    graph = _graph(root, through_optional=False)
    if len(graph) > _REFERENCES_MAX:
        return None
    writer = _Writer(root, param, {reference: _reachable(graph, reference) for reference in graph})
    written = writer.write_root()
    return None if _has_cycle(_graph(written, through_optional=False)) else (written, writer.is_loosened)


def _step(found: Any, step: str) -> Any:
    if isinstance(found, list):
        return found[int(step)] if step.isascii() and step.isdigit() and len(step) < 9 and int(step) < len(found) else None
    return found.get(step) if isinstance(found, dict) else None


def _graph(root: Schema, *, through_optional: bool = True) -> dict[str, set[str]]:
    """Return the references in each definition that the root leads to, by the reference to it. "#" is the root."""
    graph: dict[str, set[str]] = {}
    waiting = ["#"]
    while waiting:
        if (reference := waiting.pop()) not in graph:
            graph[reference] = set(_references(_find(root, reference), through_optional))
            waiting += set(_references(_find(root, reference), True))
    return graph


def _find(root: Schema, reference: str) -> Any:
    found: Any = root if reference.startswith("#") else None
    for step in reference.removeprefix("#").split("/")[1:]:
        found = _step(found, step.replace("~1", "/").replace("~0", "~"))
    return found


def _references(schema: Any, through_optional: bool) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if isinstance(reference := schema.get("$ref"), str):
        yield reference
    for is_optional, child in _children(schema):
        if through_optional or not is_optional:
            yield from _references(child, through_optional)


def _children(schema: Schema) -> Iterator[tuple[bool, Any]]:
    """Yield the schemas inside of one, and whether each is of a property that is not required."""
    if isinstance(properties := schema.get("properties"), dict):
        required = schema.get("required")
        yield from ((not isinstance(required, list) or name not in required, child) for name, child in properties.items())
    yield from ((False, schema.get(name)) for name in ("items", "additionalProperties"))
    for name in _LISTS:
        if isinstance(children := schema.get(name), list):
            yield from ((False, child) for child in children)


def _has_cycle(graph: dict[str, set[str]]) -> bool:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


@dataclass(slots=True)
class _Writer:
    """``reachable``: the definitions to which each one leads through what is required."""

    root: Schema
    param: str
    reachable: dict[str, set[str]]
    is_loosened: bool = False
    _names: dict[str, str] = field(default_factory=dict)
    _waiting: list[str] = field(default_factory=list)

    def write_root(self) -> Schema:
        schema, inside = self.root, "#"
        while isinstance(reference := schema.get("$ref"), str):  # Gemini wants an object at the root
            if (inside := reference) in self._names:
                refuse(self.param, "is recursive without anything in it")
            self._name(inside)
            schema = {**definition(self.root, reference, self.param), **{n: v for n, v in schema.items() if n != "$ref"}}
        written, definitions = self._write(schema, inside), dict[str, Schema]()
        while self._waiting:
            reference = self._waiting.pop()
            definitions[self._names[reference]] = self._write(definition(self.root, reference, self.param), reference)
        return {**written, "$defs": definitions}

    def _write(self, schema: Any, inside: str) -> Schema:
        """Write a schema that is ``inside`` the definition of that reference, or "" where that does not require it."""
        if not isinstance(schema, dict):
            return {}
        parts = schema.get("allOf")
        if isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict):
            schema = {**parts[0], **{name: value for name, value in schema.items() if name != "allOf"}}
        kept = {name: schema[name] for name in _KEPT if name in schema}
        if "const" in schema:
            kept["enum"] = [schema["const"]]
        if isinstance(reference := schema.get("$ref"), str):
            alone = {"$ref": f"#/$defs/{self._name(reference)}"}
            labels: Schema = {name: kept[name] for name in ("title", "description") if name in kept}
            return {**labels, "anyOf": [alone]} if labels else alone
        for name in ("items", "additionalProperties"):
            if isinstance(kept.get(name), dict):
                kept[name] = self._write(kept[name], inside)
        for name in _LISTS:
            if isinstance(kept.get(name), list):
                kept[name] = [self._write(child, inside) for child in kept[name]]
        return {**kept, **self._properties(schema, inside)}

    def _properties(self, schema: Schema, inside: str) -> Schema:
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict):
            return {}
        needed = [name for name in required if name in properties] if isinstance(required, list) else []
        ending = {name for name in needed if inside and self._leads_back(properties[name], inside)}
        self.is_loosened |= bool(ending)
        needed = [name for name in needed if name not in ending]
        written = {name: self._write(child, inside if name in needed else "") for name, child in properties.items()}
        return {"properties": written, "required": needed} if isinstance(required, list) else {"properties": written}

    def _leads_back(self, schema: Any, inside: str) -> bool:
        return any(inside in self.reachable.get(each, ()) for each in _references(schema, False))

    def _name(self, reference: str) -> str:
        """Return the name of a definition in ``$defs``, where it will be written."""
        if reference not in self._names:
            last = "".join(each for each in reference.rpartition("/")[2] if each.isascii() and each.isalnum()) or "root"
            taken = set(self._names.values())
            self._names[reference] = last if last not in taken else f"{last}_{len(taken)}"
            self._waiting.append(reference)
        return self._names[reference]
