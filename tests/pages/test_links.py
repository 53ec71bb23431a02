"""Every link of every page leads to a page: of the public pages, of an owner's, and of the admin."""

import pytest
from django.test import Client

from billing.models import User
from completions.public import facts as public_facts
from keys.refusal_history import collector
from rankings.models import Source
from tests import chat, factories
from tests.completions.rows import ask
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in
from tests.pages.crawl import walk
from tests.rankings.entries import forget, forget_pages, list_model, publish
from tests.rankings.snapshots import make_snapshot


def broken_links(client, *starts, inside="/"):
    """Return the address of each link that leads to no page, with the page that has it."""
    visits = list(walk(client, *starts, inside=inside))
    assert len(visits) > len(starts)
    return {visit.address: (visit.reply.status_code, visit.found_on) for visit in visits if visit.reply.status_code != 200}


@pytest.fixture
def _volume(alice, api, echo_model):
    """Models of each kind, ranked and not; requests that were answered and refused; two keys."""
    for clear in (forget, forget_pages, public_facts.forget):
        clear()
    factories.make_model("acme/embed", kind="embedding", output="0", max_output_tokens=1)
    list_model("lab/alpha", rank=1, overall=90.0, quality=80.0, cost=20.0, model={"name": "Alpha", "maker": "Lab"})
    make_snapshot(Source.LMSYS_ARENA, {"GENERAL": {"some model": 1}})
    publish()
    chat.ask(client_for(factories.make_key(alice, "second")[1]), user="a&b", metadata={"team": "blue & red"})
    chat.ask(api)
    assert ask(api).status_code == 404  # its model is not there
    collector.write()


@pytest.mark.usefixtures("_volume")
def test_no_link_of_a_public_page_is_broken():
    assert (
        broken_links(Client(), "/", "/models", "/models/acme/embed", "/rankings", "/docs", "/status", "/accounts/login/") == {}
    )


@pytest.mark.usefixtures("_volume")
def test_no_link_of_an_owners_page_is_broken(alice):
    assert broken_links(signed_in(owner_of(alice)), "/dashboard/", "/dashboard/usage/?by=user") == {}


@pytest.mark.usefixtures("_volume")
def test_no_link_of_the_admin_is_broken(alice):
    root = signed_in(User.objects.create_superuser("root@example.org", factories.PASSWORD))
    assert broken_links(root, "/admin/", f"/admin/billing/account/{alice.pk}/change/", inside="/admin/") == {}
