"""The cell whose lists staff see. While there is one cell, pages say nothing of it.

The page of an object is found in whichever cell it is, and the search looks everywhere.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from gateway_project.db import cell

_COOKIE = "cell"


def enter(request: HttpRequest) -> None:
    """Enter the cell that the user has chosen; without a choice the first in which accounts are opened."""
    if cell.are_several():
        given = request.COOKIES.get(_COOKIE, "")
        chosen = int(given) if given.isascii() and given.isdigit() and len(given) < 6 else None
        cell.enter(chosen if chosen in cell.numbers() else cell.open_numbers()[0])


def context() -> dict[str, Any]:
    """Return what the header of each page shows: nothing, or the cells and which of them it is."""
    return {"cells": cell.numbers(), "cell": cell.current()} if cell.are_several() else {}


@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Show the lists of another cell from now on, on the page where that was chosen."""
    back = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(back, allowed_hosts=None)
    response = HttpResponseRedirect(back if is_ours else reverse("admin:index"))
    response.set_cookie(_COOKIE, request.POST.get("cell", "")[:5], samesite="Lax", httponly=True, secure=request.is_secure())
    return response
