"""A client that openapi-python-client generates from the OpenAPI description, against a running gateway."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import factories, waiting
from tests.ledger_audit import assert_ledger_is_consistent

pytestmark = pytest.mark.system

PROGRAM = """
import sys

from client import AuthenticatedClient
from client.api.v1 import create_chat_completion, create_message, create_response, list_models
from client.models import (
    ChatCompletion, ChatCompletionRequest, ChatCompletionRequestMessage, ChatCompletionRole, ErrorResponse,
    ListModelsAvailable, Message, MessageParam, MessageParamRole, MessageRequest, ModelList,
    ModelResponse, ModelResponseRequest, OutputMessage, OutputText, TextBlock,
)


def models(client: AuthenticatedClient) -> str:
    reply = list_models.sync(client=client, available=ListModelsAvailable.ALL)
    assert isinstance(reply, ModelList)
    return reply.data[0].id


def chat(client: AuthenticatedClient) -> str:
    said = ChatCompletionRequestMessage(role=ChatCompletionRole.USER, content="Hello chat")
    reply = create_chat_completion.sync(client=client, body=ChatCompletionRequest(model="demo/echo", messages=[said]))
    assert isinstance(reply, ChatCompletion)
    return reply.choices[0].message.content or ""


def messages(client: AuthenticatedClient) -> str:
    said = MessageParam(role=MessageParamRole.USER, content="Hello messages")
    reply = create_message.sync(client=client, body=MessageRequest(model="demo/echo", messages=[said], max_tokens=100))
    assert isinstance(reply, Message)
    return "".join(block.text for block in reply.content if isinstance(block, TextBlock))


def responses(client: AuthenticatedClient) -> str:
    reply = create_response.sync(client=client, body=ModelResponseRequest(model="demo/echo", input_="Hello responses"))
    assert isinstance(reply, ModelResponse)
    said = [part for item in reply.output if isinstance(item, OutputMessage) for part in item.content]
    return "".join(part.text for part in said if isinstance(part, OutputText))


def refused(client: AuthenticatedClient) -> str:
    reply = create_chat_completion.sync(client=client, body=ChatCompletionRequest(model="no/model", messages=[]))
    assert isinstance(reply, ErrorResponse)
    return reply.error.param or ""


with AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2]) as client:
    for read in (models, chat, messages, responses, refused):
        print(read(client))
"""


def run(directory: Path, *command: str) -> str:
    """Run a module of Python. Return what it prints."""
    ended = subprocess.run(
        [sys.executable, "-m", *command], cwd=directory, capture_output=True, text=True, timeout=waiting.PROCESS_SECONDS_MAX
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.usefixtures("echo_model")
def test_a_generated_client_reads_replies_by_their_types(gateway: Any, alice: Any, tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_bytes(gateway.request("GET", "/api/openapi.json").body)
    (tmp_path / "config.json").write_text(json.dumps({"post_hooks": []}))
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--meta", "none", "--config", "config.json", "--output-path", "client", "--fail-on-warning"]
    run(tmp_path, "openapi_python_client", "generate", "--path", "openapi.json", *options)
    run(tmp_path, "mypy", "--strict", "--config-file=", "--cache-dir=/dev/null", "program.py")
    printed = run(tmp_path, "program", gateway.url, factories.make_key(alice)[1])
    assert printed.splitlines() == ["demo/echo", "Hello chat", "Hello messages", "Hello responses", "messages"]
    assert_ledger_is_consistent()
