"""The search of the support desk: what one term finds, of all that a member of the staff may view.

Every finder reads an index, because the tables are large. A secret may be pasted. It is replaced by the public id in it before
anything else reads the term.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_http_methods

from gateway_project import app_config
from gateway_project.activity import list_values
from gateway_project.db import cell, everywhere
from gateway_project.db.owned import OwnedModel

FOUND_MAX = 20
TERM_CHARACTERS_MAX = 300
# The planner would read a whole table where it takes a BRIN index to exclude nothing, or a word to be in most names.
NO_SEQUENTIAL_SCANS = "SET LOCAL enable_seqscan = off"


@dataclass(frozen=True)
class Finder:
    """Finds the rows of one model. ``find`` returns a queryset that reads an index, empty for a term of another shape.

    ``terms`` says in words what may be searched for; empty if another finder of the model says it. ``describe`` returns what
    tells a row from others. ``is_last_resort`` is for rows that lead to others, which are found by the same term: such a finder
    is asked only when nothing else was found. ``conceal`` replaces secrets in a text. ``address`` returns the page of a row.
    """

    model: type[Model]
    find: Callable[[str], QuerySet[Any]]
    describe: Callable[[Any], str]
    terms: str = ""
    is_last_resort: bool = False
    conceal: Callable[[str], str] = str
    address: Callable[[Any], str] = list_values.page_of

    def may_be_used(self, request: HttpRequest) -> bool:
        return admin.site.get_model_admin(self.model).has_view_permission(request)


@dataclass(frozen=True)
class Found:
    kind: str
    name: str
    description: str
    address: str


def finders() -> list[Finder]:
    return [finder for app in app_config.installed() for finder in app.desk().finders]


def conceal(text: str) -> str:
    """Replace each secret in a term or an address by its public part."""
    for finder in finders():
        text = finder.conceal(text)
    return text


def find(request: HttpRequest, term: str) -> list[Found]:
    """Return the matching rows that the user may view: up to FOUND_MAX, and one more if there are more."""
    term = conceal(term).strip()
    if not term or len(term) > TERM_CHARACTERS_MAX or not term.isprintable():
        return []
    usable = [finder for finder in finders() if finder.may_be_used(request)]
    found = _find_everywhere([each for each in usable if not each.is_last_resort], term)
    return found or _find_everywhere([each for each in usable if each.is_last_resort], term)


def _find_everywhere(usable: list[Finder], term: str) -> list[Found]:
    found: dict[str, Found] = {}
    for of_cell in everywhere.run(lambda: _find_in_cell(usable, term), may_miss=True):
        found |= {each.address: each for each in of_cell}
    return list(found.values())[: FOUND_MAX + 1]


def _find_in_cell(usable: list[Finder], term: str) -> list[Found]:
    """Return what is found of the current cell; in the first, also of what all cells share."""
    if cell.current() != cell.FIRST:
        usable = [finder for finder in usable if issubclass(finder.model, OwnedModel)]
    with transaction.atomic():
        cell.execute(NO_SEQUENTIAL_SCANS)
        return list(islice(_rows(usable, term), FOUND_MAX + 1))


def _rows(asked: list[Finder], term: str) -> Iterator[Found]:
    """Yield each row that is found once, though several finders may find it."""
    seen = set()
    for finder in asked:
        for row in finder.find(term)[: FOUND_MAX + 1]:
            found = Found(capfirst(str(row._meta.verbose_name)), str(row), finder.describe(row), finder.address(row))
            if found.address not in seen:
                seen.add(found.address)
                yield found


@require_http_methods(["GET", "POST"])
def search_page(request: HttpRequest) -> HttpResponse:
    """Lead to what was found, or list it. The box posts its term, so that a secret never gets into an address.

    That address is a contract for scripts: ``GET /admin/search/?q=...``.
    """
    if request.method == "POST":
        return redirect(_address(conceal(request.POST.get("q", ""))))
    given = request.GET.get("q", "")
    term = conceal(given).strip()
    found = find(request, term)
    if len(found) == 1:
        return redirect(found[0].address)
    if term != given.strip():
        return redirect(_address(term))
    context = {
        **admin.site.each_context(request),
        "title": "Search",
        "searched": term,
        "found": found[:FOUND_MAX],
        "has_more": len(found) > FOUND_MAX,
        "terms": [each.terms for each in finders() if each.terms and each.may_be_used(request)],
    }
    return TemplateResponse(request, "admin/search.html", context)


def _address(term: str) -> str:
    return f"{reverse('admin:search')}?{urlencode({'q': term})}"
