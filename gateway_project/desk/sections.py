"""The sections of an account's page in the admin. Each app adds those of its own.

A section runs a fixed number of queries, each of which reads an index, however many rows the account has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from gateway_project import app_config


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


def declared() -> list[Section]:
    sections = (section for app in app_config.installed() for section in app.desk().sections)
    return sorted(sections, key=lambda section: section.place)


def read(request: HttpRequest, account: Any) -> list[tuple[Section, dict[str, Any]]]:
    """Return the user's sections with their content."""
    shown = [section for section in declared() if request.user.has_perm(section.permission)]
    return [(section, section.read(request, account)) for section in shown]
