"""The page of languages says what the code does with each feature, from each language to each kind of provider."""

from pathlib import Path

import pytest

from tests.completions.inbound import matrix

PAGE = Path(__file__).parents[3] / "docs" / "api" / "languages.md"


def test_the_page_has_the_matrix():
    assert matrix.table() in PAGE.read_text(), matrix.table()


@pytest.mark.parametrize("language", matrix.LANGUAGES)
@pytest.mark.parametrize("kind", matrix.MODELS)
def test_every_language_reaches_every_kind_of_provider(language, kind):
    for feature in ("Text", "Instructions", "Images", "PDF files", "Tools", "Results of tools", "JSON by a schema"):
        assert matrix.outcome(feature, language, kind) == matrix.YES
