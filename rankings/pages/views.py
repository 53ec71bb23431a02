"""The ranking pages: the list, and a page for each model. Public, the same for everybody, without cookies or scripts.

A rendered page is cached for some seconds, and as long as nothing new is published.
"""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse

from completions.models import Category, LanguageModel, RoutableAlias
from gateway_project import errors
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from gateway_project.web import public_page
from rankings.api import filters
from rankings.api.filters import RankingsQuery
from rankings.identity import mapping
from rankings.models import DailyRank, Entry, Source
from rankings.pages import explanation, plots
from rankings.pages import query as page_query
from rankings.pages import rows as page_rows
from rankings.publishing import health, listing, routable_aliases
from rankings.publishing.listing import PublishedRankings
from rankings.scoring import parameters
from rankings.sources import registry

HISTORY_DAYS = 180
_FACTS_SECONDS = 10
_NO_MODEL = "There is no model with this ID here."

_public = public_page.view("The rankings are unavailable right now. Please try again.")


@_public
def ranking(request: HttpRequest) -> HttpResponseBase:
    """Show the list. It takes the parameters of GET /api/rankings; an error in them is shown beside the form."""
    try:
        query = page_query.read(request.GET)
    except errors.InvalidRequest as error:
        form = page_query.form_with_error(request.GET, error.param or "", error.message, listing.published().makers)
        html = render_to_string("rankings/ranking.html", {"form": form})
        return HttpResponse(html, status=error.status, headers={"Cache-Control": "no-store"})
    if not all(str(value).strip() for value in request.GET.values()):  # forms send empty fields, too
        return redirect(page_query.address(query))
    published = listing.published()
    makers = published.makers
    query = page_query.canonical(query, makers)
    cache_key = ("rankings", query) if page_query.is_offered(query, makers, len(published.models)) else None
    return public_page.respond(request, cache_key, lambda: _render_ranking(query, published), version=published)


def _render_ranking(query: RankingsQuery, published: PublishedRankings) -> str:
    facts, used = _current_facts(), parameters.in_force()
    leaderboard = published.leaderboard(query.source, query.board)
    entries = filters.apply(query, leaderboard)
    measure = page_rows.measure(leaderboard)
    rows = [page_rows.row(each) for each in entries[query.offset : query.offset + query.limit]]
    context = {
        "query": query,
        "form": page_query.form(query, published.makers),
        "headings": page_query.headings(query),
        "rows": rows,
        "pager": page_query.pager(query, len(entries)),
        "available_address": page_query.address(query, available_only=True, offset=0),
        "source": registry.spec(query.source).title,
        "board": page_query.BOARD_TITLES[query.board],
        "listed_models": len(leaderboard),
        "is_internal": query.source == Source.INTERNAL,
        "has_quality": measure == "quality",
        "has_speed": any(each.entry.speed is not None for each in leaderboard),
        "canonical_path": reverse("ranking-page"),
        "unavailable_models": sum(not each.model.is_available for each in leaderboard),
        "plot": page_rows.draw_plot(entries, measure),
        "api_address": page_query.api_address(query),
        "aliases": [pair for pair in facts.aliases.items() if pair[0].endswith(f"/{query.board.lower()}")],
        "facts": facts,
        "parameters": used,
        "overall_terms": explanation.overall_terms(used),
        "overall_names": explanation.overall_names(),
        "weights": explanation.by_title(used.source_weights),
        "half_lives": explanation.by_title(used.half_lives_hours),
        "version": parameters.version(),
    }
    return render_to_string("rankings/ranking.html", context)


@_public
def ranked_model(request: HttpRequest, model_id: str) -> HttpResponseBase:
    """Show one model and explain its score on one board, as ``source`` and ``board`` choose. An alias leads to its model."""
    query = page_query.read(request.GET)
    published = listing.published()
    if model_id not in published.models and model_id not in published.unpriced_ids:
        if target_id := _current_facts().aliases.get(model_id):
            return redirect("ranked-model", target_id)
        raise errors.ModelUnknown(_NO_MODEL)
    cache_key = ("rankings", (model_id, query.source, query.board))
    return public_page.respond(request, cache_key, lambda: _render_model(model_id, query, published), version=published)


def _render_model(model_id: str, query: RankingsQuery, published: PublishedRankings) -> str:
    model = LanguageModel.objects.of_chat().filter(pk=model_id, is_enabled=True).with_price_and_routes().first()
    if model is None:
        raise errors.ModelUnknown(_NO_MODEL)
    facts = _current_facts()
    entries = list(Entry.objects.filter(model=model)) if model.prices_in_force else []
    entries.sort(key=lambda each: (Source.values.index(each.source), Category.values.index(each.board)))
    shown = next((entry for entry in entries if (entry.source, entry.board) == (query.source, query.board)), None)
    days = _days(model, query)
    ranks = [(each.day, each.rank) for each in reversed(days)]
    context = {
        "model": model,
        "waits_for_key": listing.waits_for_key(model),
        "board_scores": [page_rows.board_scores(entry, is_shown=entry is shown) for entry in entries],
        "source": registry.spec(query.source).title,
        "board": page_query.BOARD_TITLES[query.board],
        "entry": shown,
        "ranks_lost": -shown.change if shown else 0,
        "ranked_models": len(published.leaderboard(query.source, query.board)) if query.source == Source.INTERNAL else None,
        "explanation": explanation.explain(shown) if shown else None,
        "days": days,
        "history": plots.history_plot(ranks) if len(days) > 1 else None,
        "aliases": [alias for alias, target_id in facts.aliases.items() if target_id == model.pk],
        "canonical_path": reverse("ranked-model", args=[model.pk]),
    }
    return render_to_string("rankings/model.html", context)


def _days(model: LanguageModel, query: RankingsQuery) -> list[DailyRank]:
    """Return the last HISTORY_DAYS of the model on the board in the series of the newest one, newest first."""
    ranks = DailyRank.objects.filter(model=model, source=query.source, board=query.board)
    days = list(ranks.order_by("-day")[:HISTORY_DAYS])
    return [each for each in days if not each.series or not days[0].series or each.series == days[0].series]


@dataclass(frozen=True)
class Facts:
    """The content of the pages beside the entries. While the database is unavailable, it is what was read last.

    ``sources``: of each its spec, its health and its snapshot, which is None while no data of the source is shown.
    ``aliases``: the ids that mean the first available model of a ranking, and that model's.
    """

    sources: list[dict[str, Any]]
    aliases: dict[str, str]


_facts: StaleWhileRefresh[None, Facts] = StaleWhileRefresh(seconds=_FACTS_SECONDS, stale_on=pool.DATABASE_ERRORS)


def _current_facts() -> Facts:
    """Return what was read last. Raises the database's errors only while nothing was ever read."""
    return _facts.get(None, _read_facts)


def _read_facts(previous: Facts | None) -> Facts:
    with pool.time_limit():
        available = {model.id for model in listing.published().models.values() if model.is_available}
        stored = dict(RoutableAlias.objects.values_list("pk", "model_ids"))
        aliases = {name: next((id for id in stored.get(name, []) if id in available), "") for name in routable_aliases.names()}
        sources = [_source_facts(each) for each in health.report(pool.database_time())]
        return Facts(sources, {name: model_id for name, model_id in aliases.items() if model_id})


def _source_facts(report: health.SourceHealth) -> dict[str, Any]:
    spec = registry.spec(report.source)
    snapshot = mapping.latest_snapshot(report.source) if report.source != Source.INTERNAL else None
    return {"spec": spec, "health": report, "is_off": bool(spec.access().obstacle), "snapshot": snapshot}
