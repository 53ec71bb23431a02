"""verify_statement.py as a customer runs it, against the API of the tests."""

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
