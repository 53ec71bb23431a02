"""Where requests go, and with which headers, as catalog files state it: seen by the provider."""

import json

import pytest

from completions.models import Completion, Provider
from completions.providers.access import endpoints
from tests import sessions
from tests.completions.catalog.admin_forms import provider_fields, url
from tests.completions.rows import ask, ask_streamed, assert_charged, events, text
from tests.upstream import reply, streamed, whole

KEY = "a-key-of-0123456789"
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "large-2026",
    "content": [{"type": "text", "text": "Hello you"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 2},
}
COST_NANOS = 57_000


@pytest.fixture
def provider(load, monkeypatch, upstream):
    """Load a catalog with a provider of such a table. Its key is in the environment."""
    monkeypatch.setenv("CLOUD_KEY", KEY)

    def provider(table, *, kind="openai", base="{url}"):
        load(cloud=f'kind = "{kind}"\nbase_url = "{base.format(url=upstream.url)}"\n{table}')

    return provider


KEYS = [
    ("openai", 'auth = { type = "bearer", env = "CLOUD_KEY" }', "authorization", f"Bearer {KEY}"),
    ("openai", 'auth = { type = "header", name = "api-key", env = "CLOUD_KEY" }', "api-key", KEY),
    ("openai", 'auth = { type = "aws", env = "CLOUD_KEY" }', "authorization", f"Bearer {KEY}"),
    ("openai", 'api_key_env = "CLOUD_KEY"', "authorization", f"Bearer {KEY}"),
    ("anthropic", 'auth = { type = "bearer", env = "CLOUD_KEY" }', "authorization", f"Bearer {KEY}"),
    ("anthropic", 'auth = { type = "header", name = "API-Key", env = "CLOUD_KEY" }', "api-key", KEY),
    ("anthropic", 'api_key_env = "CLOUD_KEY"', "x-api-key", KEY),
]


@pytest.mark.parametrize(("kind", "table", "name", "value"), KEYS)
def test_a_key_is_shown_as_its_auth_says_and_in_no_other_way(api, alice, provider, upstream, kind, table, name, value, said):
    provider(table, kind=kind)
    upstream.will(reply(json.dumps(MESSAGE).encode()) if kind == "anthropic" else whole())
    answer = ask(api)
    assert answer.status_code == 200, answer.content
    sent = upstream.requests[0].headers
    assert sent[name] == value
    assert [other for other, shown in sent.items() if KEY in shown] == [name]
    assert KEY not in said.text + answer.content.decode()
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=COST_NANOS)


def test_headers_and_a_query_are_sent_with_whole_replies_and_streams(api, alice, provider, upstream):
    provider('headers = { x-team = "platform", OpenAI-Project = "p" }\nquery = { api-version = "2024-10-21", b = "x &=" }')
    upstream.will(whole(), streamed())
    assert ask(api).status_code == 200
    assert text(events(ask_streamed(api))) == "Hello you"
    for asked in upstream.requests:
        assert asked.path == "/v1/chat/completions?b=x%20%26%3D&api-version=2024-10-21"
        assert (asked.headers["x-team"], asked.headers["openai-project"]) == ("platform", "p")
    assert [each.cost_nanos for each in Completion.objects.all()] == [COST_NANOS] * 2


ADDRESSES = [
    ("{url}/openai/deployments/{{model}}", "", "/v1/openai/deployments/large-2026/chat/completions"),
    ("{url}", 'paths = { chat = "/d/{model}/chat?a=b" }\nquery = { c = "d" }', "/v1/d/large-2026/chat?a=b&c=d"),
    ("{url}/", "", "/v1/chat/completions"),
    ("{url}", 'paths = { chat = "/whole", chat_stream = "/streamed/{model}" }', "/v1/whole"),
]


@pytest.mark.parametrize(("base", "table", "path"), ADDRESSES)
def test_the_name_of_the_model_stands_in_addresses(api, alice, provider, upstream, base, table, path):
    provider(table, base=base)
    assert ask(api).status_code == 200
    assert upstream.requests[0].path == path
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=COST_NANOS)


def test_streams_have_a_path_of_their_own(api, provider, upstream):
    provider('paths = { chat = "/whole", chat_stream = "/streamed/{model}" }')
    upstream.will(streamed())
    assert text(events(ask_streamed(api))) == "Hello you"
    assert upstream.requests[0].path == "/v1/streamed/large-2026"


def test_claude_at_a_cloud_has_its_model_in_the_path_alone(api, alice, provider, upstream):
    paths = 'paths = { messages = "/models/{model}:rawPredict" }'
    provider(f'platform = "vertex"\n{paths}\nauth = {{ type = "bearer", env = "CLOUD_KEY" }}', kind="anthropic")
    upstream.will(reply(json.dumps(MESSAGE).encode()))
    assert ask(api).status_code == 200
    [asked] = upstream.requests
    assert asked.path == "/v1/models/large-2026:rawPredict"
    assert (asked.body["anthropic_version"], "model" in asked.body) == ("vertex-2023-10-16", False)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=COST_NANOS)


@pytest.mark.parametrize("name", ["anthropic/claude:0@001", "a b", "ü?#", "../x"])
def test_no_name_of_a_model_leaves_its_place_in_an_address(name):
    target = endpoints.GEMINI.target("p", "https://host/v1", "", {}, name)
    assert target.url.startswith("https://host/v1/v1beta/models/")
    inner = target.url.removeprefix("https://host/v1/v1beta/models/").removesuffix(":generateContent")
    assert not {"/", "?", "#", " "} & {*inner}


# --- What staff see and may change ------------------------------------------------------------------------------------


def change(admin_client, **fields):
    posted = provider_fields(**{"_confirmed": "on", "base_url": Provider.objects.get().base_url, **fields})
    return admin_client.post(url("provider", "change", "cloud"), posted)


@pytest.mark.parametrize("kind", ["google", "azure", "aws"])
def test_staff_do_not_send_the_credential_of_a_cloud_to_another_address(admin_client, admin_user, provider, kind):
    further = ', region = "r", service = "s"' if kind == "aws" else ""
    provider(f'auth = {{ type = "{kind}"{further} }}')
    sessions.sign_in(admin_client, admin_user)
    answer = change(admin_client, base_url="https://elsewhere.example.org/v1")
    assert answer.status_code == 200
    assert "A cloud&#x27;s credential goes to the address in the catalog file." in answer.content.decode()
    answer = change(admin_client, cancels="on")
    assert answer.status_code == 302
    stored = Provider.objects.get()
    assert (stored.base_url.startswith("http://127.0.0.1"), stored.cancels) == (True, True)


def test_staff_see_how_a_provider_is_reached_and_not_its_key(admin_client, admin_user, provider, api):
    provider('auth = { type = "header", name = "api-key" }\nheaders = { x-team = "platform" }')
    sessions.sign_in(admin_client, admin_user)
    assert change(admin_client, api_key="the-sealed-key-0123456789").status_code == 302
    shown = admin_client.get("/admin/completions/provider/cloud/change/").content.decode()
    assert "the-sealed-key" not in shown
    assert "stored here, encrypted" in shown
    assert "x-team" in shown
