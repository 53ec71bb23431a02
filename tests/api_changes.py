"""Writes the changelog of the API (``make api-changes``): what changed for programs since it last ran, and what breaks them.

The OpenAPI description is reduced to its places: operations, parameters, fields and headers, each with what it takes. The last
ones are kept beside this module, and compared by the rules of ``docs/api/changes.md``. Libraries that compare descriptions were
tried: those in Python have no enums, bounds or alternatives, and call breaking in a reply what is breaking in a request.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from operator import gt, lt
from pathlib import Path
from typing import Any, NamedTuple

import django

from gateway_project.web.openapi import changes, reference, specification
from gateway_project.web.openapi.reference import Schema

SNAPSHOT = Path(__file__).with_name("api_places.json")
Facts = dict[str, Any]
Places = dict[str, dict[str, Facts]]  # by operation, "GET /v1/models", then by kind and name, "query sort"
Rule = tuple[str, bool]  # what changed, in words, and whether it breaks programs
_OPERATION = "operation"
_SENT = {"query": "parameter", "path": "parameter", "header": "request header", "request": "request field"}
_KINDS = {**_SENT, "reply": "reply field", "stream": "field of the stream", "reply-header": "reply header"}
_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {  # each with which of two is narrower
    "minimum": ("minimum", gt),
    "maximum": ("maximum", lt),
    "minLength": ("minimum of characters", gt),
    "maxLength": ("maximum of characters", lt),
    "minItems": ("minimum of items", gt),
    "maxItems": ("maximum of items", lt),
}


class Change(NamedTuple):
    operations: list[str]
    words: str
    is_breaking: bool


def read_places(document: Schema) -> Places:
    return {
        f"{method.upper()} {path}": dict(_places(document, operation))
        for path, method, operation in specification.operations(document)
    }


def _places(document: Schema, operation: Schema) -> Iterator[tuple[str, Facts]]:
    yield _OPERATION, {"key": bool(operation.get("security"))}
    for each in operation.get("parameters", []):
        yield f"{each['in']} {each['name']}", _facts(document, each["schema"], each.get("required", False))
    success = next(response for status, response in operation["responses"].items() if status.startswith("2"))
    bodies = [("request", media) for media in operation.get("requestBody", {}).get("content", {}).values()]
    for kind, media in success.get("content", {}).items():
        bodies.append(("stream" if kind == "text/event-stream" else "reply", media))
    for kind, media in bodies:
        for path, field, is_required in reference.walk(document, media["schema"]):
            yield f"{kind} {path}", _facts(document, field, is_required)
    for name, header in success.get("headers", {}).items():
        yield f"reply-header {name}", _facts(document, header["schema"], False)


def _facts(document: Schema, schema: Schema, is_required: bool) -> Facts:
    """Return what a place takes. A fact that it has not is left out: without types or values it takes any."""
    leaves = list(_leaves(document, schema))
    kinds, schemas = {kind for kind, _ in leaves if kind}, [schema, *(leaf for _, leaf in leaves)]
    listed = [leaf.get("enum", [leaf.get("const")]) for kind, leaf in leaves if kind not in ("", "null")]
    values = {str(value) for each in listed for value in each if value is not None}
    told = re.search(r"Default: (.+)\.$", schema.get("description", ""))
    facts: Facts = {
        "required": is_required or None,
        "types": None if any("anything" in kind for kind in kinds) else sorted(kinds),
        "values": sorted(values) if values and all(each != [None] for each in listed) else None,
        "default": told[1] if told else next((json.dumps(each["default"]) for each in schemas if "default" in each), None),
        **{name: next((each[name] for each in schemas if name in each), None) for name in ("format", "pattern")},
    }
    for name, (_, narrower) in _BOUNDS.items():
        bounds = [leaf[name] for leaf in schemas[1:] if name in leaf]
        facts[name] = (min if narrower is gt else max)(bounds) if bounds else None
    return {name: fact for name, fact in facts.items() if fact is not None}


def _leaves(document: Schema, schema: Schema, before: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield the type of each value that the schema takes, with its schema; of an array "", then those of its items."""
    for each in reference.variants(document, schema):
        yield "" if "items" in each else before + each.get("type", "anything"), each
        if "items" in each:
            yield from _leaves(document, each["items"], f"{before}array of ")


def compare(before: Places, after: Places) -> list[Change]:
    """Return the changes. One of several operations comes once."""
    found: dict[Rule, list[str]] = {}
    for operation in sorted({*before, *after}):
        for rule in _compare_operation(before.get(operation, {}), after.get(operation, {})):
            found.setdefault(rule, []).append(operation)
    return [Change(operations, *rule) for rule, operations in found.items()]


