"""Query parameters of the APIs as django-filter's FilterSets: one syntax, one wording of errors and one OpenAPI description.

A ``FilteredView`` names its FilterSet as ``filterset_class``. That filters no queryset but a selection: a frozen
dataclass that says what to read. Its fields hold the defaults; ``self.select(selection)`` returns it with the values of the
request. So the reader of the data decides how to read: by an index seek, or from memory.

A number is ASCII digits alone. A boolean is true, True or 1, or false, False or 0. An empty value is refused, except where a
filter allows it. Of a repeated parameter the last value counts. Unknown ones are ignored.
"""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import django_filters
from django.core.exceptions import ValidationError
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


class Parameter(django_filters.Filter):
    """``attribute`` is the field of the selection, where it differs from the parameter; ``schema`` is OpenAPI's."""

    def __init__(
        self,
        schema: dict[str, Any],
        *,
        description: str,
        attribute: str | None = None,
        allow_empty: bool = False,
        default: Any = None,
    ) -> None:
        super().__init__(attribute, label="")
        self.schema, self._allow_empty = schema | ({} if default is None else {"default": default}), allow_empty
        extend_schema_field({**self.schema, "description": description})(self)

    def read(self, text: str) -> Any:
        if text == "" and not self._allow_empty:
            raise ValidationError("must not be empty")
        return self.parse(text)

    def parse(self, text: str) -> Any:
        raise NotImplementedError


class WholeNumber(Parameter):
    def __init__(self, minimum: int, maximum: int | None, **options: Any) -> None:
        self._minimum, self._maximum = minimum, maximum
        bounds = {"minimum": minimum} if maximum is None else {"minimum": minimum, "maximum": maximum}
        super().__init__({"type": "integer", **bounds}, **options)

    def parse(self, text: str) -> int:
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) else None
        if number is None or number < self._minimum or (self._maximum is not None and number > self._maximum):
            bounds = f"of {self._minimum} or more" if self._maximum is None else f"between {self._minimum} and {self._maximum}"
            raise ValidationError(f"must be an integer {bounds}")
        return number


class Boolean(Parameter):
    def __init__(self, **options: Any) -> None:
        super().__init__({"type": "boolean"}, **options)

    def parse(self, text: str) -> bool:
        value = BOOLEANS.get(text)
        if value is None:
            raise ValidationError("must be true or false")
        return value


class Choice(Parameter):
    def __init__(self, choices: tuple[str, ...], **options: Any) -> None:
        super().__init__({"type": "string", "enum": [str(choice) for choice in choices]}, **options)

    def parse(self, text: str) -> str:
        if text not in self.schema["enum"]:
            raise ValidationError(f"must be one of {', '.join(self.schema['enum'])}")
        return text


class Text(Parameter):
    def __init__(self, characters_max: int, *, allow_empty: bool = False, strip: bool = False, **options: Any) -> None:
        self._characters_max, self._strip = characters_max, strip
        bounds = {"minLength": 0 if allow_empty else 1, "maxLength": characters_max}
        super().__init__({"type": "string", **bounds, "pattern": r"^[^\x00]*$"}, allow_empty=allow_empty, **options)

    def parse(self, text: str) -> str:
        if len(text) > self._characters_max:
            raise ValidationError(f"must have at most {self._characters_max} characters")
        if "\x00" in text:  # PostgreSQL has no text with it
            raise ValidationError("must not contain NUL characters")
        return text.strip() if self._strip else text


class Time(Parameter):
    """A time that must state its offset from UTC, so that no time zone is guessed."""

    def __init__(self, **options: Any) -> None:
        super().__init__({"type": "string", "format": "date-time"}, **options)

    def parse(self, text: str) -> datetime:
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                raise ValidationError("must say its offset from UTC: Z, or as +02:00 with the + written as %2B")
            return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            raise ValidationError("must be an ISO 8601 time, as 2026-11-21T00:00:00Z") from None


class ParameterSet(django_filters.FilterSet):
    """The parameters of an endpoint, which it reads by itself: a form would take longer than all else here."""

    @classmethod
    def select(cls, selection: Selection, given: QueryDict) -> Selection:
        """Return the selection with the values given. Raises InvalidRequest, which names the first parameter that is wrong."""
        values = {}
        for name, parameter in cls.base_filters.items():
            if (text := given.get(name)) is not None:
                try:
                    values[parameter.field_name] = parameter.read(text)
                except ValidationError as error:
                    raise errors.wrong(name, error.messages[0]) from None
        return replace(selection, **values)  # type: ignore[type-var]  # it is a dataclass


class FilteredView(APIView):
    """A view whose parameters are those of ``filterset_class``. Its operation is described with ``filters=True``."""

    filter_backends = [DjangoFilterBackend]  # by which drf-spectacular finds the parameters
    filterset_class: type[ParameterSet]
    queryset: QuerySet[Any]  # an empty one: drf-spectacular reads the model from it

    def select(self, selection: Selection) -> Selection:
        return self.filterset_class.select(selection, self.request.query_params)
