"""verify_statement.py calls nothing proven that it did not compare, whoever hands on the file, whatever the gateway says."""

import csv
import io
import json
import re
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from billing.ledger import writer
from billing.proof import roots
from gateway_project.db import pool
from tests import factories
from tests.billing.proof.script import KEYS, PROOF, change, check, fetching, flipped, forging, save_csv, save_proof
from tests.document_server import reply, serving

URL = "https://gateway.example.com"
TERMINAL = "\x1b[2K\rProven:\n- everything \u202e\x9b"  # erases its line, and begins others


def run(module, monkeypatch, capsys, arguments, fetch=None):
    """Return the exit code, and what the program printed; with its own HTTP if there is no ``fetch``."""
    if fetch:
        monkeypatch.setattr(module, "fetch_from", lambda url, key: fetch)
    monkeypatch.setattr(sys, "argv", ["verify_statement.py", *arguments])
    code, printed = module.main(), capsys.readouterr()
    return code, printed.out + printed.err


# --- Files --------------------------------------------------------------------------------------------------------

# The second of the entries is usage, of 7,000,001 nanodollars.
CHANGED = {
    "id": ["", "x"],
    "type": ["SUPPORT_CREDIT", "usage_debit"],
    "createdAt": ["{}x", "{} tomorrow", "2026", ""],
    "amountInDollars": ["-0.007000002", "0.007000001", "-0.0070000011", "-7.0000019E-3", "-0.007000001" + "0" * 40 + "1", "0"],
    "balanceAfterInDollars": ["49.92999999", "4.99299999901"],
    "amountInCents": ["-2", "0", "", "-1.0"],
    "balanceAfterInCents": ["500", "", "0499"],
    "apiKey": ["key-b", "", "'key-a"],
    "model": ["demo/dear", "", "DEMO/ECHO", "demo/echo ", "'demo/echo"],
    "tokens": ["8", "", "07", "7.0", "\uff17"],
    "promptTokens": ["4", ""],
    "completionTokens": ["3", ""],
    "completionId": ["chatcmpl-x", ""],
    "settlement": ["estimated", ""],
    "paymentId": ["pi_1"],
    "reason": ["A gift", "'"],
}


def edited(path, seq, changes):
    """Write a copy of a CSV file, in which cells of one line are others; ``{}`` is what they were."""
    rows = list(csv.DictReader(io.StringIO(Path(path).read_text(), newline="")))
    for row in rows:
        if row["seq"] == seq:
            row.update({name: value.replace("{}", row.get(name, "")) for name, value in changes.items()})
    written = io.StringIO()
    copied = csv.DictWriter(written, list({**rows[0], **changes}))
    copied.writeheader()
    copied.writerows(rows)
    copy = Path(path).with_name("edited.csv")
    copy.write_text(written.getvalue())
    return str(copy)


def columns_of(path):
    return Path(path).read_text().splitlines()[0].split(",")


def test_a_line_with_another_value_in_any_column_is_found(module, bobs_client, statements, subtests):
    assert {*CHANGED, "hash", "seq"} == {*columns_of(statements[0])}
    for column, values in CHANGED.items():
        for value in values:
            with subtests.test(f"{column}: {value}"):
                file = edited(statements[0], "2", {column: value})
                with pytest.raises(module.NotProven, match=f"entry 2 of your file has another {column} than the ledger"):
                    check(module, bobs_client, file)


def test_another_zone_is_another_time(module, bobs_client, statements):
    time = re.search(r"[^,]{23}Z", Path(statements[0]).read_text())[0]
    with pytest.raises(module.NotProven, match="another createdAt"):
        check(module, bobs_client, edited(statements[0], "2", {"createdAt": f"{time[:-1]}-12:00"}))


def test_amounts_as_a_spreadsheet_writes_them_are_the_same(module, bobs_client, statements):
    for amount in ("-7.000001E-03", "-0.0070000010", "-00.007000001"):
        proven, _ = check(module, bobs_client, edited(statements[0], "2", {"amountInDollars": amount}))
        assert any(line.startswith("3 lines of your file") for line in proven)


