"""The customer's program, and what a customer of it has kept."""

from datetime import timedelta

import pytest

from billing.proof import roots
from gateway_project.db import pool
from gateway_project.web import public_page
from tests import factories
from tests.billing.ledger_entries import spend
from tests.billing.proof import script
from tests.billing.proof.script import save_csv, save_proof


@pytest.fixture
def module(db):
    public_page.forget()
    return script.load()


@pytest.fixture
def statements(bob, bobs_client, tmp_path):
    """Let Bob and Mallory spend, sign a root, and give Bob what he keeps of it. Then both spend more, which is signed, too."""
    mallory, now = factories.make_account("Mallory"), pool.database_time()
    for hours in (0, 1):
        for account in (bob, mallory):
            factories.credit(account, 500)
            spend(account, 7_000_001, "key-a")
            spend(account, 123, "key-a")
        if not hours:
            roots.sign_hour(now)
            hash = bob.entries.get(seq=3).hash.hex()
            kept = [save_csv(bobs_client, tmp_path / "ledger.csv"), save_proof(bobs_client, tmp_path / "p.json"), f"3:{hash}"]
    roots.sign_hour(now + timedelta(hours=1))
    return kept
