"""Fields of a request body, read one by one: a value of its type, or InvalidRequest whose ``param`` is its path. Pure.

Those that take ``fields`` and a name find nothing in a null, as OpenAI's clients expect; ``within`` is the path that they are
in, with its dot. Those that take a value and its path want one.
"""

import math
import re
from typing import Any, NoReturn

from gateway_project import errors

Fields = dict[str, Any]

_NAME = re.compile(r"[a-zA-Z0-9_.:-]{1,128}")


def refuse(param: str, what: str) -> NoReturn:
    """Raise InvalidRequest about one field."""
    raise errors.wrong(param, what)


# --- What must be there ---------------------------------------------------------------------------------------------


def required(fields: Fields, name: str, path: str = "") -> Any:
    value = fields.get(name)
    if value is None:
        refuse(f"{path}.{name}" if path else name, "is required")
    return value


def an_object(value: Any, path: str) -> Fields:
    if not isinstance(value, dict):
        refuse(path, "must be an object")
    return value


def an_array(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        refuse(path, "must be an array")
    return value


def a_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        refuse(path, "must be a string")
    return value


def a_name(value: Any, path: str) -> str:
    """Of a function or a schema."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        refuse(path, "must have 1 to 128 letters, digits, underscores, hyphens, dots or colons")
    return value


# --- What may be there ----------------------------------------------------------------------------------------------


def integer(fields: Fields, name: str, minimum: int, maximum: int) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not int:  # True is an int to Python
        refuse(name, "must be an integer")
    if not minimum <= value <= maximum:
        refuse(name, f"must be between {minimum} and {maximum}")
    return int(value)


def check_number(fields: Fields, name: str, minimum: int, maximum: int) -> None:
    value = fields.get(name)
    if value is None:
        return
    if type(value) not in (int, float) or not math.isfinite(value):
        refuse(name, "must be a number")
    if not minimum <= value <= maximum:
        refuse(name, f"must be between {minimum}.0 and {maximum}.0")


def check_choice(fields: Fields, name: str, choices: tuple[str, ...]) -> None:
    if fields.get(name) is not None and fields[name] not in choices:
        refuse(name, f"must be one of {', '.join(choices)}")


def boolean(fields: Fields, name: str, within: str = "") -> bool:
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        refuse(within + name, "must be true or false")
    return value


def table(fields: Fields, name: str, within: str = "") -> Fields:
    """An object; empty when there is none."""
    value = fields.get(name)
    return {} if value is None else an_object(value, within + name)
