"""The script that the documentation shows follows the export of a running gateway, and finds what was damaged on the way."""

import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

from billing.models import LedgerEntry
from keys import management_keys
from tests import factories, waiting
from tests.document_server import reply, serving
from tests.live.gateway import wait_until_settled

PAGE = Path(__file__).parents[2] / "docs" / "api" / "account.md"


def run(address: str, secret: str) -> "subprocess.CompletedProcess[str]":
    [script] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    environ = {**os.environ, "GATEWAY_API_KEY": secret}
    command = [sys.executable, "-c", script, address]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=waiting.PROCESS_SECONDS_MAX)


def test_the_shown_script_adds_up_what_the_ledger_has(gateway, alice, echo_model):
    keys = [factories.make_key(alice) for _ in range(2)]
    manager = management_keys.issue(alice, name="books", created_by=alice.members.get())[1]
    for _, secret in (*keys, keys[0]):
        assert gateway.ask(secret).status == 200
    wait_until_settled(alice)
    usage = LedgerEntry.objects.filter(account=alice, type="USAGE_DEBIT")
    for secret, entries in ((manager, usage), (keys[0][1], usage.filter(spender=keys[0][0].pk))):
        ran = run(gateway.url, secret)
        assert ran.returncode == 0, ran.stderr
        assert Decimal(ran.stdout.split()[0]) * 10**9 == -sum(entry.amount_nanos for entry in entries)


def test_the_shown_script_finds_what_was_damaged_on_the_way(gateway, alice, echo_model):
    secret = factories.make_key(alice)[1]
    assert gateway.ask(secret).status == 200
    wait_until_settled(alice)
    page = gateway.request("GET", "/v1/usage/export", secret=secret).body
    with serving() as server:
        server.will(reply(page.replace(b'"cost_in_dollars":"0', b'"cost_in_dollars":"1')))
        ran = run(server.origin, secret)
    assert (ran.returncode, ran.stderr) == (1, "The page after '' is damaged.\n")
