"""Addresses that cannot be read, wherever somebody may send one: no page and no endpoint fails of them."""

import ast
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from django.test import Client
from django.urls import URLResolver, get_resolver

from billing.alerts import endpoints
from completions.catalog import rules
from gateway_project.text import web_addresses
from tests.malformed_addresses import MALFORMED, SENT
from tests.pages.conftest import owner, superuser  # noqa: F401  fixtures

ROOT = Path(__file__).parents[2]
NAMES = ["next", "url", "image_url", "redirect", "return_url", "continue", "callback_url", "webhook", "_changelist_filters"]
NAMES += ["origin", "process", "login", "email", "model", "q", "since", "invoice"]


@pytest.mark.parametrize("address", MALFORMED, ids=ascii)
def test_reading_an_address_raises_nothing(address):
    parts = web_addresses.parse(address)
    assert all(
        isinstance(part, str | None) for part in (parts.scheme, parts.hostname, parts.path, parts.username, parts.password)
    )
    assert isinstance(parts.port, int | None)
    assert isinstance(web_addresses.join("https://example.org/", address), str)


@pytest.mark.parametrize("address", MALFORMED, ids=ascii)
def test_a_webhook_and_a_provider_at_a_malformed_address_are_at_most_refused(address):
    with suppress(endpoints.EndpointRefused):
        endpoints.check_url(address)
    with suppress(ValueError):
        rules.clean_base_url(address)


def test_what_is_an_address_is_read_as_it_was():
    parts = web_addresses.parse("https://u@Example.org:8443/a?b=c#d")
    assert (parts.scheme, parts.hostname, parts.port, parts.path, parts.query) == ("https", "example.org", 8443, "/a", "b=c")
    assert web_addresses.parse("http://[") is web_addresses.NO_ADDRESS
    assert web_addresses.join("https://example.org/a/b", "../c") == "https://example.org/c"


def test_no_other_module_reads_addresses():
    """Python's functions raise for some addresses: only ``web_addresses`` calls them."""
    reading = {"urlsplit", "urlparse", "urljoin", "parse_url"}
    found = {
        str(path.relative_to(ROOT))
        for app in ("billing", "keys", "completions", "rankings", "gateway_project")
        for path in (ROOT / app).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and reading & {each.name for each in node.names}
    }
    assert found == {"gateway_project/text/web_addresses.py"}


def paths(resolver, before=""):
    """Return one path of each pattern."""
    values = {"IntConverter": "1", "UUIDConverter": str(UUID(int=1)), "StringConverter": "x", "SlugConverter": "x"}
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            yield from paths(each, before + _filled(each.pattern, values))
        else:
            yield before + _filled(each.pattern, values)


def _filled(pattern, values):
    text = str(pattern).strip("^$")
    for name, converter in pattern.converters.items():
        value = values.get(type(converter).__name__, "x")
        text = text.replace(f"<{name}>", value).replace(f"<{type(converter).__name__[:-9].lower()}:{name}>", value)
    return text


@pytest.mark.parametrize("who", ["stranger", "owner", "superuser"])
def test_no_view_fails_of_a_malformed_address(request, db, who):
    client = request.getfixturevalue(who)
    client.raise_request_exception = False
    cookies, failed, seen = client.cookies.copy(), [], 0
    for place, path in enumerate(paths(get_resolver())):
        sent = {name: SENT[(place + i) % len(SENT)] for i, name in enumerate(NAMES)}
        for method in (client.get, client.post):
            reply = method(
                f"/{path}", sent, HTTP_REFERER=sent["next"].encode("ascii", "ignore").decode(), HTTP_ORIGIN="http://["
            )
            seen += 1
            if reply.status_code >= 500 and reply.status_code != 503:
                failed.append((method.__name__, path, reply.status_code))
        client.cookies = cookies.copy()
    assert failed == []
    assert seen > 200


@pytest.mark.parametrize("path", ["/accounts/login/", "/dashboard/sign-out/", "/admin/login/", "/accounts/reauthenticate/"])
def test_a_malformed_place_to_go_on_to_is_none(owner, path):  # noqa: F811
    for address in SENT:
        for client in (Client(), owner):
            sent = {"next": address, "login": "a", "password": "b"}
            for reply in (client.get(path, sent), client.post(path, sent)):
                assert reply.status_code < 500
                assert web_addresses.parse(reply.get("Location", "")) is not web_addresses.NO_ADDRESS
