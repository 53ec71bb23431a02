"""The frame of all pages: its navigation, what links to the pages show elsewhere, and what search engines may read."""

import re

import pytest

from tests.conftest import client_for
from tests.rankings.entries import forget_pages
from tests.sessions import sign_in


@pytest.fixture(autouse=True)
def _empty_cache():
    forget_pages()
    yield
    forget_pages()


def get(path, **headers):
    return client_for(None).get(path, HTTP_ACCEPT="text/html", **headers)


def links(html, label):
    navigation = re.search(rf'<nav [^>]*aria-label="{label}">(.*?)</nav>', html, re.DOTALL)[1]
    return dict(re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', navigation))


@pytest.mark.parametrize("path", ["/rankings", "/accounts/login/", "/nothing-is-here"])
def test_every_link_of_the_site_leads_somewhere(db, path):
    found = links(get(path).content.decode(), "Site")
    assert "/rankings" in found
    assert {link: get(link).status_code for link in found} == dict.fromkeys(found, 200)


def test_every_link_of_the_dashboard_leads_somewhere(db, alice):
    client = client_for(None)
    sign_in(client, alice.members.get())
    found = links(client.get("/dashboard/").content.decode(), "Dashboard")
    assert {"/dashboard/", "/dashboard/keys/", "/dashboard/ledger/", "/dashboard/members/"} <= set(found)
    assert {link: client.get(link).status_code for link in found} == dict.fromkeys(found, 200)


def test_the_navigation_says_where_the_reader_is(db):
    assert '<a href="/rankings" aria-current="page">Rankings</a>' in get("/rankings").content.decode()
    assert "aria-current" not in get("/accounts/login/").content.decode()


def test_an_error_page_of_the_api_host_links_to_no_page_that_it_lacks(db, settings):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = "api.example.org", "example.org"
    settings.ALLOWED_HOSTS = ["api.example.org", "example.org"]
    reply = get("/nothing-is-here", HTTP_HOST="api.example.org")
    assert reply.status_code == 404
    assert links(reply.content.decode(), "Site") == {}


def test_a_public_page_describes_itself_with_a_picture(db, settings):
    settings.GATEWAY_API_HOST = settings.GATEWAY_BASE_HOST = "example.org"
    settings.ALLOWED_HOSTS, settings.GATEWAY_DEVELOPMENT = ["example.org"], False
    page = get("/rankings", HTTP_HOST="example.org").content.decode()
    assert '<meta property="og:title" content="Rankings of language models">' in page
    assert '<meta name="description" content="Language models ranked by' in page
    assert '<meta property="og:image" content="https://example.org/static/dashboard/card.png">' in page


def test_without_a_host_name_a_public_page_has_no_picture(db):
    page = get("/rankings").content.decode()
    assert '<meta name="description"' in page
    assert "og:image" not in page


def test_search_engines_are_kept_off_everything_but_public_pages(db):
    assert '<meta name="robots" content="noindex">' in get("/accounts/login/").content.decode()
    assert "noindex" not in get("/rankings").content.decode()
    rules = get("/robots.txt").content.decode().splitlines()
    assert rules[0] == "User-agent: *"
    assert {"Disallow: /dashboard/", "Disallow: /admin/", "Disallow: /accounts/", "Disallow: /api/"} <= set(rules)


def test_the_mark_is_served(db):
    assert get("/favicon.ico")["Location"] == "/static/dashboard/icon.png"
    for name in ("icon.svg", "icon.png", "card.png"):
        assert b"".join(get(f"/static/dashboard/{name}"))
