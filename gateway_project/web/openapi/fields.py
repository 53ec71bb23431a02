"""Serializers that only describe, and their fields: what they are in the OpenAPI document. Each says first what it is for."""

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field, extend_schema_serializer
from rest_framework import serializers

Shape = serializers.Serializer[Any]
Described = type[Shape]


def shape(name: str, base: Described = Shape, about: str = "", /, **fields: Any) -> Described:
    """Return a small serializer, which is a component of this name in the document, with the fields of ``base`` first."""
    made: Any = serializers.SerializerMetaclass(name, (base,), {**fields, "__module__": __name__})
    described: Described = extend_schema_serializer(description=about)(made) if about else made
    return described


def variant(name: str, kind: str, base: Described = Shape, about: str = "", /, **fields: Any) -> Described:
    """Return a shape whose ``type`` is always ``kind``, for ``one_of``."""
    return shape(name, shape(name, base, type=Constant(kind)), about, **fields)


def component_name(kind: str) -> str:
    """Return the name of a shape after its type: MessageStart of message_start."""
    return kind.title().replace("_", "").replace(".", "")


class _SaysFirst:
    def __init__(self, help_text: str | None = None, **options: Any) -> None:
        super().__init__(help_text=help_text, **options)  # type: ignore[call-arg]  # of REST framework's field


class Text(_SaysFirst, serializers.CharField): ...


class Flag(_SaysFirst, serializers.BooleanField): ...


class Moment(_SaysFirst, serializers.DateTimeField): ...


class _Bounded(_SaysFirst):
    """A number that may be said to be from ``min_value`` to ``max_value``."""

    def __init__(
        self, help_text: str | None = None, min_value: float | None = None, max_value: float | None = None, **options: Any
    ) -> None:
        super().__init__(help_text, min_value=min_value, max_value=max_value, **options)


class Number(_Bounded, serializers.FloatField): ...


class Integer(_Bounded, serializers.IntegerField): ...


class Count(Integer):
    """An integer from 0."""

    def __init__(self, help_text: str | None = None, **options: Any) -> None:
        super().__init__(help_text, min_value=0, **options)


class Choice(serializers.ChoiceField):
    def __init__(self, choices: Any, help_text: str, **options: Any) -> None:
        super().__init__(choices, help_text=help_text, **options)


class Array(serializers.ListField):
    def __init__(self, child: serializers.Field[Any, Any, Any, Any], help_text: str | None = None, **options: Any) -> None:
        super().__init__(child=child, help_text=help_text, **options)


class SchemaField(serializers.JSONField):
    """A field described by ``json_schema``, where REST framework has none for it."""

    def __init__(self, json_schema: Any, help_text: str | None = None, **options: Any) -> None:
        super().__init__(help_text=help_text, **options)
        described: Any = self
        extend_schema_field(json_schema)(described)


class AnyObject(SchemaField):
    def __init__(self, help_text: str | None = None, **options: Any) -> None:
        super().__init__({"type": "object", "additionalProperties": True}, help_text, **options)


class Constant(SchemaField):
    def __init__(self, value: str) -> None:
        self.value = value
        super().__init__({"type": "string", "const": value}, f"Always {value}.")


class OneOf(SchemaField):
    """One of several objects, which their ``type`` tells apart. The choice is a component of its own, under ``name``."""

    def __init__(self, name: str, choices: Sequence[Described], help_text: str | None = None, **options: Any) -> None:
        super().__init__(one_of(name, choices), help_text, **options)


def one_of(name: str, choices: Sequence[Described]) -> PolymorphicProxySerializer:
    """Return the description of an object that is one of several, by its constant ``type``, for ``extend_schema``."""
    described: Any = choices
    by_type = {choice._declared_fields["type"].value: choice for choice in described}
    return PolymorphicProxySerializer(component_name=name, serializers=by_type, resource_type_field_name="type")


def optional(field: type[serializers.Field[Any, Any, Any, Any]], *arguments: Any, **options: Any) -> Any:
    return field(*arguments, required=False, allow_null=True, **options)


class TextOr(serializers.Field[Any, Any, Any, Any]):
    def __init__(self, other: serializers.Field[Any, Any, Any, Any], help_text: str, **options: Any) -> None:
        super().__init__(help_text=help_text, **options)
        self.other = other
