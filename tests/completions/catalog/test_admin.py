"""Admin pages of the catalog and of completions: keys are never shown, prices are only added, referenced rows stay."""

import datetime
import json
import re
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from billing.models import Hold, User
from completions.catalog import lookup
from completions.models import Completion, LanguageModel, Price, Provider, RoutableAlias, Route, UpstreamList
from gateway_project import secretbox
from gateway_project.activity.models import Activity
from tests import factories, sessions
from tests.completions.catalog.admin_forms import model_fields, provider_fields, url

pytestmark = pytest.mark.django_db

NOUNS = ["provider", "languagemodel", "price", "route", "completion"]
SECRET = "sk-very-secret-0123456789"


def staff(*permissions: str, **fields: Any) -> Client:
    user = User.objects.create_user("staff@example.org", is_staff=True, **fields)
    user.user_permissions.set(
        Permission.objects.get(content_type__app_label="completions", codename=name) for name in permissions
    )
    client = Client()
    sessions.sign_in(client, user)
    return client


@pytest.fixture
def root() -> Client:
    return staff(is_superuser=True)


@pytest.fixture
def shed() -> Provider:
    return factories.make_provider("shed", kind="openai", base_url="http://gpu-shed:8001/v1")


@pytest.fixture
def completion(alice, echo_model) -> Completion:
    key, _ = factories.make_key(alice)
    at = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
    Hold.objects.create(
        reference="chatcmpl-1",
        account=alice,
        amount_nanos=20_000,
        state=Hold.State.SETTLED,
        settled_nanos=9_000,
        expires_at=at,
        resolved_at=at,
    )
    return Completion.objects.create(
        id="chatcmpl-1",
        account=alice,
        key=key,
        model=echo_model,
        price=echo_model.prices.get(),
        provider_id="echo",
        is_stream=False,
        spending_day=datetime.date(2026, 11, 21),
        counted_tokens=10,
        settlement="reported",
        prompt_tokens=3,
        cached_tokens=0,
        completion_tokens=5,
        cost_nanos=9_000,
        finished_at=at,
    )


def listed(client: Client, **query: str) -> list[str]:
    """The ids of the completions in the list."""
    return [completion.pk for completion in client.get(url("completion", "changelist"), query).context["cl"].result_list]


def save(client: Client, noun: str, pk: str | None, fields: dict[str, object]):
    """Post the form, as if its preview had been seen; an empty value for a checkbox leaves it unticked."""
    where = url(noun, "change", pk) if pk else url(noun, "add")
    return client.post(where, {"_confirmed": "on", **{name: value for name, value in fields.items() if value != ""}})


