"""What coding agents sent in sessions that solved a task, each request again: no model's provider would refuse any of them.

`make agents` records the sessions (bench/agents): without secrets, with long texts cut. The providers are scripted as there.
"""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models import Sum

from bench.agents import programs
from bench.agents.__main__ import MODELS, REPLY_NANOS
from bench.agents.upstream import Session, Step, Upstreams
from completions.models import Completion
from tests import factories

RECORDED = Path(__file__).parent / "recorded"
SESSIONS = sorted(path.name for path in RECORDED.glob("*.json"))


@pytest.fixture(scope="module")
def upstreams():
    server = Upstreams()
    yield server
    server.stop()


@pytest.fixture
def models(upstreams, db, tmp_path):
    """Load the models of the recordings. Return what they are called: a session may continue with any of them."""
    catalog = tmp_path / "agents.toml"
    catalog.write_text((programs.HERE / "models.toml").read_text().replace("UPSTREAM", upstreams.url))
    call_command("load_catalog", str(catalog), stdout=StringIO())
    return [*MODELS.values()]


def send(api: Any, request: dict[str, Any], **fields: Any) -> Any:
    headers: Any = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request["headers"].items()}
    raw = json.dumps({**request["body"], **fields})
    return api.generic("POST", request["path"], raw, content_type="application/json", **headers)


def test_there_are_sessions_of_each_agent_without_secrets():
    agents = {"aider", "anthropic", "claude", "codex", "llm", "opencode", "openrouter", "pydantic"}
    assert {name.partition("-")[0] for name in SESSIONS} == agents
    for name in SESSIONS:
        recorded = (RECORDED / name).read_text()
        assert not re.search(r"mgw_live_|sk-|/(tmp|root|home)/", recorded), name


@pytest.mark.parametrize("session", SESSIONS)
def test_a_session_goes_on_with_every_model(api, alice, models, upstreams, session):
    requests = json.loads((RECORDED / session).read_text())
    upstreams.session = Session()
    for index, request in enumerate(requests):
        for model in {request["body"]["model"], models[index % len(models)]}:
            reply = send(api, request, model=model)
            assert reply.status_code == 200, (model, reply.content)
            assert b"The task is done." in reply.getvalue() or not request["body"].get("tools")
    assert upstreams.session.problems == []
    charged = Completion.objects.aggregate(sum=Sum("cost_nanos"))["sum"]
    assert charged == upstreams.session.replies * REPLY_NANOS > 0


@pytest.mark.parametrize("session", [name for name in SESSIONS if name.endswith("chat.json")])
def test_the_echo_answers_every_request(api, session, db):
    factories.make_model(
        "demo/echo", provider=factories.make_provider("echo", kind="echo"), function_calling=True, context_window=200_000
    )
    for request in json.loads((RECORDED / session).read_text()):
        reply = send(api, request, model="demo/echo")
        assert reply.status_code == 200, reply.content
        assert reply.getvalue()


def test_calls_of_a_namespace_come_back_in_it(api, models, upstreams):
    [first, *_] = json.loads((RECORDED / "codex-latest-scripted-chat.json").read_text())
    upstreams.session = Session([Step("mcp__notes__count_words", {"text": "one"})])
    told = send(api, first).getvalue().decode()
    done = json.loads(told.rpartition("event: response.completed\ndata: ")[2])
    call = done["response"]["output"][-1]
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "mcp__notes", "count_words")
