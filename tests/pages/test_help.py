"""Where people are told whom to write to, if the deployment says so."""

import pytest
from django.core import mail
from django.test import Client

from gateway_project.checks import check_support_address
from tests.pages.conftest import owner_of, signed_in

HELP = "mailto:help@example.com"
PAGES = {  # with the status of their reply
    "/accounts/login/": 200,
    "/accounts/signup/": 200,
    "/accounts/password/reset/": 200,
    "/accounts/password/link/?key=unknown": 404,
    "/accounts/inactive/": 200,
    "/dashboard/": 200,
    "/dashboard/keys/": 200,
    "/dashboard/billing/": 200,
    "/dashboard/members/": 200,
    "/dashboard/payments/": 404,
    "/accounts/2fa/": 200,
    "/accounts/sessions/": 200,
    "/nothing": 404,
}


@pytest.fixture(autouse=True)
def _address(settings):
    settings.SUPPORT_ADDRESS = "help@example.com"


def read(path, client, status=200):
    reply = client.get(path, headers={"accept": "text/html"})
    assert reply.status_code == status
    return reply.content.decode()


def test_every_page_says_whom_to_write_to(alice, settings):
    client = signed_in(owner_of(alice))
    clients = {path: Client() if path.startswith("/accounts/") else client for path in PAGES}
    clients |= dict.fromkeys(["/accounts/2fa/", "/accounts/sessions/"], client)
    assert [path for path, status in PAGES.items() if HELP not in read(path, clients[path], status)] == []
    settings.SUPPORT_ADDRESS = ""
    assert [path for path, status in PAGES.items() if "Questions?" in read(path, clients[path], status)] == []


def test_refusals_say_whom_to_write_to(alice):
    client = Client(enforce_csrf_checks=True, headers={"accept": "text/html"})
    forged = client.post("/accounts/login/", {"login": "x"})
    viewer = signed_in(owner_of(alice))
    alice.memberships.update(role="VIEWER")
    refused = viewer.get("/dashboard/members/invite/", headers={"accept": "text/html"})
    assert (forged.status_code, refused.status_code) == (403, 403)
    assert all(HELP in reply.content.decode() for reply in (forged, refused))


def test_mails_say_whom_to_write_to(alice, settings):
    for email in ("alice@example.org", "nobody@example.org"):
        Client().post("/accounts/password/reset/", {"email": email})
    settings.SUPPORT_ADDRESS = ""
    Client().post("/accounts/password/reset/", {"email": "alice@example.org"})
    last = "\n\nQuestions? Write to help@example.com.\n"
    assert [message.body.endswith(last) for message in mail.outbox] == [True, True, False]
    assert "Questions" not in mail.outbox[2].body


@pytest.mark.parametrize(("address", "ids"), [("", []), ("help@example.com", []), ("https://example.com", ["gateway.E031"])])
def test_an_address_that_is_none_is_found(address, ids, settings):
    settings.SUPPORT_ADDRESS = address
    assert [finding.id for finding in check_support_address()] == ids
