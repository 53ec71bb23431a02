"""Forms of the catalog show what they would change, and what callers would notice of it, before they are saved."""

import re
from typing import Any

import pytest
from django.test import Client

from billing.models import Hold
from completions.models import LanguageModel, Provider, Route
from gateway_project import secretbox
from gateway_project.activity.models import Activity
from gateway_project.text import dollars
from tests import factories, sessions
from tests.completions.catalog.admin_forms import model_fields, provider_fields, url
from tests.completions.rows import ask_streamed, begin
from tests.upstream import streamed

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> Client:
    client = Client()
    sessions.sign_in(client, factories.User.objects.create_superuser("root@example.org", factories.PASSWORD))
    return client


def text(reply: Any) -> str:
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split())


def confirm(client: Client, page: str, shown: Any, **typed: str) -> Any:
    return client.post(page, {**dict(shown.context["sent"]), "_confirmed": "on", **typed})


def test_a_route_that_is_switched_off_shows_that_its_model_is_no_longer_served(echo_model: LanguageModel, root: Client) -> None:
    page = url("route", "change", echo_model.routes.get().pk)
    shown = root.post(page, {"api": "chat", "priority": 1, "weight": 2})
    said = text(shown)
    assert "Weight 1 2" in said
    assert "Is enabled yes no" in said
    assert "demo/echo is served yes no: it has no enabled route" in said
    assert "Priority" not in said
    assert list(Route.objects.values_list("weight", "is_enabled")) == [(1, True)]
    assert not Activity.objects.exists()
    assert confirm(root, page, shown).status_code == 302
    assert list(Route.objects.values_list("weight", "is_enabled")) == [(2, False)]
    assert Activity.objects.get().act == "CHANGED"


def test_a_model_shows_its_fields_and_routes(echo_model: LanguageModel, root: Client) -> None:
    page = url("languagemodel", "change", "demo_2Fecho")
    fields = model_fields(echo_model, name="Renamed", **{"routes-0-weight": 3})
    shown = root.post(page, fields)
    assert f"Name {echo_model.name} Renamed" in text(shown)
    route = f"Route to echo, {echo_model.routes.get().upstream_model}"
    assert f"{route} priority 1, weight 1, Chat completions, enabled priority 1, weight 3" in text(shown)
    assert confirm(root, page, shown).status_code == 302
    assert LanguageModel.objects.get().name == "Renamed"


def test_the_requests_that_run_are_counted_with_their_holds(
    api: Any, large: LanguageModel, upstream: Any, root: Client
) -> None:
    route = large.routes.get()
    page = url("route", "change", route.pk)
    upstream.will(streamed())
    reply = ask_streamed(api)
    _, rest = begin(reply, "Hello you")
    held = dollars.format_usd(Hold.objects.get().amount_nanos)
    shown = root.post(page, {"api": "chat", "priority": 1, "weight": 5, "is_enabled": "on"})
    assert f"1 request runs here now, with holds of {held}. They end as they were admitted." in text(shown)
    assert b"".join(rest)
    assert "0 requests run here now" in text(root.post(page, {"api": "chat", "priority": 1, "weight": 5, "is_enabled": "on"}))


def test_a_form_that_is_wrong_shows_its_errors_and_no_preview(echo_model: LanguageModel, root: Client) -> None:
    reply = root.post(url("route", "change", echo_model.routes.get().pk), {"api": "chat", "priority": 1, "weight": 0})
    assert list(reply.context["adminform"].form.errors) == ["__all__"]


def test_a_key_that_was_typed_is_not_sent_back_and_is_typed_again(root: Client) -> None:
    factories.make_provider("shed", kind="openai", base_url="http://gpu-shed:8001/v1")
    page = url("provider", "change", "shed")
    shown = root.post(page, provider_fields(api_key="sk-secret", total_seconds=9))
    assert "API key, again:" in text(shown)
    assert "sk-secret" not in shown.content.decode()
    assert confirm(root, page, shown, api_key="sk-secret").status_code == 302
    shed = Provider.objects.get()
    assert secretbox.decrypt(shed.sealed_api_key, purpose="provider:shed") == "sk-secret"
    assert shed.total_seconds == 9


def test_a_key_alone_is_saved_at_once(root: Client) -> None:
    factories.make_provider("shed", kind="openai", base_url="http://gpu-shed:8001/v1")
    assert root.post(url("provider", "change", "shed"), provider_fields(api_key="sk-secret")).status_code == 302
    assert Provider.objects.get().sealed_api_key