def test_a_file_of_entries_of_every_type_is_proven_in_all_columns(module, bob, entries, bobs_client, tmp_path):
    writer.grant_support_credit(bob.pk, amount_cents=1, reason="=1+1, a gift", reference="gift")
    path = save_csv(bobs_client, tmp_path / "ledger.csv")
    assert ""","'=1+1, a gift",""" in Path(path).read_text()
    proven, open_ = check(module, bobs_client, path)
    assert f"37 lines of your file: in each the ledger has the same {', '.join(columns_of(path))}." in proven
    assert not any("compared with nothing" in line or "whole" in line for line in open_)


def test_columns_that_are_not_compared_are_named(module, bobs_client, statements, monkeypatch, capsys):
    file = edited(statements[0], "2", {"costCenter": "7", "Model": "demo/echo", "reason ": "", TERMINAL: ""})
    code, printed = run(module, monkeypatch, capsys, [file, URL], fetching(bobs_client))
    assert code == 0
    for name in ("'costCenter'", "'Model'", "'reason '", ascii(TERMINAL)):
        assert f"\n- What your file says as {name}: it is compared with nothing.\n" in printed.partition("Not proven:")[2]


def test_one_line_is_no_lines_and_a_file_that_lacks_some_is_not_said_to_be_whole(module, bobs_client, statements):
    head, *lines = Path(statements[0]).read_text().splitlines(keepends=True)
    Path(statements[0]).write_text(head + lines[1])
    proven, open_ = check(module, bobs_client, statements[0])
    assert any(line.startswith("1 line of your file: ") for line in proven)
    assert "That your file is whole: of the entries 1 to 2 it lacks 1." in open_


def test_a_file_that_may_be_read_in_two_ways_is_not_read(module, bobs_client, statements, monkeypatch, capsys, subtests):
    told = Path(statements[0]).read_text()
    saved = json.loads(Path(statements[1]).read_text())
    head = json.dumps(saved["head"])
    files = {
        "two columns of one name": told.replace("reason,hash", "model,hash"),
        "more cells than columns": told.replace("reported,,,", "reported,,,,", 1),
        "fewer cells than columns": told.replace("reported,,,", "reported,,", 1),
        "a quote that ends early": told.replace("reported", '"report"ed', 1),
        "a number in other digits": told.replace("\n2,", "\n\uff12,"),
        "a number with zeros": told.replace("\n2,", "\n02,"),
        "an amount in other digits": told.replace("-0.007000001", "-0.00700000\u0661"),
        "an amount that is a fraction": told.replace("-0.007000001", "-7000001/1000000000"),
        "an amount with a separator": told.replace("-0.007000001", "-0.007_000_001"),
        "an amount that fills the memory": told.replace("-0.007000001", "1E999999999"),
        "no entry's number": json.dumps({**saved, "head": {"entry": 2.5, "hash": "0" * 64}, "inclusion": None}),
        "no number": json.dumps(saved).replace(head, head.replace('"entry": 3', '"entry": NaN')),
        "two members of one name": json.dumps(saved).replace('"entry"', '"entry": 4, "entry"'),
        "two hashes of one entry": json.dumps({**saved, "inclusion": change_hash(saved["inclusion"])}),
    }
    for what, text in files.items():
        path = Path(statements[0]).with_name("hostile")
        path.write_text(text)
        with subtests.test(what):
            assert text not in (told, json.dumps(saved))
            code, printed = run(module, monkeypatch, capsys, [str(path), URL], fetching(bobs_client))
            assert (code, printed[:14]) == (2, "Cannot verify:")


def change_hash(inclusion):
    return {**inclusion, "hash": flipped(inclusion["hash"])}


# --- A root that was kept -----------------------------------------------------------------------------------------


def save_changed(path, **parts):
    path.write_text(json.dumps({**json.loads(path.read_text()), **parts}))
    return str(path)