def _compare_operation(before: dict[str, Facts], after: dict[str, Facts]) -> Iterator[Rule]:
    """Yield what changed. Of a field that came or went, what is in it is not told, too."""
    if not before or not after:
        yield ("New operation.", False) if after else ("The operation is removed.", True)
        return
    if before[_OPERATION] != after[_OPERATION]:
        yield ("The operation now needs a key.", True) if after[_OPERATION]["key"] else ("The operation needs no key.", False)
    for place in [each for each in {**before, **after} if each != _OPERATION]:
        kind, _, name = place.partition(" ")
        outer = f"{kind} {name.rpartition('.')[0].rstrip('[]')}"
        if place in before and place in after:
            yield from _compare_place(f"The {_KINDS[kind]} `{name}`", before[place], after[place], is_sent=kind in _SENT)
        elif (outer in before) == (outer in after):
            yield _came_or_went(f"{_KINDS[kind]} `{name}`", after.get(place), is_sent=kind in _SENT)


def _came_or_went(called: str, after: Facts | None, *, is_sent: bool) -> Rule:
    if after is None:
        return f"The {called} is removed.", True
    is_required = is_sent and "required" in after
    return f"New {called}{', which is required' if is_required else ''}.", is_required


def _compare_place(called: str, before: Facts, after: Facts, *, is_sent: bool) -> Iterator[Rule]:
    """Yield what changed. What programs send breaks them as it narrows, what they receive as it widens."""
    if ("required" in before) != ("required" in after):
        is_now = "required" in after
        words = (
            ("now required" if is_now else "now optional")
            if is_sent
            else ("now always there" if is_now else "no longer always there")
        )
        yield f"{called} is {words}.", is_now == is_sent
    for name in ("types", "values"):
        yield from _compare_lists(called, before.get(name), after.get(name), is_sent, widens=not is_sent and name == "types")
    for name, breaks in (("default", is_sent), ("format", True), ("pattern", True)):
        if name in before and name in after and before[name] != after[name]:
            yield f"{called} has the {name} {after[name]}, before {before[name]}.", breaks
    for name, (noun, narrower) in _BOUNDS.items():
        was, is_now = before.get(name), after.get(name)
        if was != is_now:
            words = ", before ".join("none" if bound is None else f"{bound:,}" for bound in (is_now, was))
            is_narrower = is_now is not None and (was is None or narrower(is_now, was))
            yield f"{called} has the {noun} {words}.", is_sent and is_narrower


def _compare_lists(called: str, was: list[str] | None, is_now: list[str] | None, is_sent: bool, widens: bool) -> Iterator[Rule]:
    """Yield what changed of types or values; None: any. ``widens``: one more breaks programs."""
    also, only, no_longer = (
        ("also takes", "takes only", "no longer takes") if is_sent else ("may also be", "is only", "is no longer")
    )
    if was is None or is_now is None:
        if was != is_now:
            yield (f"{called} {also} any other.", widens) if was else (f"{called} {only} {', '.join(is_now or [])}.", is_sent)
        return
    for words, more, less, breaks in ((no_longer, was, is_now, is_sent), (also, is_now, was, widens)):
        if found := [each for each in more if each not in less]:
            yield f"{called} {words} {', '.join(found)}.", breaks


def add_entry(entries: list[dict[str, Any]], found: list[Change], now: datetime) -> list[dict[str, Any]]:
    """Return the entries with these changes in that of the day, the newest first."""
    entry: dict[str, Any] = {"date": now.date().isoformat(), "changes": []}
    if entries and entries[0]["date"] == entry["date"]:
        entry, *entries = entries
    together = [*entry["changes"], *(each._asdict() for each in found)]
    together.sort(key=lambda change: (not change["is_breaking"], change["operations"]))
    return [{**entry, "updated_at": now.isoformat(timespec="seconds"), "changes": together}, *entries]


def write_entries(entries: list[dict[str, Any]]) -> None:
    changes.FILE.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


def read_snapshot() -> Places:
    places: Places = json.loads(SNAPSHOT.read_text())
    return places


def write_snapshot(places: Places) -> None:
    """Write a place on each line, so that the changes of two branches can be merged."""
    operations = [
        f"{json.dumps(operation)}: {{\n"
        + ",\n".join(f" {json.dumps(name)}: {json.dumps(facts)}" for name, facts in inner.items())
        + "}"
        for operation, inner in places.items()
    ]
    SNAPSHOT.write_text("{\n" + ",\n".join(operations) + "\n}\n")


def update() -> None:
    places = read_places(specification.read_document())
    found = compare(read_snapshot(), places)
    if found:
        entries = add_entry(json.loads(changes.FILE.read_text()), found, datetime.now(UTC))
        write_entries(entries)
    write_snapshot(places)
    sys.stdout.writelines(f"{'Breaking: ' * each.is_breaking}{each.words} {', '.join(each.operations)}\n" for each in found)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    os.environ.setdefault("GATEWAY_DEVELOPMENT", "1")
    django.setup()
    update()
