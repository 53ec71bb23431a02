"""An old statement finds what was changed since by someone who may write everything, and forged proofs prove nothing."""

import json
import math
import re
import sys
from datetime import timedelta
from http.client import IncompleteRead
from pathlib import Path

import pytest
from django.db import connection, transaction

from billing.models import LedgerRoot, RootKey
from billing.proof import roots
from gateway_project.db import pool
from tests import factories
from tests.billing import guards
from tests.billing.proof.script import KEYS, PROOF, change, check, fetching, flipped, forging
from tests.conftest import client_for
from tests.document_server import reply, serving

# Public keys, messages and signatures of RFC 8032, section 7.1.
SIGNED = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


def tamper(*statements):
    """Write past all triggers, with the rights of a superuser, and forge what the audit compares in the ledger."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET LOCAL session_replication_role = replica")
        for statement in statements:
            cursor.execute(statement)
        guards.forge_hashes()
        cursor.execute("SET LOCAL session_replication_role = origin")


def sign_anew():
    """Forge the signed roots, too, with the gateway's own key: as one who may also read its secrets."""
    tamper("DELETE FROM billing_ledgerroot", "DELETE FROM billing_ledgerhead", "DELETE FROM billing_ledgerleaf")
    for hours in (0, 1):
        roots.sign_hour(pool.database_time() + timedelta(hours=hours))


def test_what_was_not_changed_is_proven(module, bob, bobs_client, statements):
    for statement in statements:
        proven, open_ = check(module, bobs_client, statement)
        assert "to 6 follow each other" in proven[0]
        bob.refresh_from_db()
        assert proven[1] == f"The balance after entry 6 is {bob.balance_nanos / 10**9:.9f} dollars."
        assert any("Root 2" in line and "includes entry 6 and all before" in line for line in proven)
        assert any(line.startswith("That each charge was right") for line in open_)
    assert "Root 2 follows root 1, which you have." in check(module, bobs_client, statements[1])[0]
    assert any(line.startswith("3 lines of your file: in each") for line in check(module, bobs_client, statements[0])[0])


WHERE = "WHERE account_id = '{bob}'"
REPLACED = (
    f"UPDATE billing_ledgerentry SET amount_nanos = amount_nanos + 1, balance_after_nanos = balance_after_nanos + seq {WHERE}",
    "UPDATE billing_account SET balance_nanos = balance_nanos + last_seq WHERE id = '{bob}'",
)
TAMPERINGS = {
    "a whole ledger is replaced by a consistent one": (REPLACED, "was changed"),
    "an amount is changed with all balances after it": (
        (
            f"UPDATE billing_ledgerentry SET amount_nanos = amount_nanos - 1 {WHERE} AND seq = 2",
            f"UPDATE billing_ledgerentry SET balance_after_nanos = balance_after_nanos - 1 {WHERE} AND seq >= 2",
            "UPDATE billing_account SET balance_nanos = balance_nanos - 1 WHERE id = '{bob}'",
        ),
        "was changed",
    ),
    "the tail is cut": (
        (
            f"DELETE FROM billing_ledgerentry {WHERE} AND seq > 1",
            "UPDATE billing_account SET last_seq = 1, balance_nanos = 5000000000 WHERE id = '{bob}'",
        ),
        "the end was cut off",
    ),
    "two accounts are swapped": (
        (
            "UPDATE billing_ledgerentry SET account_id = '{bob}', seq = seq + 1000 WHERE account_id = '{mallory}'",
            "UPDATE billing_ledgerentry SET account_id = '{mallory}' WHERE account_id = '{bob}' AND seq < 1000",
            "UPDATE billing_ledgerentry SET seq = seq - 1000 WHERE account_id = '{bob}'",
        ),
        "was changed",
    ),
}


def test_an_old_statement_finds_what_was_changed_past_the_triggers(module, bob, bobs_client, statements, subtests):
    ids = {"bob": bob.pk, "mallory": bob.__class__.objects.get(name="Mallory").pk}
    for way, (changes, words) in TAMPERINGS.items():
        for has_roots_anew in (False, True):
            for statement in statements:
                with subtests.test(f"{way}, {has_roots_anew}, {statement[-10:]}"), transaction.atomic():
                    tamper(*(change.format(**ids) for change in changes))
                    if has_roots_anew:
                        sign_anew()
                    with pytest.raises(module.NotProven, match=words):
                        check(module, bobs_client, statement)
                    transaction.set_rollback(True)


def test_roots_that_were_made_anew_are_found_by_a_proof_that_was_saved(module, bobs_client, statements):
    factories.credit(factories.make_account("Other"), 5)
    sign_anew()
    with pytest.raises(module.NotProven, match="root 1 is another|root 2 does not follow root 1"):
        check(module, bobs_client, statements[1])


def test_a_statement_of_another_account_proves_nothing(module, alice, statements, api):
    with pytest.raises(module.NotProven, match="your file is of the account"):
        check(module, api, statements[1])


