"""Tests of the pages of rankings may open them in a browser."""

from tests.browser import chromium, open_page  # noqa: F401  fixtures
