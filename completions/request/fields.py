"""Readers for the fields of a request body, the only ones there are. Each returns a typed value or raises InvalidRequest. Pure.

``read_*`` and ``require_*`` take an object, the name of a field in it, and the path of the object ("" for the body itself).
They treat a null as absent, as OpenAI's clients expect, and ``require_*`` refuse it. ``check_*`` take a value and its path, and
return the value with its type. ``read_limit`` reads the query of a list. The ``param`` of InvalidRequest is the path of the
field, such as ``tools[0].function.name``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NoReturn

from gateway_project import errors

Fields = dict[str, Any]

NAME_PATTERN = "[a-zA-Z0-9_.:-]{1,128}"
_NAME = re.compile(NAME_PATTERN)


def refuse(path: str, reason: str, *, quotes_request: bool = False) -> NoReturn:
    """Raise InvalidRequest about a field. ``reason`` continues the path. ``quotes_request``: the caller chose some of it."""
    raise errors.wrong(path, reason, quotes_request=quotes_request)


def check_object(value: Any, path: str) -> Fields:
    if not isinstance(value, dict):
        refuse(path, "must be an object")
    return value


def check_array(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        refuse(path, "must be an array")
    return value


def check_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        refuse(path, "must be a string")
    return value


def check_name(value: Any, path: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        refuse(path, "must have 1 to 128 letters, digits, underscores, hyphens, dots or colons")
    return value


def check_members(fields: Fields, known: Set[str], path: str = "") -> None:
    """Refuse every member that is not known, by its name. A null is absent."""
    for name, value in fields.items():
        if name not in known and value is not None:
            refuse(_join(path, name[:64]), "is not supported", quotes_request=True)


def read_limit(parameters: Mapping[str, str], default: int, maximum: int) -> int:
    """Return the query parameter ``limit``: how many items of a list are asked for."""
    given = parameters.get("limit", str(default))
    if not (given.isascii() and given.isdigit() and len(given) <= 4 and 1 <= int(given) <= maximum):
        refuse("limit", f"must be a whole number from 1 to {maximum}")
    return int(given)


def check_kind(value: Any, path: str, kinds: Iterable[str]) -> str:
    """Return the type of an object, such as a block of a message, which must be one of these."""
    kind = read_required(check_object(value, path), "type", path)
    if not isinstance(kind, str) or kind not in kinds:
        refuse(f"{path}.type", f"must be one of {', '.join(kinds)}")
    return kind


def numbered(values: Iterable[Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield each value of an array with its path."""
    return ((f"{path}[{index}]", value) for index, value in enumerate(values))


def read_required(fields: Fields, name: str, path: str = "") -> Any:
    value = fields.get(name)
    if value is None:
        refuse(_join(path, name), "is required")
    return value


def require_object(fields: Fields, name: str, path: str = "") -> Fields:
    return check_object(read_required(fields, name, path), _join(path, name))


def require_array(fields: Fields, name: str, path: str = "") -> list[Any]:
    return check_array(read_required(fields, name, path), _join(path, name))


def require_string(fields: Fields, name: str, path: str = "") -> str:
    return check_string(read_required(fields, name, path), _join(path, name))


def require_name(fields: Fields, name: str, path: str = "") -> str:
    return check_name(read_required(fields, name, path), _join(path, name))


def read_integer(fields: Fields, name: str, minimum: int, maximum: int, path: str = "") -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not int:  # True is an int to Python
        refuse(_join(path, name), "must be an integer")
    if not minimum <= value <= maximum:
        refuse(_join(path, name), f"must be between {minimum} and {maximum}")
    return int(value)


def read_number(fields: Fields, name: str, minimum: int, maximum: int) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) not in (int, float):  # True is an int to Python
        refuse(name, "must be a number")
    if not minimum <= value <= maximum:
        refuse(name, f"must be between {minimum}.0 and {maximum}.0")
    return float(value)


def read_choice(fields: Fields, name: str, choices: tuple[str, ...], path: str = "") -> str | None:
    value = fields.get(name)
    if value is not None and value not in choices:
        refuse(_join(path, name), f"must be one of {', '.join(choices)}")
    return value


def read_boolean(fields: Fields, name: str, path: str = "") -> bool:
    """Return False when the field is absent."""
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        refuse(_join(path, name), "must be true or false")
    return value


def read_string(fields: Fields, name: str, path: str = "") -> str:
    """Return an empty string when the field is absent."""
    value = fields.get(name)
    return "" if value is None else check_string(value, _join(path, name))


def read_array(fields: Fields, name: str, path: str = "") -> list[Any]:
    """Return an empty array when the field is absent."""
    value = fields.get(name)
    return [] if value is None else check_array(value, _join(path, name))


def read_object(fields: Fields, name: str, path: str = "") -> Fields:
    """Return an empty object when the field is absent."""
    value = fields.get(name)
    return {} if value is None else check_object(value, _join(path, name))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
