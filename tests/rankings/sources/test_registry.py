"""A source is one module and one id: a sixth one, added here, is fetched, stored, published and shown by unchanged code."""

import sys
from datetime import timedelta
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from completions.models import Category
from rankings import environment, tasks
from rankings.api import filters
from rankings.models import Alias, Entry, Snapshot, Source, SourceState, Standing
from rankings.publishing import health
from rankings.refresh import RefreshResult
from rankings.scoring import parameters
from rankings.sources import documents, registry
from rankings.sources.base import CC_BY, FetchedSnapshot, FetchedSourceSpec, SourceSpec, StandingFigures, ranked
from tests import factories
from tests.rankings import entries
from tests.rankings.source_server import Reply, Sources, refreshed

PATH = "/sixth/leaderboard"


def test_every_source_has_a_spec_with_its_id():
    assert [(spec.source, spec.title) for spec in registry.specs()] == [(source, source.label) for source in Source]
    assert [spec.source for spec in registry.fetched_specs()] == [source for source in Source if source != Source.INTERNAL]


def test_an_unknown_source_has_no_spec():
    with pytest.raises(ValueError, match="'MINE' is not a valid Source"):
        registry.spec("MINE")


def test_internal_is_not_fetched():
    assert type(registry.spec(Source.INTERNAL)) is SourceSpec
    with pytest.raises(TypeError, match="INTERNAL is computed, not fetched"):
        registry.fetched_spec(Source.INTERNAL)


# --- The file that adds a source --------------------------------------------------------------------------------------


def read(run):
    listed = documents.rows(documents.table(run.client.get("/leaderboard").json(), "the leaderboard").get("models"), "models")
    values = [(documents.text(row.get("name"), "name"), documents.finite(row.get("score"), "score")) for row in listed]
    standings = [
        Standing(
            board=Category.GENERAL,
            external_key=name,
            key_kind="sixth_name",
            name=name,
            organization="Acme",
            rank=rank,
            value=value,
        )
        for name, value, rank in ranked(values)
    ]
    return FetchedSnapshot(standings, attribution="By the sixth source.")


def spec():
    return FetchedSourceSpec(
        source=Source("SIXTH"),
        title="The Sixth",
        home_url="https://sixth.example.org",
        license=CC_BY,
        cadence=timedelta(hours=6),
        age_max=timedelta(hours=24),
        base_url=environment.text("GATEWAY_SIXTH_BASE_URL", "https://api.sixth.example.org"),
        key=environment.text("GATEWAY_SIXTH_API_KEY"),
        needs_key=True,
        boards={Category.GENERAL: "everything"},
        rows_min=20,
        is_conditional=False,
        read=read,
        figures=lambda placement: StandingFigures(precision=0.8, overall=placement.value, quality=placement.value),
        short_name="sixth",
        half_life_hours=100,
        weight=0.1,
    )


# --- The line that adds a source --------------------------------------------------------------------------------------


def add_id(name):
    """Do what the line ``SIXTH = "SIXTH"`` in ``models.Source`` does."""
    member = str.__new__(Source, name)
    member._name_ = member._value_ = name
    member._label_ = name.title()
    Source._member_names_.append(name)
    Source._member_map_[name] = Source._value2member_map_[name] = member


def remove_id(name):
    Source._member_names_.remove(name)
    del Source._member_map_[name], Source._value2member_map_[name]


def read_what_is_read_at_start(monkeypatch):
    """Read the ids and their settings again: they were read at import, before the sixth source was added."""
    published = parameters.FormulaParameters()
    monkeypatch.setattr(parameters, "PUBLISHED", published)
    for name, values in (("SOURCE_WEIGHTS", published.source_weights), ("HALF_LIVES_HOURS", published.half_lives_hours)):
        monkeypatch.setattr(parameters, name, environment.numbers(getattr(parameters, name).variable, dict(values)))
    monkeypatch.setitem(filters.RankingFilter.base_filters["source"].schema, "enum", list(Source.values))


