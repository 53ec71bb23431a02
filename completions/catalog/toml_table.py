"""Reading TOML strictly: every field once, of exactly its type, and no field that nobody asked for. Knows no catalog."""

import datetime
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Cleaned = TypeVar("Cleaned")
NEEDED: Any = object()
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction",
    str: "text",
    list: "a list",
    dict: "a table",
    datetime.date: "a date",
    datetime.datetime: "a date with a time",
    datetime.time: "a time",
}


def read(path: Path, errors: list[str]) -> "Table":
    """The whole of a file; an empty one if it cannot be read. Mistakes in it are added to ``errors``."""
    return Table(_parse(path, errors), file=path.name, name="", errors=errors)


def _parse(path: Path, errors: list[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        errors.append(f"{path}: {error.strerror or 'cannot be read'}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        errors.append(f"{path.name}: is not TOML: {error}")
    return {}


class Table:
    """One table of the file. Hands out its fields once, notes what is wrong with them, and finally what is left over.

    A field that is wrong is handed out as None: there is an error then, and nothing will be written.
    """

    def __init__(
        self, values: dict[str, Any], *, file: str, name: str, errors: list[str], key: str = "", prefix: str = ""
    ) -> None:
        self.key = key
        self._values = dict(values)
        self._file, self._name, self._prefix, self._errors = file, name, prefix, errors
        self._fields: list[str] = []

    def note(self, field: str, problem: str) -> None:
        where = f"{self._prefix}.{field}".strip(".") if self._prefix else field
        parts = [f"{self._file}:", f"[{self._name}]" if self._name else "", f"{where}:" if where else "", problem]
        self._errors.append(" ".join(filter(None, parts)))

    def has(self, field: str) -> bool:
        return field in self._values

    def has_number(self, field: str) -> bool:
        return type(self._values.get(field)) in {int, float}

    def number(self, field: str) -> Any:
        """A number of either kind, where there is one."""
        return self.take(field, type(self._values[field]))

    def take(self, field: str, kind: type, *, default: Any = NEEDED) -> Any:
        """The value of exactly this type: ``true`` is not a whole number, and a date is not a date with a time."""
        self._fields.append(field)
        if field not in self._values:
            if default is NEEDED:
                self.note(field, "is missing")
            return None if default is NEEDED else default
        value = self._values.pop(field)
        if type(value) is not kind:
            self.note(field, f"must be {_KINDS[kind]}, not {_KINDS[type(value)]}")
            return None
        return value

    def text(self, field: str, *, characters_max: int, default: Any = NEEDED) -> str | None:
        value: str | None = self.take(field, str, default=default)
        if value is None or (value.isprintable() and value == value.strip() and 1 <= len(value) <= characters_max):
            return value
        self.note(field, f"must have 1-{characters_max} printable characters, and no space at its ends")
        return None

    def integer(self, field: str, *, maximum: int, default: Any = NEEDED) -> Any:
        value = self.take(field, int, default=default)
        if value is not None and not 1 <= value <= maximum:
            self.note(field, f"{value} is not between 1 and {maximum}")
        return value

    def choice(self, field: str, choices: list[str], *, default: Any = NEEDED) -> Any:
        value = self.take(field, str, default=default)
        if value is not None and value not in choices:
            self.note(field, f"{value!r} is not one of {', '.join(choices)}")
        return value

    def checked(self, field: str, clean: "Callable[[str], Cleaned]", *, default: Any = NEEDED) -> "Cleaned | None":
        """What ``clean`` makes of the text; it raises ValueError for what it does not accept."""
        value = self.take(field, str, default=default)
        try:
            return None if value is None else clean(value)
        except ValueError as error:
            self.note(field, str(error))
        return None

    def table(self, field: str, *, default: Any = NEEDED) -> "Table":
        """A table in this table. If it is none, that is said once: what would be missing in it is not."""
        values = self.take(field, dict, default=default)
        errors = [] if values is None else self._errors
        name, prefix = (self._name, field) if self._name else (field, "")
        return Table(values or {}, file=self._file, name=name, errors=errors, prefix=prefix)

    def tables(self, field: str) -> "list[Table]":
        """The named tables in a table, such as every [providers.name]."""
        return [
            Table(values, file=self._file, name=f"{field}.{_toml_key(key)}", errors=self._errors, key=key)
            for key, values in (self.take(field, dict, default={}) or {}).items()
            if self._is_table(values, f"{field}.{_toml_key(key)}")
        ]

    def rows(self, field: str) -> "list[Table]":
        """The tables in a list."""
        return [
            Table(values, file=self._file, name=self._name, errors=self._errors, prefix=f"{field}[{index}]")
            for index, values in enumerate(self.take(field, list, default=[]) or [])
            if self._is_table(values, f"{field}[{index}]")
        ]

    def _is_table(self, values: object, where: str) -> bool:
        if not isinstance(values, dict):
            self.note(where, "must be a table")
        return isinstance(values, dict)

    def finish(self) -> None:
        for left_over in self._values:
            self.note(left_over, f"is not known here; known are {', '.join(self._fields)}")


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"'