# --- Permissions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noun", NOUNS)
def test_staff_without_permission_are_denied(noun, completion):
    client = staff()
    pk = {"provider": "echo", "languagemodel": "demo/echo", "completion": "chatcmpl-1"}.get(noun, 1)

    assert client.get(url(noun, "changelist")).status_code == 403
    assert client.get(url(noun, "add")).status_code == 403
    assert client.get(url(noun, "change", pk)).status_code == 403
    assert client.post(url(noun, "delete", pk), {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("noun", NOUNS)
def test_account_owners_are_redirected_to_the_sign_in(noun, alice):
    client = Client()
    client.force_login(alice.members.get())

    assert client.get(url(noun, "changelist")).status_code == 302


@pytest.mark.parametrize("noun", NOUNS)
def test_a_superuser_can_open_every_page(noun, completion, root):
    pks = {"provider": "echo", "languagemodel": "demo/echo", "completion": "chatcmpl-1"}
    pk = pks.get(noun) or {"price": Price, "route": Route}[noun]._default_manager.get().pk

    assert root.get(url(noun, "changelist")).status_code == 200
    assert root.get(url(noun, "change", pk)).status_code == 200


@pytest.mark.parametrize("noun", ["provider", "languagemodel", "price", "completion"])
def test_a_superuser_cannot_delete_rows_that_completions_refer_to(noun, completion, root):
    rows = {"provider": Provider, "languagemodel": LanguageModel, "price": Price, "completion": Completion}[noun]
    pk = rows._default_manager.get().pk

    assert root.post(url(noun, "delete", pk), {"post": "yes"}).status_code == 403
    root.post(url(noun, "changelist"), {"action": "delete_selected", "_selected_action": pk, "post": "yes"})

    assert rows._default_manager.get().pk == pk


# --- Keys of providers ----------------------------------------------------------------------------------------------


def test_a_key_is_stored_encrypted_and_never_shown(shed, root):
    reply = save(root, "provider", "shed", provider_fields(api_key=SECRET))

    assert reply.status_code == 302
    shed.refresh_from_db()
    assert secretbox.decrypt(shed.sealed_api_key, purpose="provider:shed") == SECRET
    assert SECRET not in shed.sealed_api_key
    for page in (url("provider", "change", "shed"), url("provider", "changelist"), url("provider", "history", "shed")):
        html = root.get(page).content.decode()
        assert SECRET not in html
        assert shed.sealed_api_key not in html
    assert "stored here, encrypted" in root.get(url("provider", "changelist")).content.decode()
    assert not Activity.objects.filter(after__icontains=SECRET).exists()


def test_a_key_in_an_invalid_form_is_not_sent_back(shed, root):
    reply = save(root, "provider", "shed", provider_fields(base_url="ftp://x", api_key=SECRET))

    assert reply.status_code == 200
    assert SECRET not in reply.content.decode()
    shed.refresh_from_db()
    assert (shed.sealed_api_key, shed.base_url) == ("", "http://gpu-shed:8001/v1")


def test_saving_without_a_key_keeps_the_stored_one(shed, root):
    save(root, "provider", "shed", provider_fields(api_key=SECRET))
    sealed = Provider.objects.get(pk="shed").sealed_api_key

    save(root, "provider", "shed", provider_fields(is_enabled=""))

    shed.refresh_from_db()
    assert (shed.sealed_api_key, shed.is_enabled) == (sealed, False)


def test_a_stored_key_can_be_replaced_and_forgotten(shed, root):
    save(root, "provider", "shed", provider_fields(api_key=SECRET))
    save(root, "provider", "shed", provider_fields(api_key="sk-new"))
    shed.refresh_from_db()
    assert secretbox.decrypt(shed.sealed_api_key, purpose="provider:shed") == "sk-new"

    save(root, "provider", "shed", provider_fields(forget_api_key="on"))
    shed.refresh_from_db()
    assert shed.sealed_api_key == ""


def test_a_service_account_of_google_is_stored_in_one_line(shed, root):
    Provider.objects.update(access={"auth": {"type": "google"}})
    account = {"type": "service_account", "client_email": "a@b.c", "private_key": "M" * 2_400, "token_uri": "https://x.example"}
    assert save(root, "provider", "shed", provider_fields(api_key=SECRET)).status_code == 200
    save(root, "provider", "shed", provider_fields(api_key=json.dumps(account, indent=2)))
    assert Provider.objects.get().read_api_key() == json.dumps(account, separators=(",", ":"))


def test_requests_to_a_provider_created_with_a_key_send_it(root):
    fields = provider_fields(slug="barn", kind="openai", base_url="http://ollama:11434/v1/", api_key=SECRET)
    assert save(root, "provider", None, fields).status_code == 302

    barn = Provider.objects.get(pk="barn")
    assert (barn.kind, barn.base_url, barn.api_key_env) == ("openai", "http://ollama:11434/v1", "")
    factories.make_model("m", provider=barn)
    assert [route.api_key for route in lookup.find_offer("m").routes] == [SECRET]


def test_the_echo_needs_no_address(echo_model, root):
    assert save(root, "provider", "echo", provider_fields(base_url="", is_enabled="")).status_code == 302
    assert not Provider.objects.get().is_enabled

    refused = save(root, "provider", "echo", provider_fields())
    assert list(refused.context["adminform"].form.errors) == ["base_url"]
    assert Provider.objects.get().base_url == ""


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"base_url": ""}, "base_url"),
        ({"base_url": "gpu-shed:8001"}, "base_url"),
        ({"base_url": "http://me:pw@gpu-shed/v1"}, "base_url"),
        ({"base_url": "http://gpu-shed/v1?key=1"}, "base_url"),
        ({"api_key": "two words"}, "api_key"),
        ({"api_key": "sk-\r\nX-Evil: 1"}, "api_key"),
        ({"api_key": "sk-ключ"}, "api_key"),
        ({"api_key": SECRET, "forget_api_key": "on"}, "forget_api_key"),
    ],
)
def test_an_invalid_provider_is_refused_at_its_field_and_nothing_changes(shed, root, changed, field):
    before = Provider.objects.values().get()

    reply = save(root, "provider", "shed", provider_fields(**changed))

    assert reply.status_code == 200
    assert list(reply.context["adminform"].form.errors) == [field]
    assert Provider.objects.values().get() == before


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest", "http://127.0.0.1:5432", "http://[::1]/v1", "http://localhost/v1"]
)
def test_staff_cannot_enter_a_private_address_unless_it_is_permitted(shed, root, settings, url):
    settings.PRIVATE_UPSTREAMS = []
    before = Provider.objects.values().get()

    reply = save(root, "provider", "shed", provider_fields(base_url=url))

    [said] = reply.context["adminform"].form.errors["base_url"]
    assert said == "The base URL leads to a private address, which GATEWAY_PRIVATE_UPSTREAMS does not permit."
    assert Provider.objects.values().get() == before


