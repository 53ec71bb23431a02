"""The page behind the search box, whose address is a contract for scripts: ``GET /admin/search/?q=...``."""

from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from gateway_project.desk import search


@require_http_methods(["GET", "POST"])
def search_page(request: HttpRequest) -> HttpResponse:
    """Lead to what was found, or list it. The box posts its term, so that a secret never gets into an address."""
    if request.method == "POST":
        return redirect(_address(search.conceal(request.POST.get("q", ""))))
    given = request.GET.get("q", "")
    term = search.conceal(given).strip()
    found = search.find(request, term)
    if len(found) == 1:
        return redirect(found[0].address)
    if term != given.strip():
        return redirect(_address(term))
    context = {
        **admin.site.each_context(request),
        "title": "Search",
        "searched": term,
        "found": found[: search.FOUND_MAX],
        "has_more": len(found) > search.FOUND_MAX,
        "terms": [each.terms for each in search.finders() if each.terms and each.may_be_used(request)],
    }
    return TemplateResponse(request, "admin/search.html", context)


def _address(term: str) -> str:
    return f"{reverse('admin:search')}?{urlencode({'q': term})}"
