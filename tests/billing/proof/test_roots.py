"""Each hour a root over the last entries of all accounts is signed, which names the one before it."""

import json
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.test import Client

from billing import tasks
from billing.models import Account, LedgerHead, LedgerLeaf, LedgerRoot, RootKey
from billing.proof import inclusion, roots, tree
from gateway_project.db import cell, pool
from gateway_project.web import public_page
from tests import cells, factories, usage
from tests.billing.proof import script

HOUR = timedelta(hours=1)


@pytest.fixture
def now(alice):
    return pool.database_time()


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(roots, "PART_LEAVES", 4)
    monkeypatch.setattr(roots, "ACCOUNTS_AT_ONCE", 3)


def facts(root):
    return script.load().lines_of({"number": root.number, "statement": root.statement})


def published():
    public_page.forget()
    return Client().get(script.KEYS).json()


def heads():
    """Return the leaves of all accounts that booked, by id."""
    accounts = Account.objects.filter(last_seq__gt=0)
    return {each.pk: (each.last_seq, each.entries.get(seq=each.last_seq).hash) for each in accounts}


def test_a_root_is_signed_once_an_hour_and_names_the_one_before(alice, bob):
    assert tasks.sign_ledger() == Account.objects.filter(last_seq__gt=0).count()
    now = LedgerRoot.objects.get().hour
    assert roots.sign_hour(now) == 0
    factories.credit(bob, 5)
    assert [roots.sign_hour(now + hours * HOUR) for hours in (1, 1, 2, 1)] == [1, 0, 0, 0]
    first, second, third = LedgerRoot.objects.order_by("number")
    assert facts(first)["previous"] == "0" * 64
    for before, after in ((first, second), (second, third)):
        assert facts(after)["previous"] == sha256(before.statement.encode()).hexdigest()
    assert int(facts(second)["accounts"]) == int(facts(first)["accounts"]) + 1
    assert facts(second)["root"] == facts(third)["root"] != facts(first)["root"]
    assert facts(second)["hour"] == f"{now + HOUR:%Y-%m-%dT%H}:00:00Z"
    assert usage.violations() == []


def test_nothing_is_signed_before_anything_is_booked(db):
    assert not Account.objects.filter(last_seq__gt=0).exists()
    assert (tasks.sign_ledger(), LedgerRoot.objects.count(), LedgerLeaf.objects.count()) == (0, 0, 0)


def test_each_root_includes_every_account_as_it_was(now, small_parts):
    accounts = [factories.make_account(str(n), cents=1) for n in range(9)]
    known, climb = {}, script.load().climb
    for number in range(1, 6):
        for account in accounts[number - 1 : number + 1]:
            factories.credit(account, number)
        accounts.append(factories.make_account("later", cents=1))
        roots.sign_hour(now + number * HOUR)
        known[number] = heads()
    for root in LedgerRoot.objects.order_by("number"):
        size, top = int(facts(root)["accounts"]), facts(root)["root"]
        assert size == root.size == len(known[root.number]) > 8
        assert len(root.parts) == 32 * -(-size // 4)
        for account_id, (seq, hash) in known[root.number].items():
            found = inclusion.find(account_id, root)
            assert (found.seq, found.hash) == (seq, hash)
            leaf = tree.leaf_hash(f"{account_id} {seq} {hash.hex()}".encode())
            assert climb(leaf, found.leaf, size, [each.hex() for each in found.path]).hex() == top
    assert inclusion.find(accounts[-1].pk, LedgerRoot.objects.get(pk=4)) is None


def test_only_what_was_booked_since_is_written(now):
    first = roots.sign_hour(now)
    factories.credit(factories.make_account("Other", cents=1), 1)
    assert roots.sign_hour(now + HOUR) == 1
    assert (LedgerHead.objects.count(), LedgerLeaf.objects.count()) == (first + 1, first + 1)


def test_roots_heads_and_leaves_are_never_changed(now):
    roots.sign_hour(now)
    for table in (LedgerRoot, LedgerHead, LedgerLeaf):
        row = table.objects.all()[:1].get()
        for change in (lambda row=row: row.delete(), lambda row=row: row.save(force_update=True)):
            try:
                with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
                    change()
            except ValueError:  # Django updates no row of which all columns are its key
                assert table is not LedgerRoot


def test_another_key_signs_after_a_rotation_and_both_verify(now, capsys):
    roots.sign_hour(now)
    call_command("rotate_root_key", "--json")
    made = json.loads(capsys.readouterr().out)["key"]
    roots.sign_hour(now + HOUR)
    keys, verify = published(), script.load().read_root
    assert [key["kid"] for key in keys["keys"]] == [made, facts(LedgerRoot.objects.get(pk=1))["key"]]
    assert all((key["kty"], key["crv"], key["alg"]) == ("OKP", "Ed25519", "EdDSA") for key in keys["keys"])
    for root in LedgerRoot.objects.all():
        shown = {"number": root.number, "statement": root.statement, "signature": b64encode(root.signature).decode()}
        assert verify(shown, keys)["number"] == str(root.number)


def test_a_key_is_sealed_and_encrypted_anew(now, settings):
    roots.sign_hour(now)
    sealed = RootKey.objects.get().sealed_secret
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]
    call_command("reencrypt_secrets")
    assert RootKey.objects.get().sealed_secret != sealed
    settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS[:1]
    roots.sign_hour(now + HOUR)
    assert LedgerRoot.objects.count() == 2


def test_accounts_of_all_cells_are_in_one_tree(now):
    with cells.added(max(cells.NUMBER, 2)):
        for number in cell.numbers():
            with cell.use(number):
                factories.make_account("There", cents=1)
        roots.sign_hour(now)
        for number in cell.numbers():
            with cell.use(number):
                [account] = Account.objects.filter(name="There")
                assert inclusion.find(account.pk, LedgerRoot.objects.get()) is not None
                assert usage.violations() == []
