"""Form fields of numbers and dates. Unlike Django's they refuse what few people write: "1_0", and digits of other scripts."""

from typing import Any

from django import forms
from django.db import models


class _AsciiDigits:
    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and ("_" in value or not value.isascii()):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")  # type: ignore[attr-defined]
        return super().to_python(value)  # type: ignore[misc]


class IntegerField(_AsciiDigits, forms.IntegerField): ...


class FloatField(_AsciiDigits, forms.FloatField): ...


class DecimalField(_AsciiDigits, forms.DecimalField): ...


class DateField(_AsciiDigits, forms.DateField): ...


class DateTimeField(_AsciiDigits, forms.DateTimeField): ...


class SplitDateTimeField(forms.SplitDateTimeField):
    """A day and a time, each in a field of its own, as the admin has them."""

    def clean(self, value: Any) -> Any:
        if isinstance(value, list | tuple) and not all(str(part).isascii() for part in value):
            raise forms.ValidationError(self.error_messages["invalid_date"], code="invalid_date")
        return super().clean(value)


# For ``formfield_overrides`` of an admin.
OF_COLUMNS: "dict[type[models.Field[Any, Any]], dict[str, Any]]" = {
    models.IntegerField: {"form_class": IntegerField},
    models.FloatField: {"form_class": FloatField},
    models.DecimalField: {"form_class": DecimalField},
    models.DateField: {"form_class": DateField},
    models.DateTimeField: {"form_class": SplitDateTimeField},
}
