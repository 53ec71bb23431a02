"""Tests of the pages of rankings may open them in a browser."""

from tests.browser import open_page  # noqa: F401  a fixture
