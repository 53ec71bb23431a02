"""Nothing that a source sends leaves ``refresh`` as an exception, or is stored by halves: tried with changed documents."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankings.models import Snapshot, Source, SourceState
from rankings.refresh import RefreshResult
from tests.rankings.source_server import Sources, refreshed

pytestmark = pytest.mark.django_db

FETCHED = [Source.LMSYS_ARENA, Source.HUGGINGFACE, Source.ARTIFICIAL_ANALYSIS, Source.OPENROUTER]
HALVES = ["\ud83d", "gpt\udc00", "x\x00y"]  # of surrogate pairs, which JSON allows, and NUL
TEXTS = st.one_of(st.sampled_from(HALVES), st.text(max_size=8), st.just("9e999"), st.just("x" * 400))
NUMBERS = st.sampled_from([-1, 0, 10**400, 2**63, -(10**30), 1e308, 0.5, float("nan"), float("inf")])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=3,
)
STEPS = st.lists(st.integers(0, 1_000), min_size=1, max_size=7)


def change(document: Any, steps: list[int], value: Any) -> Any:
    """Put a value at the place in a document to which the steps lead. Return the document."""
    if not steps or not isinstance(document, dict | list) or not document:
        return value
    key = list(document)[steps[0] % len(document)] if isinstance(document, dict) else steps[0] % len(document)
    document[key] = change(document[key], steps[1:], value)
    return document


@pytest.mark.parametrize("source", FETCHED)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(changes=st.lists(st.tuples(st.integers(0, 6), STEPS, VALUES), min_size=1, max_size=3))
def test_whatever_a_source_sends_is_stored_whole_or_a_failed_run(sources, keys, source, changes):
    numbers = iter(range(1_000))

    def spoil(path: str, document: Any) -> Any:
        number = next(numbers)
        for place, steps, value in changes:
            document = change(document, steps, value) if number == place else document
        return document

    sources.change = spoil
    before = Snapshot.objects.filter(held_because="").count()
    result = refreshed(source).result
    assert result in {RefreshResult.STORED, RefreshResult.UNCHANGED, RefreshResult.FAILED, RefreshResult.HELD}
    published = Snapshot.objects.filter(held_because="")
    assert published.count() == before + (result == RefreshResult.STORED)
    assert not SourceState.objects.filter(error__startswith="it cannot be read or stored").exists()  # nothing is unforeseen


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(
    ("source", "rows", "field"),
    [
        (Source.LMSYS_ARENA, lambda served: served.arena["overall"], "model_name"),
        (Source.HUGGINGFACE, lambda served: served.boards["TIGER-Lab/MMLU-Pro"], "modelId"),
        (Source.ARTIFICIAL_ANALYSIS, lambda served: served.aa, "name"),
        (Source.OPENROUTER, lambda served: served.openrouter, "canonical_slug"),
    ],
)
def test_a_name_that_cannot_be_stored_is_a_failed_run(sources: Sources, keys, source, rows, field, half):
    rows(sources)[2][field] = half
    outcome = refreshed(source)
    assert outcome.result == RefreshResult.FAILED
    assert outcome.detail.startswith(f"{field} is ")
    state = SourceState.objects.get(pk=source)
    assert (state.failures, state.last_success_at) == (1, None)
    assert not Snapshot.objects.exists()