@pytest.fixture
def unsigned(bob, bobs_client, tmp_path):
    """Let Bob keep a proof that was saved after root 1, and before a root that includes him. Five are signed then."""
    now = pool.database_time()
    factories.credit(factories.make_account("Mallory"), 500)
    roots.sign_hour(now)
    factories.credit(bob, 500)
    path = save_proof(bobs_client, tmp_path / "p.json")
    assert json.loads(Path(path).read_text())["inclusion"] is None
    for hours in range(1, 5):
        roots.sign_hour(now + timedelta(hours=hours))
    return Path(path)


def test_a_root_is_followed_that_did_not_include_the_account_yet(module, bobs_client, unsigned):
    assert "Root 5 follows root 1, which you have." in check(module, bobs_client, str(unsigned))[0]


def test_a_root_that_did_not_include_the_account_is_not_taken_back(module, bobs_client, unsigned, subtests):
    first, last = (bobs_client.get(PROOF, {"root": number}).json()["root"] for number in (1, 5))
    unsigned_first = {**first, "signature": "AAAA" + first["signature"][4:]}
    other = {**last, "statement": last["statement"].replace("root: ", "root: 0000")[:-5]}
    cases = {
        "an older one": (last, first, "the roots end with 1. You have root 5"),
        "an older one without a signature": (last, unsigned_first, "signature of root 1 is wrong"),
        "the same one without a signature": (first, unsigned_first, "signature of root 1 is wrong"),
        "none": (last, None, "there is no root. You have root"),
        "no statement": (last, other, "statement of root 5 is malformed"),
    }
    for what, (kept, shown, words) in cases.items():
        fetch = forging(bobs_client, lambda reply, shown=shown: reply.update(root=shown, inclusion=None))
        with subtests.test(what), pytest.raises(module.NotProven, match=words):
            check(module, bobs_client, save_changed(unsigned, root=kept), fetch)


def test_a_kept_root_is_one_that_was_signed_and_included_the_ledger(module, bobs_client, statements, subtests):
    saved = json.loads(Path(statements[1]).read_text())
    root, inclusion = saved["root"], saved["inclusion"]
    cases = {
        "its signature": ({"root": {**root, "signature": "AAAA" + root["signature"][4:]}}, "signature of root 1 is wrong"),
        "its number": ({"root": {**root, "number": 2}}, "statement of root 2 is malformed"),
        "the path to it": (
            {"inclusion": {**inclusion, "path": [flipped(each) for each in inclusion["path"]]}},
            "root 1 does not",
        ),
        "a place": ({"inclusion": {**inclusion, "leaf": 1 - inclusion["leaf"]}}, "root 1 does not include the ledger"),
        "its head": ({"head": {**saved["head"], "entry": 2}}, "entry 2 of your file, or one before it, was changed"),
    }
    for what, (parts, words) in cases.items():
        path = Path(statements[1]).with_name("edited.json")
        path.write_text(json.dumps({**saved, **parts}))
        with subtests.test(what), pytest.raises(module.NotProven, match=words):
            check(module, bobs_client, str(path))


def test_members_of_a_saved_file_that_are_not_compared_are_named(module, bobs_client, statements):
    path = Path(statements[1])
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({**saved, "balance": "9", "head": {**saved["head"], "at": "now"}}))
    open_ = check(module, bobs_client, str(path))[1]
    assert [line.split("'")[1] for line in open_ if "compared with nothing" in line] == ["balance", "at"]


def test_roots_of_an_earlier_hour_do_not_follow(module, bobs_client, statements):
    """The gateway may sign what it likes: an hour that goes back is no later root."""
    facts = module.lines_of
    module.lines_of = lambda root: {**facts(root), "hour": f"{9 - root['number']}"}
    with pytest.raises(module.NotProven, match="root 2 does not follow root 1"):
        check(module, bobs_client, statements[1])


# --- What is printed ----------------------------------------------------------------------------------------------