def test_a_file_that_was_changed_is_told_from_a_ledger_that_was(module, bobs_client, statements):
    path = Path(statements[0])
    path.write_text(path.read_text().replace("-0.007000001", "-0.007000002"))
    with pytest.raises(module.NotProven, match="entry 2 of your file has another amountInDollars than the ledger: was"):
        check(module, bobs_client, statements[0])


# --- Forged replies -----------------------------------------------------------------------------------------------


def dearer(entry):
    return {**entry, "record": entry["record"].replace("-7000001,", "-7000002,")}


def uncounted(entry):
    account, seq, id, type, *_, at = json.loads(entry["record"])[:7]
    return {**entry, "record": json.dumps([account, seq, id, type, math.inf, math.inf, at])}


FORGED = {
    "the last hash": (change("head", "hash", to=flipped), "do not end with"),
    "an end before the statement": (change("head", "entry", to=lambda _: 2), "the end was cut off"),
    "a record": (change("entries", 4, "record", to=lambda text: text.replace("key-a", "key-b")), "do not end with"),
    "an amount": (change("entries", to=lambda entries: [dearer(each) for each in entries]), "is not the one before"),
    "no entries": (change("entries", to=lambda _: []), "entry [12] is missing"),
    "entries in another order": (change("entries", to=lambda entries: entries[::-1]), "in the place of entry"),
    "an amount without end": (change("entries", to=lambda entries: [uncounted(each) for each in entries]), "no whole number"),
    "the signature": (change("root", "signature", to=lambda text: "AAAA" + text[4:]), "signature of root 2 is wrong"),
    "no signature": (change("root", "signature", to=lambda _: ""), "signature of root 2 is wrong"),
    "the root": (
        change("root", "statement", to=lambda text: re.sub("root: .{4}", "root: 0000", text)),
        "signature of root 2 is wrong",
    ),
    "the key": (change("root", "statement", to=lambda text: re.sub("key: .{3}", "key: xxx", text)), "none of the public keys"),
    "no statement": (change("root", "statement", to=lambda text: f"x{text}"), "is malformed"),
    "the number": (change("root", "number", to=lambda number: number + 1), "is malformed"),
    "the path": (change("inclusion", "path", to=lambda path: [flipped(each) for each in path]), "does not include the ledger"),
    "a short path": (change("inclusion", "path", to=lambda path: path[:-1]), "too short|does not include"),
    "a long path": (change("inclusion", "path", to=lambda path: [*path, "00" * 32]), "too long|does not include"),
    "the place": (change("inclusion", "leaf", to=lambda _: 10**9), "outside|as root 1 did"),
    "another entry": (change("inclusion", "entry", to=lambda _: 5), "does not include the ledger"),
    "the account": (change("account", to=lambda _: "x"), "in the place of entry|is of the account"),
}


def test_a_forged_proof_proves_nothing(module, bobs_client, statements, subtests):
    for what, (forge, words) in FORGED.items():
        for statement in statements:
            with subtests.test(f"{what}, {statement[-10:]}"), pytest.raises(module.NotProven, match=words):
                check(module, bobs_client, statement, forging(bobs_client, forge))


TAKEN_BACK = {
    "the root": (change("root", to=lambda _: None), "there is no root. You have root 1"),
    "that it includes the ledger": (change("inclusion", to=lambda _: None), "does not include the ledger as root 1 did"),
    "the entry that it includes": (change("inclusion", "entry", to=lambda _: 2), "does not include the ledger as root 1 did"),
    "the place of the ledger": (change("inclusion", "leaf", to=lambda leaf: leaf + 1), "does not include the ledger as root 1"),
}


def test_what_a_root_that_is_kept_said_is_not_taken_back(module, bobs_client, statements, subtests):
    for what, (forge, words) in TAKEN_BACK.items():
        with subtests.test(what), pytest.raises(module.NotProven, match=words):
            check(module, bobs_client, statements[1], forging(bobs_client, forge))


def test_a_key_under_the_id_of_another_verifies_nothing(module, bobs_client, statements):
    public = RootKey.objects.get()
    forged = {"keys": [{"kid": public.pk, "x": "A" * 43, "kty": "OKP", "crv": "Ed25519"}]}
    with pytest.raises(module.NotProven, match="none of the public keys"):
        module.check(module.read_witness(statements[2]), bobs_client.get(PROOF).json(), fetching(bobs_client), forged)


def test_signatures_are_those_of_rfc_8032(module):
    for public, message, signature in SIGNED:
        key, text, sign = map(bytes.fromhex, (public, message, signature))
        assert module.verify(key, text, sign)
        assert not module.verify(key, text + b"x", sign)
        assert not module.verify(
            key, text, sign[:32] + (int.from_bytes(sign[32:], "little") + module.ORDER).to_bytes(32, "little")
        )
        for place in (0, 31, 32, 63):
            other = bytearray(sign)
            other[place] ^= 1
            assert not module.verify(key, text, bytes(other))
        assert not module.verify(key[:31], text, sign)
        assert not module.verify(b"\xff" * 32, text, sign)


# --- The program --------------------------------------------------------------------------------------------------


