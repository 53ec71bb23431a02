"""What callers give, read: each function returns a value of its type, or refuses it by its name. Pure.

A null counts as absent.
"""

from typing import Any

from gateway_project import errors

Fields = dict[str, Any]


def one_of(holder: Fields, name: str, allowed: tuple[str, ...], path: str = "") -> str:
    value = holder.get(name)
    if not isinstance(value, str) or value not in allowed:
        raise errors.wrong(f"{path}{name}", f"must be one of {', '.join(allowed)} for this model")
    return value


def text(holder: Fields, name: str, path: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str):
        raise errors.wrong(f"{path}{name}", "must be a string")
    return value


def table(holder: Fields, name: str, path: str = "") -> Fields:
    value = holder.get(name)
    if not isinstance(value, dict):
        raise errors.wrong(f"{path}{name}", "must be an object")
    return value


def tables(holder: Fields, name: str, path: str = "") -> list[tuple[str, Fields]]:
    """The objects of an array, each behind its path: ``tools[0].``"""
    value = holder.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise errors.wrong(f"{path}{name}", "must be an array")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise errors.wrong(f"{path}{name}[{index}]", "must be an object")
    return [(f"{path}{name}[{index}].", item) for index, item in enumerate(value)]