@pytest.fixture
def sixth(db, settings, monkeypatch, sources: Sources):
    """The sixth source, with a leaderboard of thirty models of which one is ours."""
    module: Any = ModuleType("rankings.sources.sixth")
    add_id("SIXTH")
    try:
        module.SPEC = spec()
        monkeypatch.setitem(sys.modules, module.__name__, module)
        read_what_is_read_at_start(monkeypatch)
        settings.RANKINGS_SIXTH_BASE_URL, settings.RANKINGS_SIXTH_API_KEY = f"{sources.url}/sixth", "sixth-key"
        models = [{"name": f"model-{number}", "score": 90 - number} for number in range(30)]
        sources.answer(PATH, Reply(body={"models": models}))
        factories.make_model("acme/model-3", maker="Acme", name="Model 3")
        Alias.objects.create(
            source="SIXTH", key_kind="sixth_name", external_key="model-3", model_id="acme/model-3", method="staff"
        )
        entries.forget()
        entries.forget_pages()
        yield Source("SIXTH")
    finally:
        remove_id("SIXTH")
        monkeypatch.undo()
        entries.forget()
        entries.forget_pages()


def page(path, **parameters):
    return Client().get(f"{path}?{urlencode(parameters)}").content.decode()


def test_a_sixth_source_is_fetched_and_stored(sixth, sources):
    outcome = refreshed(sixth)
    assert (outcome.result, outcome.standings, outcome.ours) == (RefreshResult.STORED, 30, 1)
    assert sources.last(PATH).headers["authorization"] == "Bearer sixth-key"
    snapshot = Snapshot.objects.get()
    assert (snapshot.source, snapshot.attribution, snapshot.standings.count()) == ("SIXTH", "By the sixth source.", 30)
    due_in = SourceState.objects.get(pk="SIXTH").next_attempt_at - snapshot.taken_at
    assert timedelta(hours=5) < due_in < timedelta(hours=7)


def test_a_sixth_source_is_published_and_counts_in_internal(sixth):
    refreshed(sixth)
    entry = Entry.objects.get(source="SIXTH", board="GENERAL")
    assert (entry.model_id, entry.rank, entry.quality) == ("acme/model-3", 4, 87)
    assert entry.confidence == pytest.approx(0.8, abs=1e-3)
    internal = Entry.objects.get(source="INTERNAL", board="GENERAL")
    [source_inputs] = [source_inputs for source_inputs in internal.inputs["sources"] if source_inputs["source"] == "SIXTH"]
    assert (source_inputs["weight"], source_inputs["is_heard"]) == (0.1, True)
    assert internal.quality == pytest.approx(100 * 26.5 / 30)


def test_a_sixth_source_has_a_health(sixth, settings):
    assert health.report_for_api()[5] == {"source": "SIXTH", "isHealthy": False, "lastSyncAt": None}
    refreshed(sixth)
    assert health.report_for_api()[5]["isHealthy"]
    settings.RANKINGS_SIXTH_API_KEY = ""
    assert health.report()[5].reason == "off: GATEWAY_SIXTH_API_KEY is not set"


def test_a_sixth_source_is_shown_by_the_api(sixth):
    refreshed(sixth)
    body = Client().get("/api/rankings", {"source": "SIXTH"}).json()
    assert [(entry["model"]["id"], entry["rank"]) for entry in body["rankings"]] == [("acme/model-3", 4)]
    assert [source["source"] for source in body["sources"]] == [*list(Source)]


def test_a_sixth_source_is_shown_on_the_pages(sixth):
    refreshed(sixth)
    shown = page("/rankings", source="SIXTH")
    assert '<option value="SIXTH" selected>The Sixth</option>' in shown
    assert '<a href="https://sixth.example.org" rel="noopener">The Sixth</a>' in shown
    assert "By the sixth source." in shown
    assert "100 h (The Sixth)" in shown.replace("100.0 h", "100 h")
    explained = page("/rankings/acme/model-3", source="SIXTH")
    assert "rank 4 of 30, at 87" in explained


def test_nothing_of_a_sixth_source_is_shown_without_the_key_that_it_needs(sixth, settings):
    refreshed(sixth)
    settings.RANKINGS_SIXTH_API_KEY = ""
    assert refreshed(sixth).result == RefreshResult.OFF
    refreshed(Source.INTERNAL)
    assert not Entry.objects.filter(source="SIXTH").exists()


def test_a_sixth_source_has_a_task_each_minute(sixth, monkeypatch):
    started = []
    monkeypatch.setattr(tasks.refresh_if_due, "apply_async", lambda args, **options: started.append(*args))
    tasks.refresh_due_sources.delay()
    assert started[-1] == "SIXTH"
