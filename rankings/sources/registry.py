"""Finds the spec of each source: that of ``OPENROUTER`` is ``SPEC`` of ``rankings.sources.openrouter``, and so for every id."""

from importlib import import_module

from rankings.models import Source
from rankings.sources.base import FetchedSourceSpec, SourceSpec


def spec(source: Source | str) -> SourceSpec:
    """Return the spec of a source. Raises ValueError for an unknown id."""
    found: SourceSpec = import_module(f"rankings.sources.{Source(source).lower()}").SPEC
    return found


def specs() -> list[SourceSpec]:
    """Return all specs, in the order of ``Source``."""
    return [spec(source) for source in Source]


def fetched_spec(source: Source | str) -> FetchedSourceSpec:
    """Return the spec of a fetched source. Raises TypeError for INTERNAL, which is computed."""
    found = spec(source)
    if not isinstance(found, FetchedSourceSpec):
        raise TypeError(f"{source} is computed, not fetched")
    return found


def fetched_specs() -> list[FetchedSourceSpec]:
    """Return all specs but INTERNAL's, in the order of ``Source``."""
    return [found for found in specs() if isinstance(found, FetchedSourceSpec)]


def weighted_specs() -> list[FetchedSourceSpec]:
    """Return the specs with a weight in INTERNAL's quality score, the heaviest first."""
    return sorted((found for found in fetched_specs() if found.weight), key=lambda found: -found.weight)
