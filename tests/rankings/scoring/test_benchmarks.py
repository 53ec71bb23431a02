"""The curated figures are possible, have a source, and are there once."""

import tomllib
from collections import Counter
from urllib.parse import urlsplit

import pytest

from completions.catalog import file as catalog_file
from completions.catalog.rules import clean_model_id
from rankings.scoring import benchmarks

ROWS = tomllib.loads(benchmarks.FILE.read_text())["figures"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']} {row['benchmark']}")
def test_figure_is_possible_and_has_a_source(row):
    figure = benchmarks.BenchmarkFigure(**row)
    assert clean_model_id(figure.model) == figure.model
    assert figure.value > 20  # not a share of 1
    assert urlsplit(figure.source).hostname in {"github.com", "arxiv.org"}
    assert "/main/" not in figure.source  # a page that changes proves nothing
    assert len(figure.published) == len("2025-04")
    assert figure.setting
    assert figure.licence


def test_no_figure_is_repeated():
    assert max(Counter((row["model"], row["benchmark"]) for row in ROWS).values()) == 1
    assert sum(len(of_model) for of_model in benchmarks.figures().values()) == len(ROWS)


def test_models_of_the_built_in_catalog_have_figures():
    ours = set(catalog_file.read([catalog_file.BUILT_IN]).models)
    assert len(ours & benchmarks.figures().keys()) >= 4


@pytest.mark.parametrize("changes", [{"value": 0}, {"value": 100.1}, {"benchmark": "mmlu_pro"}, {"source": "I remember"}])
def test_impossible_figure_is_refused(changes):
    with pytest.raises(ValueError, match="has an impossible value or source"):
        benchmarks.BenchmarkFigure(**{**ROWS[0], **changes})


def test_repeated_figure_is_refused(tmp_path, monkeypatch):
    twice = tmp_path / "benchmarks.toml"
    twice.write_text(benchmarks.FILE.read_text() + _table(ROWS[0]))
    monkeypatch.setattr(benchmarks, "FILE", twice)
    with pytest.raises(ValueError, match="is there twice"):
        benchmarks.figures.__wrapped__()


def _table(row):
    return "\n[[figures]]\n" + "\n".join(f"{name} = {value!r}" for name, value in row.items())
