"""Runs the commands of README.md unchanged, except for the port, against a real gunicorn."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from billing.models import LedgerEntry
from tests import factories, waiting
from tests.live.conftest import ROOT
from tests.live.gateway import Gateway, wait_until_settled

README = (ROOT / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8000"


def shell(beginning: str) -> str:
    """Return the one indented block that begins with ``beginning``."""
    found = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", README, re.MULTILINE)
    [block] = [block for block in found if block.strip().startswith(beginning)]
    return re.sub(r"^ {4}", "", block, flags=re.MULTILINE)


def python() -> str:
    [block] = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return block


@pytest.fixture
def secret(alice: Any) -> str:
    return factories.make_key(alice)[1]


@pytest.fixture
def working_directory(tmp_path: Path, gateway: Gateway, echo_model: Any, secret: str) -> Path:
    """A directory with the file that ``make run`` writes."""
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "quickstart.json").write_text(json.dumps({"api_key": secret}))
    return tmp_path


def run(command: list[str], text: str, where: Path, gateway: Gateway, **environ: str) -> str:
    """Run the command with ``text`` as its input, and return its standard output."""
    assert ADDRESS in text
    text = text.replace(ADDRESS, gateway.url)
    environ = {**os.environ, **environ}
    done = subprocess.run(
        command, input=text, cwd=where, env=environ, capture_output=True, text=True, timeout=waiting.PROCESS_SECONDS_MAX
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_one_completion_is_booked(account: Any) -> None:
    wait_until_settled(account)
    [entry] = LedgerEntry.objects.filter(account=account, type=LedgerEntry.Type.USAGE_DEBIT)
    assert entry.metadata["model"] == "demo/echo"
    assert entry.metadata["settlement"] == "reported"
    assert entry.amount_nanos < 0


def test_the_curl_example_completes_and_is_charged(working_directory, gateway, alice):
    printed = run(["bash", "-euo", "pipefail"], shell("export GATEWAY_API_KEY="), working_directory, gateway)
    reply = json.loads(printed)
    assert reply["choices"][0]["message"] == {"role": "assistant", "content": "Hello, gateway", "refusal": None}
    assert_one_completion_is_booked(alice)


def test_the_sdk_example_completes_and_is_charged(working_directory, gateway, alice, secret):
    assert run([sys.executable, "-"], python(), working_directory, gateway, GATEWAY_API_KEY=secret) == "Hello, gateway"
    assert_one_completion_is_booked(alice)


def test_the_named_path_serves_the_openapi_document(gateway):
    [path] = re.findall(r"`(/api/\S+\.json)`", README)
    assert gateway.request("GET", path).json()["info"]["title"] == "Model Gateway"


@pytest.mark.parametrize("path", re.findall(rf"{ADDRESS}(/(?:dashboard|admin)/)", README))
def test_the_named_pages_are_served(gateway, path):
    answer = gateway.request("GET", path)
    assert answer.status == 302
    assert gateway.request("GET", answer.headers["location"]).status == 200
