"""The sections of an account's page in the admin. Each app adds those of its own.

An app with sections has a module ``desk.sections`` with a list SECTIONS. A section runs a fixed number of queries, each of
which reads an index, however many rows the account has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from django.apps import apps
from django.http import HttpRequest
from django.utils.module_loading import module_has_submodule


@dataclass(frozen=True)
class Section:
    """A part of the page, which those with ``permission`` see. Sections are shown in the order of ``place``.

    ``read`` returns the context of the ``template``, as plain values. ``name`` is the section's anchor.
    """

    place: int
    name: str
    title: str
    permission: str
    template: str
    read: Callable[[HttpRequest, Any], dict[str, Any]]


@dataclass(frozen=True)
class ShownSection:
    """A section with what it shows."""

    name: str
    title: str
    template: str
    content: dict[str, Any]


def declared() -> list[Section]:
    """Return the sections of all apps in their order."""
    packages = [import_module(f"{app.name}.desk") for app in apps.get_app_configs() if module_has_submodule(app.module, "desk")]
    modules = [import_module(f"{each.__name__}.sections") for each in packages if module_has_submodule(each, "sections")]
    return sorted(
        (section for module in modules for section in getattr(module, "SECTIONS", [])), key=lambda section: section.place
    )


def read(request: HttpRequest, account: Any) -> list[ShownSection]:
    """Read the sections that the user may see."""
    return [
        ShownSection(section.name, section.title, section.template, section.read(request, account))
        for section in declared()
        if request.user.has_perm(section.permission)
    ]
