"""Each entry has a hash over itself and all before it, which the database computes."""

import json
import re
from hashlib import sha256
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction

from billing import locks
from billing.ledger import movements, writer
from billing.models import LedgerEntry
from billing.proof import chain
from gateway_project.db import pipelined_transaction
from tests import factories, usage
from tests.billing.proof import script
from tests.environment import ROOT

NOTHING = bytes(32)


def follow(account):
    """Compute the hashes of an account's entries here, and return how many there are."""
    account.refresh_from_db()
    recorded, before = chain.read_between(account.pk, 0, account.last_seq, limit=1_000), NOTHING
    for entry in recorded:
        before = sha256(before + sha256(entry.record.encode()).digest()).digest()
        assert entry.hash == before
    assert len(recorded) == account.last_seq
    return len(recorded)


def test_each_hash_is_made_of_the_record_and_of_the_hash_before(bob, entries):
    assert follow(bob) == len(entries)
    record = json.loads(chain.read_between(bob.pk, 3, 4, limit=1)[0].record)
    entry = entries[-4]
    assert record == [
        *(str(bob.pk), 4, str(entry.pk), entry.type, entry.amount_nanos, entry.balance_after_nanos),
        *(f"{entry.created_at:%Y-%m-%dT%H:%M:%S.%fZ}", entry.reference, entry.spender, entry.metadata),
    ]


def test_entries_of_several_accounts_in_one_statement_are_chained(alice, bob):
    factories.credit(bob, 5)
    with transaction.atomic():
        locked = [locks.lock_account(account.pk) for account in sorted([alice, bob], key=lambda each: each.pk)]
        figures: dict[str, Any] = {
            "model": 'a "model" é\n\u2028',
            "prompt_tokens": 1,
            "completion_tokens": 2,
            "settlement": "reported",
        }
        debits = [
            writer.debit_usage(locked[n % 2], cost_nanos=n, reference=f"completion-{n}", spender="key", **figures)
            for n in range(6)
        ]
        pipelined_transaction.execute(movements.write_statement(entries=debits))
    assert follow(alice) == follow(bob) == 4


def test_a_hash_that_is_given_or_left_out_is_computed(alice):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for seq, hash in ((2, "'forged'::bytea"), (3, "NULL")):
            cursor.execute(
                "INSERT INTO billing_ledgerentry"
                " (id, account_id, seq, type, amount_nanos, balance_after_nanos, reference, metadata, hash)"
                f" SELECT gen_random_uuid(), id, {seq}, 'USAGE_DEBIT', 0, balance_nanos, 'r{seq}', '{{}}', {hash}"
                " FROM billing_account WHERE id = %s",
                [alice.pk],
            )
        cursor.execute("UPDATE billing_account SET last_seq = 3 WHERE id = %s", [alice.pk])
    assert follow(alice) == 3


@pytest.fixture
def unhashed(alice):
    """Alice's three entries as they were before there were hashes, and the hashes that they had here."""
    usage.spend(alice, 5)
    usage.spend(alice, 6)
    hashes = dict(LedgerEntry.objects.values_list("seq", "hash"))
    empty(alice)
    return hashes


def empty(account):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE billing_ledgerentry DISABLE TRIGGER entries_are_never_changed")
        account.entries.update(hash=None)
        cursor.execute("ALTER TABLE billing_ledgerentry ENABLE TRIGGER entries_are_never_changed")


def test_entries_of_before_are_filled_in_parts_and_those_of_meanwhile_too(alice, unhashed, monkeypatch):
    usage.spend(alice, 7)  # by any release, while the migration runs
    assert LedgerEntry.objects.get(seq=4).hash is None
    migration = import_module("billing.migrations.0030_earlier_entries_have_hashes")
    monkeypatch.setattr(migration, "BATCH", 2)
    for _ in range(2):
        migration.fill(apps, None)
        assert follow(alice) == 4
    assert {seq: hash for seq, hash in LedgerEntry.objects.values_list("seq", "hash") if seq < 4} == unhashed
    assert usage.violations() == []


def test_a_first_entry_of_meanwhile_is_filled(bob, unhashed, monkeypatch):
    migration = import_module("billing.migrations.0030_earlier_entries_have_hashes")
    fill_some = migration.fill_some

    def book_meanwhile(account_id, seq):
        if not bob.entries.exists():
            factories.credit(bob, 5)
            empty(bob)  # as the former trigger left it
        return fill_some(account_id, seq)

    monkeypatch.setattr(migration, "fill_some", book_meanwhile)
    migration.fill(apps, None)
    assert follow(bob) == 1


def test_an_empty_hash_is_filled_once_after_the_one_before_it_and_with_nothing_else(unhashed):
    first, changes = LedgerEntry.objects.filter(seq=1), dict[str, Any]()
    for entries, changes in (
        (LedgerEntry.objects.filter(seq=2), {"hash": b""}),
        (first, {"hash": b"", "amount_nanos": 1}),
        (first, {"hash": b"", "metadata": {}}),
    ):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            entries.update(**changes)
    assert first.update(hash=b"forged") == 1
    assert first.get().hash == unhashed[1]
    for changes in ({"hash": None}, {"hash": b"forged"}):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            first.update(**changes)


def test_the_example_of_the_documentation_is_computed_as_it_says():
    page = (ROOT / "docs" / "api" / "proof.md").read_text()
    record, before, hash = re.findall(r"^    (\S.*)$", page.split("## The bytes")[1], re.MULTILINE)[:3]
    assert sha256(bytes.fromhex(before) + sha256(record.encode()).digest()).hexdigest() == hash
    assert script.load().hash_of(record, before) == hash
