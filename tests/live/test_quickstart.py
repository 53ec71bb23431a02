"""The code that /docs shows, run as it stands against a gateway: curl and Python always, TypeScript in ``make faults``."""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client

from completions.models import Completion
from completions.public import facts
from gateway_project.web import public_page
from tests import factories, waiting
from tests.shown_code import uncoloured
from tests.upstream import whole

pytestmark = pytest.mark.usefixtures("gateway", "models")
TOPICS = ["chat", "streaming", "tools", "messages", "responses", "embeddings", "errors"]
AGENTS = Path(__file__).parents[2] / "docs" / "api" / "agents.md"
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
CALLS = whole("", message={"role": "assistant", "content": None, "tool_calls": [CALL]}, finish_reason="tool_calls")
ANSWER = "It is 18 °C in Paris."
# What each example prints. In the one with tools the model calls a function first.
PRINTED = {
    "chat": "Hello\n",
    "streaming": "Hello\ntokens: 5\n",
    "tools": f"{ANSWER}\n",
    "messages": "Hello\n",
    "responses": "Hello\n",
    "embeddings": " dimensions\n",
    "errors": "Hello\n",
}
FOUND_IN_CURL = {
    **dict.fromkeys(["chat", "errors"], '"content":"Hello"'),
    "streaming": '"total_tokens":5',
    "tools": '"name":"get_weather"',
    "messages": '"text":"Hello"',
    "responses": '"text":"Hello"',
    "embeddings": '"object":"embedding"',
}


@pytest.fixture
def models(echo_model, large):
    """The models that the page names. Only that of the upstream calls tools."""
    large.function_calling = True
    large.save()
    factories.make_model("demo/embed", kind="embedding", input="0.10", output="0", max_output_tokens=1)


@pytest.fixture
def secret(alice, monkeypatch):
    secret = factories.make_key(alice)[1]
    monkeypatch.setenv("GATEWAY_API_KEY", secret)
    return secret


@pytest.fixture
def page(gateway):
    """The page, with the address of the gateway: it is made here, as the gateway shows models up to half a minute late."""
    for cache in (facts, public_page):
        cache.forget()
    return uncoloured(Client().get("/docs").content.decode()).replace("http://testserver", gateway.url)


def code(page, id):
    """Return what stands in a block of code. Where it needs no tools, the echo answers."""
    shown = html.unescape(re.search(rf'<code id="{id}">(.*?)</code>', page, re.DOTALL)[1])
    assert "{{" not in shown
    return shown if id.startswith("tools") else shown.replace("acme/large", "demo/echo")


def run(text):
    space = {}
    exec(text, space)  # noqa: S102  it is ours
    space["client"].close()


def in_shell(text, **environ):
    command = ["bash", "-c", text]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environ}, timeout=waiting.PROCESS_SECONDS_MAX
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_example_with_curl_runs(page, secret, alice, upstream, subtests):
    for topic in TOPICS:
        with subtests.test(topic):
            if topic == "tools":
                upstream.will(CALLS)
            assert FOUND_IN_CURL[topic] in re.sub(r'": ', '":', in_shell(code(page, f"{topic}-curl")))
    assert Completion.objects.filter(account=alice).count() == len(TOPICS)


def test_every_example_in_python_runs(page, secret, alice, upstream, capsys, subtests):
    for topic in TOPICS:
        with subtests.test(topic):
            if topic == "tools":
                upstream.will(CALLS, whole(ANSWER))
            run(code(page, f"{topic}-python"))
            printed = capsys.readouterr().out
            assert printed.endswith(PRINTED[topic])
    result = upstream.requests[-1].body["messages"][-1]
    assert (result["role"], result["content"]) == ("tool", "18 °C and sunny in Paris")
    assert Completion.objects.filter(account=alice).count() == len(TOPICS) + 1


def test_the_example_of_errors_prints_what_programs_need(page, monkeypatch, capsys):
    monkeypatch.setenv("GATEWAY_API_KEY", "mgw_live_wrong")
    run(code(page, "errors-python"))
    assert re.fullmatch(r"401 invalid_api_key req_\w+\n", capsys.readouterr().out)


def test_a_program_for_openai_moves_by_two_variables(page, secret):
    program = "import openai; print(openai.OpenAI().models.list().data[0].object)"
    assert (
        in_shell(
            f"{code(page, 'moving-lines')}\npython -c '{program}'", PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        )
        == "model\n"
    )


def test_the_lines_for_coding_agents_are_those_that_were_tried(gateway, page):
    """``make agents`` writes the page of agents, and lets each work with its lines."""
    tried = AGENTS.read_text().replace("http://127.0.0.1:8000", gateway.url)
    for agent in ("claude-code", "codex", "aider", "opencode"):
        shown = code(page, f"{agent}-lines")
        assert f"\n{shown}\n```" in tried, agent


@pytest.mark.long
def test_every_example_in_typescript_runs(page, secret, upstream, tmp_path, subtests):
    if not shutil.which("npm"):
        pytest.skip("no npm on the PATH")
    install = next(line for line in code(page, "install-lines").splitlines() if line.startswith("npm")).partition("#")[0]
    in_shell(f"cd {tmp_path} && {install} --silent --no-audit --no-fund")
    for topic in TOPICS:
        with subtests.test(topic):
            if topic == "tools":
                upstream.will(CALLS, whole(ANSWER))
            (tmp_path / f"{topic}.mjs").write_text(code(page, f"{topic}-typescript"))
            assert in_shell(f"cd {tmp_path} && node {topic}.mjs").endswith(PRINTED[topic])
