"""All of an account's ledger entries, or those that a filter selects, as a streamed CSV file."""

import csv
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.db import connection

from billing import money
from billing.ledger import writer
from tests import chat, factories, outage, usage
from tests.billing.ledger_entries import CSV, LEDGER, ids, iso, listed, spend
from tests.completions.rows import disconnect
from tests.conftest import client_for


def text(reply: Any) -> str:
    assert reply.status_code == 200
    return b"".join(reply.streaming_content).decode()


def lines(reply: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text(reply), newline=""), strict=True))


def test_the_csv_file_has_a_line_for_every_entry_as_the_ledger_shows_it(entries, bobs_client):
    page = bobs_client.get(LEDGER, {"limit": 100}).json()["entries"]
    rows = lines(bobs_client.get(CSV))
    assert [(row["id"], row["type"], row["createdAt"]) for row in rows] == [
        (entry["id"], entry["type"], entry["createdAt"]) for entry in page
    ]
    cents = [(int(row["amountInCents"]), int(row["balanceAfterInCents"])) for row in rows]
    assert cents == [(entry["amountInCents"], entry["balanceAfterInCents"]) for entry in page]
    assert [int(row["seq"]) for row in rows] == list(range(len(entries), 0, -1))


def test_the_csv_file_has_its_columns_and_exact_dollars(bob, bobs_client):
    usage.buy(bob, 2_000, "pi_1")
    entry = spend(bob, 195_000, "key-a")
    newest, oldest = lines(bobs_client.get(CSV))
    assert newest == {
        "seq": "2",
        "id": str(entry.pk),
        "createdAt": newest["createdAt"],
        "type": "USAGE_DEBIT",
        "amountInDollars": "-0.000195",
        "balanceAfterInDollars": "19.999805",
        "amountInCents": "-1",
        "balanceAfterInCents": "1999",
        "apiKey": "key-a",
        "model": "demo/echo",
        "tokens": "7",
        "promptTokens": "3",
        "completionTokens": "4",
        "completionId": entry.reference,
        "settlement": "reported",
        "paymentId": "",
        "reason": "",
        "hash": entry.hash.hex(),
    }
    assert (oldest["type"], oldest["amountInDollars"], oldest["paymentId"]) == ("CREDIT_PURCHASE", "20.00", "pi_1")
    assert (oldest["apiKey"], oldest["model"], oldest["tokens"]) == ("", "", "")


def test_the_csv_file_takes_the_filters_but_no_pages(entries, bobs_client):
    span = {"from": iso(entries[20].created_at), "to": iso(entries[5].created_at)}
    for query in ({"type": "USAGE_DEBIT", **span}, {"type": "SUPPORT_CREDIT"}, {"apiKey": "key-a", **span}, {"limit": "1"}):
        filters = {name: value for name, value in query.items() if name != "limit"}
        assert [row["id"] for row in lines(bobs_client.get(CSV, query))] == listed(bobs_client, limit=100, **filters)


FULL_WIDTH = [
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
]  # = + - @, which spreadsheets with East Asian input read as the narrow ones
LOOKALIKES = ["\ufe66", "\ufe62", "\ufe63", "\ufe6b", "\u207a", "\u2212"]  # small and raised forms, and the minus sign
HIDDEN = ["\x0b", "\x1b", " =", "\u3000=", "\ufeff=", "\u200b\uff1d", "\xa0\t@"]  # blank or invisible, before a formula


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", *FULL_WIDTH, *LOOKALIKES, *HIDDEN])
def test_text_cannot_act_as_a_formula(bob, bobs_client, begin):
    reason = f'{begin}HYPERLINK("http://example.org", "click")'
    writer.grant_support_credit(bob.pk, amount_cents=5, reason=reason, reference="one")
    usage.buy(bob, 5, f"{begin}pi_1")
    paid, granted = lines(bobs_client.get(CSV))
    assert granted["reason"] == "'" + reason
    assert paid["paymentId"] == f"'{begin}pi_1"


@pytest.mark.parametrize(
    "reason", ['Sorry, "friend":\nhere is 1+1 = 2 €', " a = b", "\u3000お詫び \uff1d 謝罪", "\u2014 the team"]
)
def test_other_text_is_unchanged(bob, bobs_client, reason):
    writer.grant_support_credit(bob.pk, amount_cents=5, reason=reason, reference="one")
    [row] = lines(bobs_client.get(CSV))
    assert row["reason"] == reason


