"""Many programs on one account of a gateway with four workers, and a book that must be true to all that they were told.

``HISTORY_SEED`` repeats a run's requests, ``HISTORY_CALLS`` makes it longer: so many requests of each of ``HISTORY_CLIENTS``.
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

from tests import factories
from tests.completions.rows import assert_ledger_is_consistent
from tests.live import history, witnesses
from tests.live.conftest import ROOT
from tests.live.gateway import Gateway, eventually
from tests.live.history import BalanceReading, BookReading, History
from tests.live.witnesses import DEAR, LIMITED, NEITHER_LIMITED, NEVER, ODD

CLIENTS = int(os.environ.get("HISTORY_CLIENTS") or 6)
CALLS = int(os.environ.get("HISTORY_CALLS") or 60)
SEED = os.environ.get("HISTORY_SEED") or secrets.token_hex(4)
OPENING_CENTS = CLIENTS * CALLS // 16  # so that it runs dry before the end
LIMIT_CENTS = OPENING_CENTS // 8


def test_the_book_is_true_to_all_that_many_programs_were_told(transactional_db, gateways, bob, tmp_path):
    sys.stdout.write(f"HISTORY_SEED={SEED} HISTORY_CALLS={CALLS} HISTORY_CLIENTS={CLIENTS}\n")  # shown when it fails
    gateway = gateways(WEB_CONCURRENCY="4")
    mark = len(gateway.log())
    factories.make_model(ODD, input="0.1234567", output="7.654321")  # nothing comes out even
    factories.make_model(DEAR, input="50", output="150")
    factories.make_model(NEVER)
    factories.credit(bob, OPENING_CENTS)
    keys = {name: factories.make_key(bob, name)[1] for name in NEITHER_LIMITED}
    keys[LIMITED] = factories.make_key(bob, LIMITED, limit_cents=LIMIT_CENTS, type="FIXED")[1]
    seen = witness(gateway, {**keys, "nobody": "mgw_live_nobody"}, tmp_path)
    found = history.violations(seen)
    assert not found, "\n".join(f"{law}: {sentence}" for law, sentence in found[:30])
    assert_much_was_seen(seen)
    assert len(gateway.involved()) > 1
    assert_ledger_is_consistent()
    assert "Traceback" not in gateway.log()[mark:]


def witness(gateway: Gateway, keys: dict[str, str], directory: Path) -> History:
    port, secret = gateway.port, keys[NEITHER_LIMITED[0]]
    prices = witnesses.read_prices(port, secret)
    reader = Witness("reader", directory / "reader", port=port, secret=secret)
    clients = [
        Witness("client", directory / str(number), port=port, secrets=keys, seed=SEED, client=number, count=CALLS)
        for number in range(CLIENTS)
    ]
    calls = [call for client in clients for call in client.end()]
    eventually(lambda: Decimal(witnesses.get(port, secret, "/v1/usage")["balance"]["heldInDollars"]) == 0)
    read = reader.end()
    return History(
        opening_cents=OPENING_CENTS,
        prices=prices,
        calls=calls,
        books=[each for each in read if isinstance(each, BookReading)],
        balances=[each for each in read if isinstance(each, BalanceReading)],
        limits_cents={LIMITED: LIMIT_CENTS},
    )


class Witness:
    """A process and the file that it writes what it witnessed to: a pipe would fill and stop it."""

    def __init__(self, role: str, file: Path, **what: Any) -> None:
        self._file = file
        command = [sys.executable, "-m", "tests.live.witnesses", role]
        with file.open("w") as output:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, text=True)
        assert self._process.stdin
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def end(self) -> list[Any]:
        """Wait for it. A reader ends when its input does."""
        self._process.communicate()
        assert self._process.returncode == 0
        return witnesses.witnessed(self._file.read_text())


def assert_much_was_seen(seen: History) -> None:
    """A history in which nothing happened would obey every law."""
    statuses = Counter(call.status for call in seen.calls if call.model != NEVER)
    assert sum(statuses.values()) + sum(call.model == NEVER for call in seen.calls) == CLIENTS * CALLS
    assert {200, None, 400, 401, 402, 404, 429} <= set(statuses) <= {200, None, 400, 401, 402, 404, 409, 429}, statuses
    assert statuses[200] > CLIENTS * CALLS / 4
    assert any(call.is_replayed for call in seen.calls)
    assert len({len(book.entries) for book in seen.books}) > 3  # it was read while it grew
    assert len({reading.cents for reading in seen.balances}) > 3