@pytest.mark.parametrize("has_key", [{"sealed_api_key": "sealed"}, {"api_key_env": "SHED_API_KEY"}])
def test_an_address_cannot_change_without_entering_the_key_again(shed, root, has_key):
    Provider.objects.update(**has_key)

    reply = save(root, "provider", "shed", provider_fields(base_url="https://evil.example/v1"))

    assert list(reply.context["adminform"].form.errors) == ["api_key"]
    assert Provider.objects.get().base_url == "http://gpu-shed:8001/v1"


def test_an_address_changes_with_a_new_key_and_the_old_variable_is_cleared(shed, root):
    Provider.objects.update(api_key_env="SHED_API_KEY")

    save(root, "provider", "shed", provider_fields(base_url="https://new.example/v1", api_key=SECRET))

    shed.refresh_from_db()
    assert (shed.base_url, shed.api_key_env) == ("https://new.example/v1", "")
    assert secretbox.decrypt(shed.sealed_api_key, purpose="provider:shed") == SECRET


def test_staff_say_that_a_server_is_the_operators_own(shed, root):
    save(root, "provider", "shed", provider_fields(passes_unknown_fields="on"))
    assert Provider.objects.get().passes_unknown_fields
    save(root, "provider", "shed", provider_fields())
    assert not Provider.objects.get().passes_unknown_fields


def test_a_provider_has_its_own_deadlines_or_those_of_the_settings(shed, root):
    save(root, "provider", "shed", provider_fields(connect_seconds=2, total_seconds=600, cancels="on"))
    shed.refresh_from_db()
    assert (shed.connect_seconds, shed.first_byte_seconds, shed.idle_seconds, shed.total_seconds) == (2, None, None, 600)
    assert shed.cancels

    refused = save(root, "provider", "shed", provider_fields(idle_seconds=0))
    assert refused.status_code == 200
    assert refused.context["adminform"].form.errors
    shed.refresh_from_db()
    assert (shed.connect_seconds, shed.idle_seconds, shed.cancels) == (2, None, True)


def test_the_name_of_the_environment_variable_cannot_be_edited(shed, root):
    save(root, "provider", "shed", provider_fields(api_key_env="GATEWAY_SECRET_KEY"))

    assert Provider.objects.get().api_key_env == ""


def test_the_list_of_providers_shows_which_key_is_missing(shed, root, monkeypatch):
    Provider.objects.update(api_key_env="SHED_API_KEY")
    assert "missing: SHED_API_KEY is not set" in root.get(url("provider", "changelist")).content.decode()

    monkeypatch.setenv("SHED_API_KEY", SECRET)
    html = root.get(url("provider", "changelist")).content.decode()
    assert "in SHED_API_KEY" in html
    assert SECRET not in html


def test_the_page_of_a_provider_says_how_it_is_reached(shed, root):
    def page() -> str:
        html = root.get(url("provider", "change", "shed")).content.decode()
        return html.partition("How it is reached:")[2].partition("field-is_enabled")[0]

    assert "As its kind says: the catalog file states nothing else." in page()
    access = {
        "auth": {"type": "header", "name": "api-key"},
        "headers": {"x-team": "a<b"},
        "query": {"api-version": "2024-10-21"},
        "paths": {"chat": "/c/{model}"},
        "platform": "azure",
    }
    Provider.objects.update(access=access)
    shown = "api-key<br>Header x-team: a&lt;b<br>Query api-version=2024-10-21<br>Path of chat: /c/{model}<br>Platform: azure"
    assert f"The key is sent in the header {shown}" in page()
    Provider.objects.update(access={"auth": {"type": "bearer"}})
    assert "The key is sent as Authorization: Bearer" in page()
    Provider.objects.update(access={"auth": {"type": "aws", "region": "eu-central-1", "service": "bedrock"}})
    assert "The credential is one of AWS<br>region: eu-central-1<br>service: bedrock" in page()