SPOKEN = {
    "the account": change("account", to=lambda _: TERMINAL),
    "the number of a root": change("root", "number", to=lambda _: TERMINAL),
    "the hour": change("root", "statement", to=lambda text: text.replace("hour: ", f"hour: {TERMINAL}")),
    "the key": change("root", "statement", to=lambda text: text.replace("key: ", f"key: {TERMINAL}")),
    "a name of no fact": change("root", "statement", to=lambda text: text.replace("key: ", f"{TERMINAL}: x\nkey: ")),
    "an account in a record": change(
        "entries", 0, "record", to=lambda text: re.sub('^.".', lambda _: '["\\u001b[2K\\nProven:\\n', text)
    ),
    "a surrogate": change("account", to=lambda _: "\ud800"),
    "the last entry": change("head", "entry", to=lambda _: TERMINAL),
    "a hash": change("entries", 0, "hash", to=lambda _: TERMINAL),
    "the place": change("inclusion", "leaf", to=lambda _: TERMINAL),
}


def test_nothing_that_the_gateway_writes_begins_a_line_or_moves_the_cursor(
    module, bobs_client, statements, monkeypatch, capsys, subtests
):
    for what, forge in SPOKEN.items():
        for statement in statements:
            with subtests.test(f"{what}, {statement[-10:]}"):
                code, printed = run(module, monkeypatch, capsys, [statement, URL], forging(bobs_client, forge))
                assert code or what == "a hash"  # of an entry that is computed, which is not looked at
                assert re.fullmatch("((NOT THE SAME|Cannot verify): [ -~]*\n|([ -~]+\n){6,})", printed)
                assert TERMINAL not in printed
    bad = Path(statements[0]).with_name("bad")
    bad.write_text("{" + json.dumps(TERMINAL) + ": x")
    assert re.fullmatch("Cannot verify: [ -~]*\n", run(module, monkeypatch, capsys, [str(bad), URL])[1])


def test_an_error_of_the_gateway_is_printed_on_one_line(module, monkeypatch, capsys):
    with serving() as gateway:
        gateway.will(reply(TERMINAL * 9, status=403))
        code, printed = run(module, monkeypatch, capsys, [f"3:{'0' * 64}", gateway.origin])
    assert code == 2
    assert re.fullmatch(r"Cannot verify: ValueError: /.well-known/ledger-keys.json: 403 \\x1b\[2K[ -~]*\n", printed)


# --- Replies that end nothing -------------------------------------------------------------------------------------


def replying(module, monkeypatch, capsys, client, statement, forge):
    """Run the program against a server that sends the gateway's proof as ``forge`` changes its text."""
    with serving() as gateway:
        proof = json.dumps(client.get(PROOF).json())
        gateway.will(reply(json.dumps(client.get(KEYS).json())), reply(forge(proof)))
        return run(module, monkeypatch, capsys, [statement, gateway.origin])


