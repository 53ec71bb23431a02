"""Serializer fields that only describe: what they are in the OpenAPI document, where REST framework has no field for it."""

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

Described = type[serializers.Serializer[Any]]


class SchemaField(serializers.JSONField):
    def __init__(self, json_schema: Any, **options: Any) -> None:
        super().__init__(**options)
        described: Any = self
        extend_schema_field(json_schema)(described)


class Constant(SchemaField):
    def __init__(self, value: str, **options: Any) -> None:
        self.value = value
        super().__init__({"type": "string", "const": value}, **{"help_text": f"Always {value}.", **options})


class OneOf(SchemaField):
    """One of several objects, which their ``type`` tells apart. The choice is a component of its own, under ``name``."""

    def __init__(self, name: str, choices: Sequence[Described], **options: Any) -> None:
        super().__init__(one_of(name, choices), **options)


def one_of(name: str, choices: Sequence[Described]) -> PolymorphicProxySerializer:
    """Return the description of an object that is one of several, by its constant ``type``, for ``extend_schema``."""
    described: Any = choices
    by_type = {choice._declared_fields["type"].value: choice for choice in described}
    return PolymorphicProxySerializer(component_name=name, serializers=by_type, resource_type_field_name="type")


def optional(field: type[serializers.Field[Any, Any, Any, Any]], *arguments: Any, **options: Any) -> Any:
    return field(*arguments, required=False, allow_null=True, **options)


class TextOr(serializers.Field[Any, Any, Any, Any]):
    def __init__(self, other: serializers.Field[Any, Any, Any, Any], **options: Any) -> None:
        super().__init__(**options)
        self.other = other
