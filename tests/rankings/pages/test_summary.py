"""A model's page shows the figures of the rankings, with their date and source."""

import re

import pytest
from django.test import Client

from completions.models import Category
from completions.public import facts
from rankings.models import Source
from tests import factories
from tests.outage import with_the_database_unavailable
from tests.rankings.entries import forget, forget_pages, list_model, publish


@pytest.fixture(autouse=True)
def _empty_caches(db):
    empty()
    yield
    empty()


def empty():
    forget()
    forget_pages()
    facts.forget()


def benchmarks(model_id):
    reply = Client().get(f"/models/{model_id}")
    assert reply.status_code == 200
    [section] = re.findall(r'<h2 id="benchmarks">(.*?)</section>', reply.content.decode(), re.DOTALL)
    return section, " ".join(re.sub(r"<[^>]+>", " ", section).split())


def test_each_source_has_its_figure_its_date_and_a_link(db):
    list_model("acme/a", rank=1, quality=88.0)
    list_model("acme/b", rank=2)
    list_model("acme/a", source=Source.LMSYS_ARENA, rank=3, elo=1480)
    list_model("acme/a", source=Source.LMSYS_ARENA, board=Category.CODING, rank=3, board_rank=7, overall=61.25)
    publish()
    section, text = benchmarks("acme/a")
    assert "Quality 88.0 of 100, overall rank 1 of 2 models here. Every score, explained" in text
    assert "LMArena CC BY 4.0 General rank 3 1480 Elo 20 Nov 2026 LMArena CC BY 4.0 Coding rank 7 61.3 20 Nov 2026" in text
    assert re.search(r'<a href="https://[^"]+"\s+rel="noopener">LMArena', section)
    assert "No source says yet how good its answers are." in benchmarks("acme/b")[1]


def test_a_published_benchmark_is_cited(db):
    factories.make_model("openai/gpt-4.1")
    section, text = benchmarks("openai/gpt-4.1")
    assert "MMLU zero-shot, chain of thought; gpt-4.1-2025-04-14 90.2 2025-04" in text
    assert 'href="https://github.com/openai/simple-evals/' in section


def test_the_qualities_of_the_models_beside_it_are_shown(db):
    for number in (1, 2, 3):
        list_model(f"acme/{number}", rank=number, quality=None if number == 3 else 90.0 - number)
    publish()
    page = Client().get("/models/acme/1").content.decode()
    [row] = re.findall(r'scope="row">Quality.*?</th>(.*?)</tr>', page, re.DOTALL)
    assert re.sub(r"<[^>]+>", " ", row).split() == ["89.0", "88.0", "–", "not", "ranked"]


def test_the_page_is_shown_without_scores_while_no_ranking_can_be_read(db):
    factories.make_model("acme/a")
    assert Client().get("/models").status_code == 200
    reply = with_the_database_unavailable(lambda: Client().get("/models/acme/a"))
    assert reply.status_code == 200
    assert "It is not ranked yet." in reply.content.decode()