TEXTS = {
    "no number of the last entry": lambda text: re.sub('"head": {[^}]*', '"head": {"entry": NaN, "hash": null', text),
    "an endless last entry": lambda text: re.sub('"head": {[^}]*', '"head": {"entry": Infinity, "hash": null', text),
    "a huge last entry": lambda text: re.sub('"head": {[^}]*', '"head": {"entry": 1e999, "hash": null', text),
    "a part of an entry": lambda text: re.sub('"head": {[^}]*', '"head": {"entry": 6.5, "hash": null', text),
    "two heads": lambda text: text.replace('"head"', '"head": null, "head"'),
    "a list": lambda text: f"[{text}]",
    "half of it": lambda text: text[: len(text) // 2],
    "more than it": lambda text: text + "{}",
    "nothing": lambda text: "",
    "a deep one": lambda text: "[" * 100_000,
}


def test_a_reply_that_is_no_proof_proves_nothing(module, bobs_client, statements, monkeypatch, capsys, subtests):
    for what, forge in TEXTS.items():
        for statement in statements:
            with subtests.test(f"{what}, {statement[-10:]}"):
                code, printed = replying(module, monkeypatch, capsys, bobs_client, statement, forge)
                assert (code, printed[:14]) == (2, "Cannot verify:")


def test_a_record_is_hashed_even_if_the_one_before_has_no_hash(module, bobs_client, statements, subtests):
    """The hash of the entry before the first that is kept is believed: without it the next one would be believed, too."""

    def forge(reply, hash):
        if reply["entries"]:
            reply["entries"][0]["hash"] = hash
            reply["entries"][1]["record"] = reply["entries"][1]["record"].replace("key-a", "key-b")

    for hash in (None, "", "x", "00" * 31, "0 " * 32, ["0"] * 64):
        with subtests.test(f"{hash}"), pytest.raises((module.NotProven, TypeError, ValueError)):
            check(module, bobs_client, statements[2], forging(bobs_client, lambda reply, hash=hash: forge(reply, hash)))


def test_a_record_that_may_be_read_in_two_ways_proves_nothing(module, bobs_client, statements, subtests):
    ways = {
        "two members of one name": ('"model": ', '"model": "dear", "model": '),
        "an amount in text": ("-7000001,", '"-7000001",'),
        "an amount that is true": ("-7000001,", "true,"),
        "an amount with a point": ("-7000001,", "-7000001.0,"),
        "a number in text": (", 2,", ', "2",'),
        "one more field": ("}]", "}, 1]"),
    }
    for what, (before, after) in ways.items():

        def forge(reply, before=before, after=after):
            for entry in reply["entries"]:
                entry["record"] = entry["record"].replace(before, after)

        with subtests.test(what), pytest.raises((module.NotProven, ValueError)):
            check(module, bobs_client, statements[0], forging(bobs_client, forge))


def test_a_body_that_does_not_end_is_given_up(module, monkeypatch):
    monkeypatch.setattr(module, "REPLY_SECONDS_MAX", 0.2)
    monkeypatch.setattr(module, "REPLY_BYTES_MAX", 100_000)
    for body in (reply("[" + " " * 10_000_000), reply(" " * 1_000, seconds_between_bytes=0.05)):
        with serving() as gateway:
            gateway.will(body)
            with pytest.raises(ValueError, match="Expecting value"):
                module.fetch_from(gateway.origin, "a-secret")(PROOF)


def test_a_gateway_that_says_wait_for_ever_is_asked_again_after_a_minute(module, monkeypatch):
    pauses = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    with serving() as gateway:
        gateway.will(*(reply(status=429, Retry_After=each) for each in ("1e9", "inf", "2")), reply("{}"))
        assert module.fetch_from(gateway.origin, "a-secret")(PROOF) == {}
    assert pauses == [60, 60, 2]


def test_a_redirect_reads_no_file(module, tmp_path):
    (tmp_path / "keys").write_text("{}")
    with serving() as gateway:
        for address in (f"file://{tmp_path}/keys", f"file://localhost{tmp_path}/keys", "data:application/json,{}"):
            gateway.will(reply(status=302, Location=address))
            with pytest.raises(ValueError, match="302"):
                module.fetch_from(gateway.origin, "a-secret")(KEYS)


def test_a_page_without_end_or_out_of_order_proves_nothing(module, bobs_client, statements, subtests):
    ways = {
        "it ends early": (change("entries", to=lambda entries: entries[:1]), None),
        "it ends at once": (change("entries", to=lambda entries: []), "is missing"),
        "it repeats the first": (change("entries", to=lambda entries: entries[:1] * len(entries)), "in the place of entry"),
        "a later entry is another": (
            change("entries", 5, "record", to=lambda text: text.replace("key-a", "key-b")),
            "do not end with",
        ),
    }
    for what, (forge, words) in ways.items():
        with subtests.test(what):
            if not words:  # the rest is asked for
                proven, _ = check(module, bobs_client, statements[0], forging(bobs_client, forge))
                assert proven == check(module, bobs_client, statements[0])[0]
                continue
            with pytest.raises(module.NotProven, match=words):
                check(module, bobs_client, statements[0], forging(bobs_client, forge))