def test_the_pages_of_providers_say_where_a_credential_comes_from(shed, root, monkeypatch):
    def key() -> str:
        html = root.get(url("provider", "changelist")).content.decode()
        return html.partition("field-key")[2].partition(">")[2].partition("<")[0]

    assert key() == "none"
    Provider.objects.update(access={"auth": {"type": "google"}})
    assert key() == "fetched from Google by google-auth with what it finds on each host"
    Provider.objects.update(access={"auth": {"type": "azure"}}, api_key_env="SHED_API_KEY")
    assert key() == "missing: SHED_API_KEY is not set"
    monkeypatch.setenv("SHED_API_KEY", SECRET)
    assert key() == "fetched from Azure by azure-identity with a secret that is in SHED_API_KEY"
    Provider.objects.update(access={"auth": {"type": "aws"}})
    assert key() == "in SHED_API_KEY"
    now = timezone.now()
    Provider.objects.update(access={"auth": {"type": "google"}}, api_key_env="", key_refused_at=now, key_refusal="no server")
    assert key().endswith(f"each host; at {now:%H:%M} UTC there was no credential on some host: no server")
    Provider.objects.update(refused_key="of an earlier key")
    assert key().endswith("each host")


def test_staff_with_view_permission_cannot_enter_a_key(shed):
    client = staff("view_provider")

    html = client.get(url("provider", "change", "shed")).content.decode()
    assert "gpu-shed" in html
    assert 'name="api_key"' not in html
    assert save(client, "provider", "shed", provider_fields(api_key=SECRET)).status_code == 403
    assert Provider.objects.get().sealed_api_key == ""


# --- Models and prices ----------------------------------------------------------------------------------------------


def test_an_existing_price_can_be_neither_changed_nor_removed(echo_model, root):
    before = Price.objects.values().get()

    save(
        root,
        "languagemodel",
        "demo/echo",
        model_fields(echo_model, **{"prices-0-input_dollars": "0.01", "prices-0-DELETE": "on"}),
    )
    assert root.post(url("price", "change", before["id"]), {"input_dollars": "0.01"}).status_code == 403

    assert Price.objects.values().get() == before


def test_a_model_page_shows_prices_in_dollars_and_that_it_is_served(echo_model, root):
    html = root.get(url("languagemodel", "change", "demo/echo")).content.decode()

    assert "0.50" in html
    assert "1.50" in html
    assert "500000000" not in html
    assert '<div class="readonly">yes</div>' in html


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda: LanguageModel.objects.update(is_enabled=False), "no: it is disabled"),
        (lambda: Price.objects.all().delete(), "no: it has no price in force"),
        (lambda: Route.objects.update(is_enabled=False), "no: it has no enabled route"),
        (lambda: Provider.objects.update(is_enabled=False), "no: it has no route to a provider that is enabled"),
        (lambda: Provider.objects.update(kind="openai", api_key_env="NOT_SET_KEY"), "no: it has no route to a provider"),
    ],
)
def test_the_page_of_a_model_that_is_not_served_says_why(echo_model, root, spoil, reason):
    spoil()

    on_hover = f'<span title="{reason.replace("no: it", "It")}'
    assert on_hover in root.get(url("languagemodel", "changelist")).content.decode()


def test_a_model_is_created_with_its_route_and_price(root, settings):
    settings.PRICES_NEED_APPROVAL = False
    factories.make_provider()
    fields = {
        "id": "demo/new",
        "name": "New",
        "maker": "Demo",
        "kind": "chat",
        "category": "GENERAL",
        "is_enabled": "on",
        "context_window": 1000,
        "max_output_tokens": 100,
        "image_tokens_max": 1,
        "routes-TOTAL_FORMS": 1,
        "routes-INITIAL_FORMS": 0,
        "routes-0-provider": "echo",
        "routes-0-upstream_model": "echo",
        "routes-0-api": "chat",
        "routes-0-priority": 1,
        "routes-0-weight": 1,
        "routes-0-is_enabled": "on",
        "prices-TOTAL_FORMS": 1,
        "prices-INITIAL_FORMS": 0,
        "prices-0-input_dollars": "1",
        "prices-0-output_dollars": "2",
    }

    assert save(root, "languagemodel", None, fields).status_code == 302
    assert lookup.find_offer("demo/new").price.rate("output") == 2_000_000_000


@pytest.mark.parametrize("typed", ["1_0", "\N{ARABIC-INDIC DIGIT THREE}"])
def test_a_number_in_other_digits_is_refused_at_its_field(echo_model, root, typed):
    provider = factories.make_provider("shed", kind="openai", base_url="http://gpu-shed:8001/v1")
    reply = save(root, "provider", provider.pk, provider_fields(connect_seconds=typed))
    assert list(reply.context["adminform"].form.errors) == ["connect_seconds"]
    route = echo_model.routes.get()
    fields = model_fields(echo_model) | {"routes-0-weight": typed}
    assert save(root, "languagemodel", echo_model.pk, fields).status_code == 200
    provider.refresh_from_db()
    assert (provider.connect_seconds, echo_model.routes.get().weight) == (None, route.weight)


