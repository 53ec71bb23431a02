"""The views of the public pages. Each renders from ``facts`` what ``public_page`` has not kept."""

import functools
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from completions.public import facts, selection
from completions.public.selection import Selection
from gateway_project import errors
from gateway_project.db import pool
from gateway_project.web import error_handlers, hosts, public_page, wrong_paths

View = Callable[..., HttpResponseBase]


def _public(view: View) -> View:
    """Reply with 503 when nothing was read before the database went away."""

    @require_safe
    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except pool.DATABASE_ERRORS:
            return error_handlers.respond(request, errors.ServiceUnavailable("The models are unavailable right now."))

    return page


def _to_people(view: View) -> View:
    """Refuse a request that carries an API key: its client lacks /v1 in its base URL, and would take a page for a reply."""

    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.headers.keys() & {"Authorization", "X-Api-Key"}:
            return error_handlers.respond(request, errors.PathNotFound(wrong_paths.message(request)))
        return view(request, *args, **kwargs)

    return page


@_public
def landing(request: HttpRequest) -> HttpResponseBase:
    """Say what the gateway is, with its own figures and a first request."""
    api_url = hosts.api_url(request)

    def render() -> str:
        current = facts.current()
        is_sign_up_open = settings.SIGN_UP and settings.SENDS_MAIL
        context = {"facts": current, "model_id": current.example, "api_url": api_url, "is_sign_up_open": is_sign_up_open}
        return render_to_string("public/landing.html", context)

    return public_page.respond(request, ("landing", api_url), render)


@_public
@_to_people
def model_list(request: HttpRequest) -> HttpResponseBase:
    """List the models that the parameters select. A form's empty fields lead to the shorter address of the same list."""
    chosen = selection.read(request.GET)
    if request.GET.urlencode() != chosen.query_string:
        query = chosen.query_string
        return redirect(f"{reverse('models')}?{query}" if query else reverse("models"))
    is_offered = not chosen.search and chosen.maker in {"", *_makers()}  # of other words there is no end
    return public_page.respond(request, ("models", chosen) if is_offered else None, functools.partial(_render_list, chosen))


def _render_list(chosen: Selection) -> str:
    listed = facts.current().models.values()
    context = {
        "chosen": chosen,
        "models": selection.apply(chosen, listed),
        "number": len(listed),
        "makers": sorted(_makers(), key=str.casefold),
        "sorts": selection.SORTS,
        "filters": [(name, words, name in chosen.filters) for name, (words, _) in selection.FILTERS.items()],
        "search_characters_max": selection.SEARCH_CHARACTERS_MAX,
        "hours": int(facts.WINDOW.total_seconds() // 3_600),
    }
    return render_to_string("public/models.html", context)


def _makers() -> set[str]:
    return {each.model.maker for each in facts.current().models.values()}


@_public
@_to_people
def model(request: HttpRequest, model_id: str) -> HttpResponseBase:
    """Show a model with its price, its limits, what was measured of it, and a first request."""
    api_url = hosts.api_url(request)
    listed = facts.current().models.get(model_id)
    if listed is None:
        raise Http404
    context = {
        "listed": listed,
        "model": listed.model,
        "model_id": model_id,
        "is_embedding": listed.is_embedding,
        "api_url": api_url,
        "share_title": f"{listed.model.name} by {listed.model.maker}",
        "share_words": f"{listed.input_price} in, {listed.output_price} out per million tokens; {listed.context} of context.",
    }
    return public_page.respond(request, ("model", model_id, api_url), lambda: render_to_string("public/model.html", context))
