"""The pages of ``docs/providers/``: each catalog on them is loaded, and driven against an imitation of its server."""

import re
import tomllib
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gevent.socket
import pytest
from django.core.management import call_command

from completions.providers.access import keeper
from tests.cases import undone
from tests.completions.providers.access import google_servers, servers
from tests.completions.providers.access.servers import AccessKeys
from tests.completions.providers.recipes import PAGES
from tests.completions.providers.recipes.imitation import TOOLS, Answered
from tests.completions.rows import MESSAGES, ask, assert_charged, assert_released, events
from tests.upstream import KEY

DOCS = Path(__file__).resolve().parents[3] / "docs" / "providers"
NOT_RECIPES = {"README", "adapters"}
RECIPES = [(page, provider) for page, recipes in PAGES.items() for provider in recipes]


def blocks(page):
    """Return the catalogs on a page, by the name of their provider."""
    texts = re.findall(r"```toml\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)
    return {name: text for text in texts for name in tomllib.loads(text)["providers"]}


@pytest.fixture
def service_account():
    """The JSON of a service account of Google, whose token server is on loopback."""
    with servers.serving() as cloud:
        cloud.answer = google_servers.answer_assertions(AccessKeys("ya29."))
        yield google_servers.service_account(f"{cloud.url}/token")


@pytest.fixture
def served(request, api, upstream, tmp_path, monkeypatch):
    """Load the catalog of a recipe, whose host is on loopback. Return the recipe and the id of its model."""
    page, provider = request.param
    recipe, block = PAGES[page][provider], blocks(page)[provider]
    tables = tomllib.loads(block)
    resolve, address = gevent.socket.getaddrinfo, urlsplit(tables["providers"][provider]["base_url"])
    monkeypatch.setattr(gevent.socket, "getaddrinfo", lambda host, *rest, **named: resolve("127.0.0.1", *rest, **named))
    path = tmp_path / "catalog.toml"
    origin = f"http://{address.hostname}:{urlsplit(upstream.url).port}"
    path.write_text(block.replace(f"{address.scheme}://{address.netloc}", origin))
    key = request.getfixturevalue("service_account") if recipe.has_account else KEY
    for variable in re.findall(r'\benv = "(\w+)"|api_key_env = "(\w+)"', block):
        monkeypatch.setenv(variable[0] or variable[1], key)
    for name, value in recipe.environment.items():
        monkeypatch.setenv(name, value)
    warnings = StringIO()
    call_command("load_catalog", path, stderr=warnings)
    assert warnings.getvalue() == ""
    [model] = tables["models"]
    yield recipe, model
    for _, kept in keeper.keepers.values():
        kept.end()
    keeper.keepers.clear()


def merged(told):
    """Return the choice that the events of a stream make."""
    deltas = [(choice["delta"], choice["finish_reason"]) for event in told[:-1] for choice in event["choices"]]
    calls = {}
    for call in (call for delta, _ in deltas for call in delta.get("tool_calls") or ()):
        function = calls.setdefault(call["index"], {"function": {"name": "", "arguments": ""}})["function"]
        for name in function:
            function[name] += call["function"].get(name) or ""
    message = {name: "".join(delta.get(name) or "" for delta, _ in deltas) for name in ("content", "reasoning_content")}
    [finish] = [finish for _, finish in deltas if finish]
    assert told[-1] == "[DONE]"
    return {"message": {**message, "tool_calls": list(calls.values())}, "finish_reason": finish}


def assert_answered(account, model, choice, reply):
    message = choice["message"]
    said = message.get("content") or "", choice["finish_reason"], message.get("reasoning_content") or ""
    assert said == (reply.text, reply.finish, reply.thoughts)
    calls = [(each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls") or ()]
    assert calls == list(reply.calls)
    tokens = {"prompt": reply.prompt, "completion": reply.completion, "cached": reply.cached}
    assert_charged(account, "reported", **tokens, nanos=reply.nanos, model=model)


def assert_refused(account, answer, reply):
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (reply.status, reply.code)
    assert reply.words in error["message"]
    assert_released(account)


FIELDS: dict[str, Any] = {
    "chat": {},
    "stream": {"stream": True},
    "tools": {"tools": TOOLS},
    "tools_stream": {"tools": TOOLS, "stream": True},
    "reasoning": {"reasoning_effort": "low"},
    "refusal": {},
    "error": {},
}


@pytest.mark.parametrize("served", RECIPES, ids=[provider for _, provider in RECIPES], indirect=True)
def test_a_recipe_works_as_its_page_has_it(served, api, alice, upstream, subtests):
    recipe, model = served
    for case, reply in ((case, reply) for case in FIELDS if (reply := getattr(recipe, case))):
        with subtests.test(case), undone():
            alice.refresh_from_db()
            mistakes = []
            upstream.will_answer(partial(answer, recipe, reply, mistakes))
            told = ask(api, model=model, **FIELDS[case])
            assert mistakes == []
            if isinstance(reply, Answered):
                choice = merged(events(told)) if told.streaming else told.json()["choices"][0]
                assert_answered(alice, model, choice, reply)
            else:
                assert_refused(alice, told, reply)


def answer(recipe, reply, mistakes, asked):
    mistakes.extend(recipe.mistakes(asked, reply))
    return reply.script


CLAUDES = [(page, provider) for page, provider in RECIPES if 'kind = "anthropic"' in blocks(page)[provider]]


@pytest.mark.parametrize("served", CLAUDES, ids=[provider for _, provider in CLAUDES], indirect=True)
def test_claude_of_a_cloud_takes_messages_as_they_are(served, api, alice, upstream, subtests):
    (recipe, model), fields = served, {"max_tokens": 4_096, "messages": MESSAGES}
    for case, reply in (("chat", recipe.chat), ("stream", recipe.stream)):
        with subtests.test(case), undone():
            alice.refresh_from_db()
            mistakes = []
            upstream.will_answer(partial(answer, recipe, reply, mistakes))
            told = api.post("/v1/messages", {"model": model, **fields, "stream": case == "stream"})
            texts = re.findall(r'"text": ?"([^"]+)"', told.getvalue().decode() if told.streaming else told.content.decode())
            assert ("".join(texts), mistakes) == (reply.text, [])
            tokens = {"prompt": reply.prompt, "completion": reply.completion, "cached": reply.cached}
            assert_charged(alice, "reported", **tokens, nanos=reply.nanos, model=model)


def test_every_catalog_of_a_page_has_an_imitation():
    pages = {path.stem for path in DOCS.glob("*.md")} - NOT_RECIPES
    assert {page: set(blocks(page)) for page in pages} == {page: set(recipes) for page, recipes in PAGES.items()}
    assert sorted(re.findall(r"\(([\w-]+)\.md\)", (DOCS / "README.md").read_text())) == sorted({*pages, "adapters"})
