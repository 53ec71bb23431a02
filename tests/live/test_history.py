"""Many programs use one account of a gateway with four workers; the ledger must agree with all that they were told.

``HISTORY_SEED`` repeats the requests of a run. ``HISTORY_CALLS`` is the number of requests of each of ``HISTORY_CLIENTS``.
"""

import json
import os
import secrets
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests import factories
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.live import history, history_programs
from tests.live.conftest import ROOT
from tests.live.gateway import Gateway, eventually
from tests.live.history import BalanceReading, History, LedgerReading
from tests.live.history_programs import DEAR, LIMITED, NEVER, ODD, UNLIMITED

pytestmark = pytest.mark.system

CLIENTS = int(os.environ.get("HISTORY_CLIENTS") or 6)
CALLS = int(os.environ.get("HISTORY_CALLS") or 60)
SEED = os.environ.get("HISTORY_SEED") or secrets.token_hex(4)
OPENING_CENTS = CLIENTS * CALLS // 16  # too little, so that the funds run out before the end
LIMIT_CENTS = OPENING_CENTS // 8


@fault(
    "Client",
    "Many programs use one account at once: leave, repeat, contradict themselves, send invalid requests",
    "The ledger agrees with all that they were told",
)
def test_the_ledger_agrees_with_what_many_programs_were_told(transactional_db, gateways, bob, tmp_path):
    sys.stdout.write(f"HISTORY_SEED={SEED} HISTORY_CALLS={CALLS} HISTORY_CLIENTS={CLIENTS}\n")  # shown when it fails
    gateway = gateways(WEB_CONCURRENCY="4")
    mark = len(gateway.log())
    factories.make_model(ODD, input="0.1234567", output="7.654321")  # prices that never give whole cents
    factories.make_model(DEAR, input="50", output="150")
    factories.make_model(NEVER)
    factories.credit(bob, OPENING_CENTS)
    keys = {name: factories.make_key(bob, name)[1] for name in UNLIMITED}
    keys[LIMITED] = factories.make_key(bob, LIMITED, limit_cents=LIMIT_CENTS, type="FIXED")[1]
    seen = collect(gateway, {**keys, "nobody": "mgw_live_nobody"}, tmp_path)
    found = history.violations(seen)
    assert not found, "\n".join(f"{rule}: {sentence}" for rule, sentence in found[:30])
    assert_history_is_rich(seen)
    assert len(gateway.involved()) > 1
    assert_ledger_is_consistent()
    assert "Traceback" not in gateway.log()[mark:]


def collect(gateway: Gateway, keys: dict[str, str], directory: Path) -> History:
    port, secret = gateway.port, keys[UNLIMITED[0]]
    prices = history_programs.read_prices(port, secret)
    reader = Program("reader", directory / "reader", port=port, secret=secret)
    clients = [
        Program("client", directory / str(number), port=port, secrets=keys, seed=SEED, client=number, count=CALLS)
        for number in range(CLIENTS)
    ]
    calls = [call for client in clients for call in client.end()]
    eventually(lambda: Decimal(history_programs.get(port, secret, "/v1/usage")["balance"]["heldInDollars"]) == 0)
    read = reader.end()
    return History(
        opening_cents=OPENING_CENTS,
        prices=prices,
        calls=calls,
        ledgers=[each for each in read if isinstance(each, LedgerReading)],
        balances=[each for each in read if isinstance(each, BalanceReading)],
        limits_cents={LIMITED: LIMIT_CENTS},
    )


class Program:
    """A process and its output file. A pipe would fill and block it."""

    def __init__(self, role: str, file: Path, **what: Any) -> None:
        self._file = file
        command = [sys.executable, "-m", "tests.live.history_programs", role]
        with file.open("w") as output:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, text=True)
        assert self._process.stdin
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def end(self) -> list[Any]:
        """Wait until the process ends, and return its records. A reader ends when its input is closed."""
        self._process.communicate()
        assert self._process.returncode == 0
        return history_programs.parse_output(self._file.read_text())


def assert_history_is_rich(seen: History) -> None:
    """A history in which nothing happened would violate no rule."""
    statuses = Counter(call.status for call in seen.calls if call.model != NEVER)
    assert sum(statuses.values()) + sum(call.model == NEVER for call in seen.calls) == CLIENTS * CALLS
    assert {200, None, 400, 401, 402, 404, 429} <= set(statuses) <= {200, None, 400, 401, 402, 404, 409, 429}, statuses
    assert statuses[200] > CLIENTS * CALLS / 4
    assert any(call.is_replayed for call in seen.calls)
    assert len({len(reading.entries) for reading in seen.ledgers}) > 3  # the ledger was read while it grew
    assert len({reading.cents for reading in seen.balances}) > 3
