"""Public pages are rendered once for everybody, one at a time."""

import threading
from typing import Any

import pytest
from django.test import RequestFactory

from gateway_project.web import public_page


@pytest.fixture(autouse=True)
def _nothing_kept():
    public_page.forget()
    yield
    public_page.forget()


class Renders:
    """Counts how often a page is rendered. ``then`` is done meanwhile."""

    def __init__(self):
        self.count, self.then = 0, lambda: None

    def __call__(self):
        self.count += 1
        number, then, self.then = self.count, self.then, lambda: None
        then()
        return f"page {number}"


@pytest.fixture
def renders():
    return Renders()


def ask(renders, key="key", version=None):
    page: Any = public_page.respond(RequestFactory().get("/"), key, renders, version)
    return page.content.decode()


def test_a_page_is_rendered_once_for_each_version(renders):
    assert [ask(renders) for _ in range(3)] == ["page 1"] * 3
    assert [ask(renders, version=2) for _ in range(2)] == ["page 2"] * 2


def test_a_page_without_a_key_is_rendered_for_each_request_and_not_kept(renders):
    assert [ask(renders, key=None) for _ in range(2)] == ["page 1", "page 2"]
    assert len(public_page._pages) == 0


def test_what_changes_only_with_the_code_is_rendered_once(renders, monkeypatch):
    def ask_for_good():
        page: Any = public_page.respond(RequestFactory().get("/"), "key", renders, is_document=True)
        return page.content

    assert [ask_for_good() for _ in range(3)] == [b"page 1"] * 3
    monkeypatch.setattr(public_page._documents, "_clock", lambda: 1e9)
    assert ask_for_good() == b"page 1"


def test_whoever_asks_while_a_page_is_rendered_anew_gets_the_previous_one(renders):
    ask(renders)
    meanwhile = []
    renders.then = lambda: meanwhile.append(ask(renders, version=2))
    assert (ask(renders, version=2), meanwhile, renders.count) == ("page 2", ["page 1"], 2)


def test_whoever_waited_while_another_rendered_the_page_gets_that_one(renders, monkeypatch):
    lock = threading.Lock()

    class Behind:
        """A lock that another request for the same page gets first."""

        def __enter__(self):
            monkeypatch.setattr(public_page, "_rendering", lock)
            assert ask(renders) == "page 1"

        def __exit__(self, *exc_info):
            pass

    monkeypatch.setattr(public_page, "_rendering", Behind())
    assert (ask(renders), renders.count) == ("page 1", 1)


def test_one_page_is_rendered_at_a_time(renders):
    locked = []
    renders.then = lambda: locked.append(public_page._rendering.locked())
    ask(renders)
    renders.then = lambda: locked.append(public_page._rendering.locked())
    ask(renders, key=None)
    assert locked == [True, True]
    assert not public_page._rendering.locked()