def test_the_csv_file_of_an_empty_ledger_has_its_header(bobs_client):
    head = text(bobs_client.get(CSV))
    assert head.startswith("seq,id,createdAt,type,amountInDollars,balanceAfterInDollars,")
    assert head.count("\r\n") == 1


def test_the_csv_file_has_a_name_and_is_not_cached(entries, bobs_client):
    reply = bobs_client.get(CSV)
    assert reply["Content-Type"] == "text/csv; charset=utf-8"
    assert reply["Content-Disposition"] == 'attachment; filename="ledger.csv"'
    assert reply["Cache-Control"] == "no-store"


@pytest.mark.usefixtures("small_batches")
def test_entries_booked_during_the_download_are_not_in_it(entries, bob, bobs_client):
    parts: Iterator[bytes] = iter(bobs_client.get(CSV).streaming_content)
    first = next(parts)
    factories.credit(bob, 5)
    rest = b"".join(parts)
    rows = csv.DictReader(StringIO((first + rest).decode(), newline=""))
    assert [row["id"] for row in rows] == ids(entries)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.django_db(transaction=True)
def test_no_database_connection_is_held_while_a_part_is_sent():
    account = factories.make_account("Bob", cents=100)
    for _ in range(11):
        spend(account, 1, "key-a")
    reply: Any = client_for(factories.make_key(account)[1]).get(CSV)
    parts = 0
    for _ in reply.streaming_content:
        assert connection.connection is None
        parts += 1
    assert parts == 3
    assert connection.connection is None


def test_the_csv_file_needs_a_key(db):
    reply = client_for(None).get(CSV)
    chat.assert_error(reply, 401, "invalid_api_key", None)


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "head"])
def test_the_csv_file_is_read_only(alice, api, method):
    before = usage.numbers(alice)
    assert getattr(api, method)(CSV).status_code == 405
    assert usage.numbers(alice) == before


# --- At the same time ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches", "entries")
def test_a_key_downloads_two_files_at_a_time(bob, bobs_client):
    first, second = (bobs_client.get(CSV) for _ in range(2))
    refused = bobs_client.get(CSV)
    error = chat.assert_error(refused, 429, "rate_limit_exceeded")
    assert error["message"] == "2 downloads of the ledger are under way already: wait for one to end."
    assert (refused["retry-after"], refused["retry-after-ms"]) == ("5", "5000")
    assert bobs_client.get(LEDGER).status_code == 200
    assert len(lines(client_for(factories.make_key(bob)[1]).get(CSV))) == 36

    next(iter(first.streaming_content))
    disconnect(first)
    assert len(lines(bobs_client.get(CSV))) == 36
    assert len(lines(second)) == 36
    disconnect(second)
    assert [bobs_client.get(CSV).status_code for _ in range(3)] == [200, 200, 429]


def test_a_download_that_fails_at_its_beginning_is_not_under_way(bobs_client):
    failed = [outage.with_the_database_unavailable(lambda: bobs_client.get(CSV)).status_code for _ in range(3)]
    assert (failed, bobs_client.get(CSV).status_code) == ([503] * 3, 200)


# --- On the dashboard ---------------------------------------------------------------------------------------------


def test_a_member_downloads_the_statement(alice, client):
    usage.spend(alice, money.nanos(3))
    client.force_login(alice.members.get())
    page = client.get("/dashboard/ledger/").content.decode()
    assert 'href="/dashboard/ledger.csv"' in page
    reply = client.get("/dashboard/ledger.csv")
    assert "no-store" in reply["Cache-Control"]
    assert [row["id"] for row in lines(reply)] == ids(list(alice.entries.order_by("-seq")))


def test_a_stranger_does_not_download_the_statement(alice, charlie, client):
    assert client.get("/dashboard/ledger.csv").status_code == 302
    client.force_login(charlie.members.get())
    assert [row["id"] for row in lines(client.get("/dashboard/ledger.csv"))] == ids(list(charlie.entries.all()))


def test_a_member_downloads_two_files_at_a_time(alice, client):
    client.force_login(alice.members.get())
    replies = [client.get("/dashboard/ledger.csv", headers={"Accept": "text/html"}) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert replies[2]["retry-after"] == "5"
    assert "2 downloads of the ledger are under way already" in replies[2].content.decode()