def run(module, monkeypatch, client, *arguments):
    monkeypatch.setattr(module, "fetch_from", lambda url, key: fetching(client))
    monkeypatch.setattr(sys, "argv", ["verify_statement.py", *arguments])
    return module.main()


def test_the_program_says_what_is_proven_and_saves_what_proves_more(
    module, bob, bobs_client, statements, monkeypatch, capsys, tmp_path
):
    saved = str(tmp_path / "saved.json")
    assert run(module, monkeypatch, bobs_client, statements[0], "https://gateway.example.com", "--save", saved) == 0
    words = capsys.readouterr().out
    assert words.startswith("Proven:\n- Entries 1 to 6 follow each other.")
    assert "\nNot proven:\n- That each charge was right" in words
    assert "use --keys" in words
    assert {"account", "head", "root", "inclusion", "keys"} == json.loads(Path(saved).read_text()).keys()
    head = json.loads(Path(saved).read_text())["head"]
    factories.credit(bob, 5)
    options = ("--keys", saved, "--save", saved)
    assert run(module, monkeypatch, bobs_client, saved, "https://gateway.example.com", *options) == 0
    assert "use --keys" not in capsys.readouterr().out
    assert json.loads(Path(saved).read_text())["head"]["entry"] == head["entry"] + 1


def test_the_program_ends_with_1_for_another_ledger_and_2_for_no_statement(
    module, bobs_client, statements, monkeypatch, capsys, tmp_path
):
    url = "https://gateway.example.com"
    assert run(module, monkeypatch, bobs_client, f"3:{'0' * 64}", url) == 1
    assert "NOT THE SAME: entry 3 of your file, or one before it, was changed" in capsys.readouterr().out
    (tmp_path / "empty.csv").write_text("seq,hash\n")
    (tmp_path / "old.csv").write_text("seq,id\n1,x\n")  # of a release without hashes
    (tmp_path / "list.json").write_text("{}")
    names = ("empty.csv", "old.csv", "list.json", "none.csv")
    for given in (*(str(tmp_path / name) for name in names), "3:", "0:" + "0" * 64, "x:" + "0" * 64, "3:" + "g" * 64):
        assert run(module, monkeypatch, bobs_client, given, url) == 2
        assert "Cannot verify" in capsys.readouterr().err
    assert run(module, monkeypatch, bobs_client, "none.csv", url) == 2
    assert "none.csv is no file, and not ENTRY:HASH" in capsys.readouterr().err


def test_what_cannot_be_read_is_not_said_to_be_another_ledger(module, bobs_client, statements, monkeypatch, capsys, tmp_path):
    told = Path(statements[0]).read_text()
    files = {
        "decimal commas of a spreadsheet": told.replace("-0.007000001", '"-0,007000001"'),
        "an endless amount": told.replace("-0.007000001", "Infinity"),
        "a field without end": told.replace("-0.007000001", "9" * 200_000),
        "a list": "[" * 100_000,
        "JSON without end": "{" + '"a":[' * 100_000,
        "two different lines of an entry": told + told.partition("\n")[2].replace("-0.007000001", "-0.007000002"),
    }
    for what, text in files.items():
        (tmp_path / what).write_text(text)
        assert run(module, monkeypatch, bobs_client, str(tmp_path / what), "https://gateway.example.com") == 2, what
        assert "Cannot verify" in capsys.readouterr().err
    options = ("https://gateway.example.com", "--save", str(tmp_path / "none" / "proof.json"))
    assert run(module, monkeypatch, bobs_client, statements[0], *options) == 2


def test_a_reply_that_ends_early_is_not_said_to_be_another_ledger(module, bobs_client, statements, monkeypatch):
    def end_early(*values, **options):
        raise IncompleteRead(b"")

    monkeypatch.setattr(module, "check", end_early)
    assert run(module, monkeypatch, bobs_client, statements[0], "https://gateway.example.com") == 2


def test_a_file_that_repeats_its_lines_is_proven(module, bobs_client, statements):
    path = Path(statements[0])
    path.write_text(path.read_text() + path.read_text().partition("\n")[2])
    assert any(line.startswith("3 lines of your file: in each") for line in check(module, bobs_client, statements[0])[0])


def test_an_account_that_is_not_signed_yet_is_proven_by_its_chain_alone(module, bob, bobs_client):
    factories.credit(bob, 5)
    hash = bob.entries.get().hash.hex()
    proven, open_ = check(module, bobs_client, f"1:{hash}")
    assert len(proven) == 2
    assert any("no root includes it yet" in line for line in open_)
    assert LedgerRoot.objects.count() == 0
    assert client_for(None).get(KEYS).json() == {"keys": []}


def test_the_key_is_shown_to_the_gateway_alone(module):
    with serving() as gateway, serving() as other:
        gateway.will(reply(status=302, Location=f"{other.origin}/"))
        other.will(reply("{}"))
        assert module.fetch_from(gateway.origin, "a-secret")(PROOF, root=1) == {}
    assert gateway.received[0].headers["authorization"] == "Bearer a-secret"
    assert "authorization" not in other.received[0].headers
