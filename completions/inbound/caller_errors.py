"""Errors about a chat request, and headers about its fields, in the names of the caller's own fields. Pure."""

import copy
from collections.abc import Callable, Mapping

from gateway_project import errors

Rename = Callable[[str], str]  # the path of a field in the chat request -> the caller's name of it


def renamed(error: errors.ApiError, rename: Rename) -> errors.ApiError:
    """Return the error with the caller's name of its field: in its ``param``, and at the beginning of its message."""
    if error.param is None or (param := rename(error.param)) == error.param:
        return error
    renamed = copy.copy(error)  # refusals are cached, for other languages too
    if error.message.startswith(error.param):
        renamed.message = param + error.message[len(error.param) :]
    renamed.param = param
    return renamed


def rename_list(names: str, rename: Rename) -> str:
    """Return the value of a header that lists fields, each once: two of the chat request may be one of the caller's."""
    return ", ".join(dict.fromkeys(rename(name) for name in names.split(", ")))


def rename_beginning(path: str, names: Mapping[str, str]) -> str:
    """Return the path with its beginning renamed: the first of ``names`` that is a field on the way to it. Else the path."""
    for ours, theirs in names.items():
        if path == ours or path.startswith((f"{ours}.", f"{ours}[")):
            return theirs + path[len(ours) :]
    return path
