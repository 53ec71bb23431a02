"""verify_statement.py as a customer runs it, against the API of the tests."""

import copy
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.environment import ROOT

PROOF, KEYS = "/api/billing/ledger/proof", "/.well-known/ledger-keys.json"
PATH = ROOT / "templates" / "static" / "verify_statement.py"


def load() -> Any:
    """Return the program as a module. Python's own import would leave a compiled file among the static ones."""
    module = ModuleType("verify_statement")
    exec(compile(PATH.read_text(), str(PATH), "exec"), module.__dict__)
    return module


def fetching(client: Any) -> Any:
    """Return what the script fetches with: a client of the tests."""

    def fetch(path: str, **values: int) -> dict[str, Any]:
        reply = client.get(path, values)
        assert reply.status_code == 200, reply.content
        return reply.json()

    return fetch


def save_csv(client: Any, path: Path) -> str:
    path.write_bytes(b"".join(client.get("/api/billing/ledger.csv").streaming_content))
    return str(path)


def save_proof(client: Any, path: Path) -> str:
    """Save what ``--save`` does."""
    path.write_text(json.dumps(client.get(PROOF).json()))
    return str(path)


def check(module: Any, client: Any, statement: str, fetch: Any = None) -> tuple[list[str], list[str]]:
    fetch = fetch or fetching(client)
    return module.check(module.read_witness(statement), fetch(PROOF), fetch, fetch(KEYS))


def forging(client: Any, forge: Any) -> Any:
    """Return what the script fetches with, where each proof is forged."""

    def fetch(path: str, **values: int) -> dict[str, Any]:
        reply = fetching(client)(path, **values)
        if path == PROOF:
            forge(reply)
        return reply

    return fetch


def change(*places: Any, to: Any) -> Any:
    def forge(reply: Any) -> None:
        for place in places[:-1]:
            if not (reply := reply[place] if isinstance(reply, dict) else dict(enumerate(reply)).get(place)):
                return
        if not isinstance(reply, list) or len(reply) > places[-1]:
            reply[places[-1]] = to(copy.deepcopy(reply[places[-1]]))

    return forge


def flipped(text: str) -> str:
    return text[:5] + ("0" if text[5] != "0" else "1") + text[6:]
