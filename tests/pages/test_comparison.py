"""Support compares two charges: which facts differ, and what came out of them."""

import html
import re

import pytest
from django.test import Client

from completions.models import Completion
from tests import chat, factories
from tests.conftest import client_for
from tests.pages.conftest import make_staff, signed_in

PAGE = "/admin/completions/completion/compare/"


@pytest.fixture
def desk(db) -> Client:
    return signed_in(make_staff("desk@example.org", ["completions.view_completion"]))


@pytest.fixture
def both(alice, echo_model):
    """Two completions: the second has a longer prompt."""
    client = client_for(factories.make_key(alice, "laptop")[1])
    for words in (1, 3):
        chat.ask(client, messages=[{"role": "user", "content": "word " * words}])
    return list(Completion.objects.order_by("pk").values_list("pk", flat=True))


def lines(reply):
    """Return the cells of each line of the page, and the names of the lines that differ."""
    page = html.unescape(reply.content.decode())
    rows = re.findall(r'<tr><th scope="row">([^<]+)</th><td>(.+?)</td><td>(.+?)</td></tr>', page)
    return {name: (first, second) for name, first, second in rows}


def test_lines_that_differ_stand_out_and_sum_to_the_charges(desk, both):
    first, second = both
    shown = lines(desk.get(PAGE, {"first": first, "second": second}))
    assert shown["Account"] == ("Alice", "Alice")
    costs = [Completion.objects.get(pk=each).cost_nanos for each in both]
    assert costs[0] != costs[1]
    assert [cell.startswith("<strong>$") for cell in shown["Charged"]] == [True, True]


def test_an_unknown_id_is_named(desk, both):
    page = desk.get(PAGE, {"first": both[0], "second": "chatcmpl-none"}).content.decode()
    assert "No completion has the ID chatcmpl-none." in page
    assert "Charges side by side" not in page


def test_the_page_of_a_completion_leads_there(desk, both):
    page = desk.get(f"/admin/completions/completion/{both[0]}/change/").content.decode()
    assert f"{PAGE}?first={both[0]}" in page
    assert desk.get(PAGE, {"first": both[0]}).status_code == 200


def test_who_may_not_view_completions_may_not_compare(both):
    assert signed_in(make_staff("other@example.org", [])).get(PAGE).status_code == 403