def test_a_route_by_an_api_that_its_provider_does_not_have_is_refused(echo_model, root):
    route = echo_model.routes.get()
    asked = {"api": "responses", "priority": 1, "weight": 1, "is_enabled": "on"}
    shown = save(root, "route", route.pk, asked)
    assert "It must be chat: only providers of the kind openai have Responses." in shown.content.decode()
    Provider.objects.update(kind="openai", base_url="https://up.example/v1")
    assert save(root, "route", route.pk, asked).status_code == 302
    assert Route.objects.get().adapter == "openai-responses"


def test_the_id_of_a_model_cannot_be_changed(echo_model, root):
    save(root, "languagemodel", "demo/echo", model_fields(echo_model, id="demo/other", name="Renamed"))

    assert list(LanguageModel.objects.values_list("pk", "name")) == [("demo/echo", "Renamed")]


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"max_output_tokens": 128_001}, "max_output_tokens"), ({"context_window": 0, "max_output_tokens": 0}, "__all__")],
)
def test_an_invalid_model_is_refused(echo_model, root, changed, field):
    before = LanguageModel.objects.values().get()

    reply = save(root, "languagemodel", "demo/echo", model_fields(echo_model, **changed))

    assert field in reply.context["adminform"].form.errors
    assert LanguageModel.objects.values().get() == before


@pytest.mark.parametrize("model_id", ["two words", "a//b", "/a", "a/.."])
def test_a_model_id_that_does_not_fit_a_url_is_refused(echo_model, root, model_id):
    reply = save(root, "languagemodel", None, model_fields(echo_model, id=model_id))

    assert list(reply.context["adminform"].form.errors) == ["id"]
    assert LanguageModel.objects.count() == 1


def test_aliases_and_stored_lists_can_be_viewed(echo_model, shed, root):
    RoutableAlias.objects.create(id="best/general", model_ids=["demo/echo"])
    UpstreamList.objects.create(provider=shed, url="http://gpu-shed:8001/v1/models", body="a whole list", failure="Too long.")

    for noun, pk, shown in [("routablealias", "best/general", "demo/echo"), ("upstreamlist", "shed", "Too long.")]:
        for page in (url(noun, "changelist"), url(noun, "change", quote(pk))):
            html = root.get(page).content.decode()
            assert shown in html
            assert "a whole list" not in html
        assert root.post(url(noun, "change", quote(pk)), {}).status_code == 403
        assert root.post(url(noun, "delete", quote(pk)), {"post": "yes"}).status_code == 403


# --- Completions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["id", "account id", "account name", "member", "key"])
def test_completions_are_found_by_every_id_a_caller_knows(completion, root, by):
    term = {
        "id": "chatcmpl-1",
        "account id": str(completion.account_id),
        "account name": "alice",
        "member": "Alice@example.org",
        "key": completion.key_id,
    }[by]

    assert listed(root, q=term) == ["chatcmpl-1"]
    assert listed(root, q="x" + term) == []


@pytest.mark.parametrize(
    ("field", "value", "other"), [("model__id__exact", "demo/echo", "demo/other"), ("settlement__exact", "reported", "partial")]
)
def test_completions_can_be_filtered(completion, root, field, value, other):
    factories.make_model("demo/other")  # a filter with one choice is not offered

    assert listed(root, **{field: value}) == ["chatcmpl-1"]
    assert listed(root, **{field: other}) == []


def test_a_completion_shows_its_cost_in_dollars_and_cannot_be_changed(completion, root):
    before = Completion.objects.values().get()
    page = url("completion", "change", "chatcmpl-1")

    assert "0.000009" in root.get(page).content.decode()
    assert root.post(page, {"cost_nanos": 1}).status_code == 403
    assert root.get(url("completion", "add")).status_code == 403
    assert Completion.objects.values().get() == before


def test_a_route_shows_until_when_its_circuit_is_open_in_some_process(echo_model, root):
    def shown(hours):
        Route.objects.update(rests_until=timezone.now() + datetime.timedelta(hours=hours))
        pages = [url("route", "changelist"), url("route", "change", Route.objects.get().pk)]
        return [root.get(page).content.decode() for page in pages]

    in_list, on_page = shown(hours=-1)
    assert '<td class="field-open_until">no</td>' in in_list
    assert "no process has opened it lately" in on_page
    in_list, on_page = shown(hours=1)
    assert re.search(r'<td class="field-open_until">until \d\d:\d\d:\d\d</td>', in_list)
    assert re.search(r"open in a process until \d\d:\d\d:\d\d; a hint to the others", on_page)
