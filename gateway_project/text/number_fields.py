"""Form fields of numbers. Unlike Django's they refuse what few people write: "1_0", and digits of other scripts."""

from typing import Any

from django import forms
from django.db import models


class _AsciiNumber:
    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and ("_" in value or not value.isascii()):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")  # type: ignore[attr-defined]
        return super().to_python(value)  # type: ignore[misc]


class IntegerField(_AsciiNumber, forms.IntegerField):
    pass


class FloatField(_AsciiNumber, forms.FloatField):
    pass


class DecimalField(_AsciiNumber, forms.DecimalField):
    pass


# For ``formfield_overrides`` of an admin.
OF_COLUMNS: "dict[type[models.Field[Any, Any]], dict[str, Any]]" = {
    models.IntegerField: {"form_class": IntegerField},
    models.FloatField: {"form_class": FloatField},
    models.DecimalField: {"form_class": DecimalField},
}
