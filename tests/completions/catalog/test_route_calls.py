"""Staff call a route by hand: one short request, whatever circuits say. No account is charged."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from billing.models import LedgerEntry
from completions.models import Completion, LanguageModel, Provider, Route
from gateway_project.activity.models import Activity
from tests import factories, sessions
from tests.upstream import refusal, whole


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    sessions.sign_in(client, factories.User.objects.create_superuser("root@example.org", factories.PASSWORD))
    return client


def page(route: Route) -> str:
    return f"/admin/completions/route/{route.pk}/call/"


def text(reply: Any) -> str:
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split())


def test_a_call_shows_reply_tokens_and_price_and_charges_nobody(large: LanguageModel, upstream: Any, root: Client) -> None:
    route = large.routes.get()
    Route.objects.update(is_enabled=False)
    assert "The route is disabled, and is called all the same." in text(root.get(page(route)))
    assert not upstream.requests
    upstream.will(whole())
    said = text(root.post(page(route)))
    assert "It answered after" in said
    assert "9 of input, 2 of output" in said
    [sent] = upstream.requests
    assert sent.body["max_tokens"] == 32
    assert not Completion.objects.exists()
    assert not LedgerEntry.objects.filter(type="USAGE_DEBIT").exists()
    log = Activity.objects.get()
    assert (log.act, log.object_id) == ("CALLED", str(route.pk))


def test_a_failure_is_shown_as_the_provider_told_it(large: LanguageModel, upstream: Any, root: Client) -> None:
    upstream.will(refusal(401))
    said = text(root.post(page(large.routes.get())))
    assert "It failed after" in said
    assert "Status 401" in said
    assert "it failed" in Activity.objects.get().summary


def test_a_key_that_cannot_be_decrypted_is_said(large: LanguageModel, root: Client) -> None:
    Provider.objects.update(sealed_api_key="nonsense")
    assert "Its stored key cannot be decrypted" in text(root.post(page(large.routes.get())))
    assert Activity.objects.get().summary == "Called the route by hand: it failed: its stored key cannot be decrypted."


def test_a_call_needs_the_permission_to_change_routes(echo_model: LanguageModel) -> None:
    client = Client()
    user = factories.User.objects.create_user("staff@example.org", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_route"))
    sessions.sign_in(client, user)
    assert client.post(page(echo_model.routes.get())).status_code == 403
    assert "Test call" not in client.get(page(echo_model.routes.get()).replace("call/", "change/")).content.decode()
