"""Query parameters of the APIs as django-filter's FilterSets: one syntax, one wording of errors and one OpenAPI description.

A ``FilteredView`` names its FilterSet as ``filterset_class``. What that filters is no queryset but a selection: a frozen
dataclass that says what to read. Its fields hold the defaults; ``self.select(selection)`` returns it with the values of the
request. So the reader of the data decides how to read: by an index seek, or from memory.

The same syntax holds for every parameter. A number is ASCII digits alone. A boolean is true, True or 1, or false, False or 0.
An empty value is refused, except where a filter allows it. Of a repeated parameter the last value counts. Unknown ones are
ignored.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

import django_filters
from django import forms
from django.db.models import QuerySet
from django.http import QueryDict
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema_field
from rest_framework.views import APIView

from gateway_project import errors

Selection = TypeVar("Selection")

BOOLEANS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}
_DIGITS_MAX = 100  # more are refused before they are converted, which takes quadratic time
_WHOLE_NUMBER = re.compile(rf"[0-9]{{1,{_DIGITS_MAX}}}")


class _Field(forms.Field):
    """The field of a parameter, whose ``parse`` gets its text. An absent parameter is None."""

    def __init__(self, *, parse: Callable[[str], Any], allow_empty: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._parse, self._allow_empty = parse, allow_empty

    def clean(self, value: Any) -> Any:
        if value is None:
            return None
        if value == "" and not self._allow_empty:
            raise forms.ValidationError("must not be empty")
        return self._parse(value)


class Parameter(django_filters.Filter):
    """Base class. ``attribute`` is the field of the selection, where it differs from the parameter; ``schema`` is OpenAPI's."""

    field_class = _Field

    def __init__(self, schema: dict[str, Any], *, description: str, attribute: str | None = None, **options: Any) -> None:
        super().__init__(attribute, label="", parse=self.parse, **options)
        self.schema = schema
        extend_schema_field({**schema, "description": description})(self)

    def parse(self, text: str) -> Any:
        """Return the value. Raises ValidationError."""
        raise NotImplementedError


def _with_default(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    return schema if default is None else {**schema, "default": default}


class WholeNumber(Parameter):
    def __init__(self, minimum: int, maximum: int | None, *, default: int | None = None, **options: Any) -> None:
        self._minimum, self._maximum = minimum, maximum
        schema = {"type": "integer", "minimum": minimum, **({} if maximum is None else {"maximum": maximum})}
        super().__init__(_with_default(schema, default), **options)

    def parse(self, text: str) -> int:
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) else None
        if number is None or number < self._minimum or (self._maximum is not None and number > self._maximum):
            bounds = f"of {self._minimum} or more" if self._maximum is None else f"between {self._minimum} and {self._maximum}"
            raise forms.ValidationError(f"must be an integer {bounds}")
        return number


class Boolean(Parameter):
    def __init__(self, **options: Any) -> None:
        super().__init__({"type": "boolean"}, **options)

    def parse(self, text: str) -> bool:
        value = BOOLEANS.get(text)
        if value is None:
            raise forms.ValidationError("must be true or false")
        return value


class Choice(Parameter):
    """One of a few words."""

    def __init__(self, choices: tuple[str, ...], *, default: str | None = None, **options: Any) -> None:
        schema = {"type": "string", "enum": [str(choice) for choice in choices]}
        super().__init__(_with_default(schema, None if default is None else str(default)), **options)

    def parse(self, text: str) -> str:
        if text not in self.schema["enum"]:
            raise forms.ValidationError(f"must be one of {', '.join(self.schema['enum'])}")
        return text


class Text(Parameter):
    def __init__(self, characters_max: int, *, allow_empty: bool = False, strip: bool = False, **options: Any) -> None:
        self._characters_max, self._strip = characters_max, strip
        bounds = {"minLength": 0 if allow_empty else 1, "maxLength": characters_max}
        super().__init__({"type": "string", **bounds, "pattern": r"^[^\x00]*$"}, allow_empty=allow_empty, **options)

    def parse(self, text: str) -> str:
        if len(text) > self._characters_max:
            raise forms.ValidationError(f"must have at most {self._characters_max} characters")
        if "\x00" in text:  # PostgreSQL has no text with it
            raise forms.ValidationError("must not contain NUL characters")
        return text.strip() if self._strip else text


class Time(Parameter):
    """A time that must state its offset from UTC, so that no time zone is guessed."""

    def __init__(self, **options: Any) -> None:
        super().__init__({"type": "string", "format": "date-time"}, **options)

    def parse(self, text: str) -> datetime:
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                raise forms.ValidationError("must say its offset from UTC: Z, or as +02:00 with the + written as %2B")
            return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            raise forms.ValidationError("must be an ISO 8601 time, as 2026-11-21T00:00:00Z") from None


# --- The set of an endpoint, and the backend --------------------------------------------------------------------------


class ParameterSet(django_filters.FilterSet):
    """The parameters of an endpoint. Its ``queryset`` is a selection, a frozen dataclass."""

    def __init__(self, data: Any = None, queryset: Any = None, *, request: Any = None, prefix: str | None = None) -> None:
        # The base class copies every filter for each request, which takes longer than all else here. None of them changes.
        self.is_bound, self.data, self.queryset = True, data or QueryDict(), queryset
        self.request, self.form_prefix, self.filters = request, prefix, self.base_filters

    def select(self) -> Any:
        """Return the selection with the values given. Raises InvalidRequest, which names the first parameter that is wrong."""
        for name, messages in self.form.errors.items():
            raise errors.wrong(name, str(messages[0]))
        given = {self.filters[name].field_name: value for name, value in self.form.cleaned_data.items() if value is not None}
        return replace(self.queryset, **given)

    def get_form_class(self) -> type[forms.Form]:
        parameters: Any = type(self)
        return form_class(parameters)


@cache
def form_class(parameters: Any) -> type[forms.Form]:
    """Return the form that checks the parameters. Cached, since building the class takes longer than the rest."""
    fields = {name: parameter.field_class(**parameter.extra) for name, parameter in parameters.base_filters.items()}
    return type(f"{parameters.__name__}Form", (parameters._meta.form,), fields)


class SelectionFilterBackend(DjangoFilterBackend):
    """django-filter's backend for a selection in place of a queryset."""

    def filter_queryset(self, request: Any, queryset: Any, view: Any) -> Any:
        return self.get_filterset(request, queryset, view).select()


class FilteredView(APIView):
    """A view whose parameters are those of ``filterset_class``. Its operation is described with ``filters=True``."""

    filter_backends = [SelectionFilterBackend]
    filterset_class: type[ParameterSet]
    queryset: QuerySet[Any]  # an empty one: drf-spectacular reads the model from it

    def select(self, selection: Selection) -> Selection:
        """Return the selection with the values of the request's parameters. Raises InvalidRequest."""
        for backend in self.filter_backends:
            selection = backend().filter_queryset(self.request, selection, self)
        return selection
