"""The views of the public pages. Each renders from ``facts`` what ``public_page`` has not kept."""

import functools
from dataclasses import replace
from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse

from completions.public import costs, facts, quickstart, selection, status
from completions.public.facts import Facts
from completions.public.selection import Selection
from completions.statistics import uptime
from gateway_project import app_config, errors
from gateway_project.web import error_replies, hosts, public_page, wrong_paths
from gateway_project.web.openapi import reference

_public = public_page.view("The models are unavailable right now.")


def _to_people(view: public_page.View) -> public_page.View:
    """Refuse a request that carries an API key: its client lacks /v1 in its base URL, and would take a page for a reply."""

    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.headers.keys() & {"Authorization", "X-Api-Key"}:
            return error_replies.respond(request, errors.PathNotFound(wrong_paths.message(request)))
        return view(request, *args, **kwargs)

    return page


@_public
def landing(request: HttpRequest) -> HttpResponseBase:
    """Say what the gateway is, with its own figures and a first request."""
    api_url = hosts.api_url(request)

    def render() -> str:
        current = facts.current()
        values = {**quickstart.values_of(current, api_url), "prompt": facts.EXAMPLE_PROMPT}
        context = {
            "facts": current,
            "examples": quickstart.examples("chat", values),
            "canonical_path": reverse("landing"),
        }
        return render_to_string("public/landing.html", context)

    return public_page.respond(request, ("landing", api_url), render)


@_public
def docs(request: HttpRequest) -> HttpResponseBase:
    """Show the quickstart. Redirect a search to the reference, which had this address before."""
    if "q" in request.GET:
        return redirect(f"{reverse('reference')}?{request.GET.urlencode()}")
    api_url = hosts.api_url(request)

    def render() -> str:
        context = {
            **quickstart.page(facts.current(), api_url),
            "search_characters_max": reference.SEARCH_CHARACTERS_MAX,
            "canonical_path": reverse("docs"),
        }
        return render_to_string("docs/quickstart.html", context)

    return public_page.respond(request, ("docs", api_url), render)


@_public
@_to_people
def model_list(request: HttpRequest) -> HttpResponseBase:
    """List the models that the parameters select. Redirect an address with empty fields to the shorter one of the same list."""
    chosen = selection.read(request.GET)
    if request.GET.urlencode() != chosen.query_string:
        return redirect(_list_address(chosen))
    # Of other words and numbers there is no end.
    is_offered = not chosen.search and chosen.maker in {"", *_makers()} and chosen.page <= len(facts.current().models)
    return public_page.respond(request, ("models", chosen) if is_offered else None, functools.partial(_render_list, chosen))


def _render_list(chosen: Selection) -> str:
    listed = facts.current().models.values()
    selected = Paginator(selection.apply(chosen, listed), selection.PAGE_MODELS)
    page = selected.get_page(chosen.page)  # beyond the end it is the last one
    context = {
        "chosen": chosen,
        "page": page,
        "previous": _page_address(chosen, page.number - 1),
        "following": _page_address(chosen, page.number + 1) if page.has_next() else "",
        "selected": selected.count,
        "number": len(listed),
        "canonical_path": _list_address(Selection(page=page.number)),
        "makers": sorted(_makers(), key=str.casefold),
        "sorts": selection.SORTS,
        "headings": {name.replace("-", "_"): _list_address(replace(chosen, sort=name, page=1)) for name in selection.SORTS},
        "filters": [(name, words, name in chosen.filters) for name, (words, _) in selection.FILTERS.items()],
        "search_characters_max": selection.SEARCH_CHARACTERS_MAX,
        "hours": int(facts.WINDOW.total_seconds() // 3_600),
    }
    return render_to_string("public/models.html", context)


def _page_address(chosen: Selection, number: int) -> str:
    return _list_address(replace(chosen, page=number)) if number else ""


def _list_address(chosen: Selection) -> str:
    query = chosen.query_string
    return f"{reverse('models')}?{query}" if query else reverse("models")


def _makers() -> set[str]:
    return {each.model.maker for each in facts.current().models.values()}


@_public
@_to_people
def model(request: HttpRequest, model_id: str) -> HttpResponseBase:
    """Show what a buyer asks of a model. The parameters say which requests it is to answer, and with what it is compared."""
    api_url = hosts.api_url(request)
    current = facts.current()
    if model_id not in current.models:
        raise Http404
    cache_key = None if request.GET else ("model", model_id, api_url)
    return public_page.respond(request, cache_key, lambda: _render_model(current, model_id, request.GET, api_url))


def _render_model(current: Facts, model_id: str, given: QueryDict, api_url: str) -> str:
    listed = current.models[model_id]
    values = {**quickstart.values_of(current, api_url), "model_id": model_id, "embedding_id": model_id}
    form = costs.RequestForm(listed, current.like(listed), given)
    compared = costs.compare(form) if form.is_valid() else {}
    ids = [each.model.pk for each in compared.get("columns", [listed])]
    scores = app_config.scores(ids)
    context = {
        **compared,
        "form": form,
        "listed": listed,
        "model": listed.model,
        "successor": current.models[successor].model if (successor := listed.model.successor_id) in current.models else None,
        "score": scores.get(model_id, {}),
        "qualities": [scores.get(each, {}).get("quality", "") for each in ids],
        "hours": int(facts.WINDOW.total_seconds() // 3_600),
        "line": status.line_of(model_id),
        "days": uptime.DAYS,
        "examples": quickstart.examples("embeddings" if listed.is_embedding else "chat", values),
        "share_title": f"{listed.model.name} by {listed.model.maker}",
        "share_words": f"{listed.prices_in_short} per million tokens; {listed.model.context_window:,} tokens of context.",
        "canonical_path": reverse("model", args=[model_id]),
    }
    return render_to_string("public/model.html", context)


@_public
def sitemap(request: HttpRequest) -> HttpResponseBase:
    """List the addresses of the public pages, for search engines."""
    base_url = hosts.base_url(request)
    headers = {"Content-Type": "application/xml"}
    return public_page.respond(request, ("sitemap", base_url), lambda: _render_sitemap(base_url), headers=headers)


def _render_sitemap(base_url: str) -> str:
    listed = list(facts.current().models.values())
    paths = [reverse(name) for name in ("landing", "models", "ranking-page", "docs", "reference", "api-changes", "status")]
    paths += [reverse("model", args=[each.model.pk]) for each in listed]
    paths += [reverse("ranked-model", args=[each.model.pk]) for each in listed if not each.is_embedding]
    return render_to_string("public/sitemap.xml", {"addresses": [f"{base_url}{path}" for path in paths]})


@_public
def status_page(request: HttpRequest) -> HttpResponseBase:
    """Show what works now and in the last days. With ``?all=1`` every model, else those in trouble and the most used."""
    is_whole = request.GET.get("all") == "1"
    return public_page.respond(request, ("status", is_whole), functools.partial(_render_status, is_whole))


def _render_status(is_whole: bool) -> str:
    found = status.current()
    first = max(status.SHOWN_FIRST, len(found.troubled))
    models = found.models if is_whole else found.models[:first]
    context = {
        "status": found,
        "models": models,
        "others": len(found.models) - len(models),
        "days": uptime.DAYS,
        "canonical_path": reverse("status"),
    }
    return render_to_string("public/status.html", context)


@_public
def status_feed(request: HttpRequest) -> HttpResponseBase:
    base_url = hosts.base_url(request)
    headers = {"Content-Type": "application/rss+xml; charset=utf-8"}
    return public_page.respond(request, ("status-feed", base_url), lambda: status.render_feed(base_url), headers=headers)
