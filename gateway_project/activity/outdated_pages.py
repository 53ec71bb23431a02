"""Finds what changed since a change form was opened, so that saving the form does not overwrite it unseen.

The page keeps the values that it opened with, as JSON in a hidden field.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.forms import ModelChoiceField, PasswordInput

FIELD_NAME = "_seen"
Seen = dict[str, dict[str, Any]]  # of the object ("") and of each row beneath it ("routes 17"): field -> value


def write(form: Any, formsets: Sequence[Any]) -> str:
    """Return the values that the page opens with, for the hidden field."""
    seen = {place: _values(each) for place, each in _forms(form, formsets)}
    return json.dumps(seen, cls=DjangoJSONEncoder)


def describe_changes(written: str, form: Any, formsets: Sequence[Any]) -> list[str]:
    """Return a sentence for each value that has changed since. The forms have the values of now."""
    try:
        seen: Seen = json.loads(written)
        now: Seen = json.loads(write(form, formsets))
        forms = dict(_forms(form, formsets))
        return [sentence for place in seen for sentence in _changes(forms.get(place), seen[place], now.get(place))]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ["The form is damaged."]


def _changes(form: Any, seen: dict[str, Any], now: dict[str, Any] | None) -> Iterator[str]:
    if form is None or now is None:
        yield "A row was removed."
        return
    for name in now.keys() & seen.keys():
        if now[name] != seen[name]:
            field = form.fields[name]
            label = field.label or name.replace("_", " ").capitalize()
            is_name_only = isinstance(field, ModelChoiceField)  # its values are ids, which say nothing
            yield f"{label} changed." if is_name_only else f"{label} was {_word(seen[name])} and is {_word(now[name])}."


def _forms(form: Any, formsets: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    yield "", form
    for formset in formsets:
        yield from ((f"{formset.prefix} {each.instance.pk}", each) for each in formset.initial_forms)


def _values(form: Any) -> dict[str, Any]:
    fields = ((name, field) for name, field in form.fields.items() if not isinstance(field.widget, PasswordInput))
    return {name: _plain(form.get_initial_for_field(field, name)) for name, field in fields}


def _plain(value: Any) -> Any:
    """Return ids for rows, and what JSON does not know as text."""
    if isinstance(value, Model):
        return str(value.pk)
    if isinstance(value, (list, tuple)):
        return sorted(str(_plain(each)) for each in value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "empty" if value in (None, "") else f"“{value}”"
