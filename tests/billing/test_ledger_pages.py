"""Ledger entries filtered by type, time and key at any offset, and all of them as a streamed CSV file."""

import csv
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from io import StringIO
from itertools import product
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from billing import ledger, ledger_pages, locks, money
from billing.models import Account, LedgerEntry
from gateway_project import identifiers, timestamps
from gateway_project.db import pipelined_transaction
from tests import chat, factories, usage
from tests.conftest import client_for

LEDGER, SHEET = "/api/billing/ledger", "/api/billing/ledger.csv"
TYPES = LedgerEntry.Type.values


def spend(account: Account, nanos: int, spender: str) -> LedgerEntry:
    with transaction.atomic():
        entry = ledger.debit_usage(
            locks.lock_account(account.pk),
            cost_nanos=nanos,
            reference=identifiers.short_uuid7(),
            model="demo/echo",
            prompt_tokens=3,
            completion_tokens=4,
            settlement="reported",
            spender=spender,
        )
        pipelined_transaction.execute(ledger.insert_entries_statement([entry]))
    return LedgerEntry.objects.get(pk=entry.id)


@pytest.fixture
def book(bob: Account) -> list[LedgerEntry]:
    """Bob's 36 entries of every type and of two keys, the most recent first. No two are of one time."""
    for number in range(4):
        usage.buy(bob, 2_000, f"pi_{number}")
        for _ in range(3):
            spend(bob, 7_000_001, "key-a")
        factories.credit(bob, 500)
        factories.credit(bob, 1)
        spend(bob, 12_345_678, "key-b")
        spend(bob, 0, "key-a")
        usage.refund(bob, 100, f"re_{number}")
    return list(LedgerEntry.objects.filter(account=bob).order_by("-seq"))


@pytest.fixture
def bobs(bob: Account) -> Any:
    """Bob's program."""
    return client_for(factories.make_key(bob)[1])


def ids(entries: list[LedgerEntry]) -> list[str]:
    return [str(entry.pk) for entry in entries]


def iso(moment: datetime) -> str:
    return moment.isoformat()


def shown(api: Any, **query: Any) -> list[str]:
    reply = api.get(LEDGER, query)
    assert reply.status_code == 200, reply.content
    body = reply.json()
    entries = [entry["id"] for entry in body.pop("entries")]
    assert body == {"limit": query.get("limit", 10), "offset": query.get("offset", 0), "count": len(entries)}
    return entries


# --- Filters ------------------------------------------------------------------------------------------------------


def test_every_filter_at_every_offset_gives_the_entries_that_match(book, bobs):
    times = [iso(book[index].created_at) for index in (20, 5)]
    spans = [{}, {"from": times[0]}, {"to": times[1]}, {"from": times[0], "to": times[1]}, {"from": times[1], "to": times[1]}]
    filters = product([None, *TYPES], [None, "key-a", "key-b", "key-c"], spans)
    for type, key, span in filters:
        matching = [
            entry
            for entry in book
            if type in (None, entry.type)
            and key in (None, entry.spender)
            and iso(entry.created_at) >= span.get("from", "")
            and iso(entry.created_at) < span.get("to", "9")
        ]
        given = {name: value for name, value in {"type": type, "apiKey": key, **span}.items() if value is not None}
        for limit, offset in ((100, 0), (1, 0), (7, 3), (3, 15), (5, 10**30)):
            expected = ids(matching[offset : offset + limit])
            assert shown(bobs, limit=limit, offset=offset, **given) == expected, (given, limit, offset)


def test_from_is_inclusive_and_to_is_exclusive(book, bobs):
    moment = timestamps.iso_millis(book[7].created_at)  # as the API shows it, less its microseconds
    since, until = shown(bobs, limit=100, **{"from": moment}), shown(bobs, limit=100, to=moment)
    assert since + until == ids(book)
    assert str(book[7].pk) in since


def test_times_may_have_any_offset_from_utc(book, bobs):
    local = book[7].created_at.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert shown(bobs, limit=100, **{"from": iso(local)}) == ids(book[:8])


@pytest.mark.parametrize(
    ("param", "year", "count"), [("from", 2100, 0), ("to", 2100, 10), ("from", 1900, 10), ("to", 1900, 0), ("from", "0001", 10)]
)
def test_times_outside_the_ledger_select_all_or_nothing(book, bobs, param, year, count):
    assert len(shown(bobs, **{param: f"{year}-01-01T00:00:00Z"})) == count


def test_an_empty_ledger_has_no_entries_for_any_filter(bobs):
    for query in ({"type": "USAGE_DEBIT"}, {"type": "REFUND_DEBIT"}, {"apiKey": "key-a"}, {"from": "2026-01-01T00:00:00Z"}):
        assert shown(bobs, **query) == []


def test_a_completion_is_found_by_its_key(alice, echo_model):
    keys = [factories.make_key(alice, name) for name in ("laptop", "server")]
    for _, secret in keys:
        assert chat.ask(client_for(secret)).status_code == 200
    api = client_for(keys[0][1])
    newest_first = ids(list(alice.entries.order_by("-seq")))
    assert shown(api, apiKey=keys[0][0].pk) == newest_first[1:2]
    assert shown(api, apiKey=keys[1][0].pk) == newest_first[:1]
    assert shown(api) == newest_first


def test_another_accounts_key_finds_nothing(book, api):
    assert shown(api, apiKey="key-a") == []


@pytest.mark.parametrize(
    ("param", "value"),
    [
        *(("type", value) for value in ("GIFT", "usage_debit", "", "USAGE_DEBIT,REFUND_DEBIT", "9" * 1_500, "\x00")),
        *(("apiKey", value) for value in ("", "x" * 65, "\x00")),
        *(
            (param, value)
            for param in ("from", "to")
            for value in (
                "",
                "yesterday",
                "2026-13-01T00:00:00Z",
                "2026-11-21",
                "2026-11-21T00:00:00",
                "1795265179",
                "9" * 1_500,
                "\x00",
                "2026-11-21T00:00:00 02:00",
                "0001-01-01T00:00:00+14:00",
                "9999-12-31T23:59:59-14:00",
            )
        ),
    ],
)
@pytest.mark.parametrize("path", [LEDGER, SHEET])
def test_an_invalid_filter_is_named(api, path, param, value):
    chat.assert_error(api.get(path, {param: value}), 400, "invalid_request_error", param)


def test_an_unknown_type_lists_the_known_ones(api):
    message = api.get(LEDGER, {"type": "GIFT"}).json()["error"]["message"]
    assert message == "type must be one of CREDIT_PURCHASE, USAGE_DEBIT, SUPPORT_CREDIT, REFUND_DEBIT."


@pytest.mark.parametrize("value", ["2026-11-21T00:00:00", "2026-11-21"])
def test_a_time_without_its_offset_is_not_guessed(api, value):
    message = api.get(LEDGER, {"from": value}).json()["error"]["message"]
    assert message == "from must say its offset from UTC: Z, or as +02:00 with the + written as %2B."


def test_a_range_that_ends_before_it_begins_is_refused(api):
    query = {"from": "2026-11-21T00:00:00Z", "to": "2026-11-21T00:00:00+00:01"}
    reply = api.get(LEDGER, query)
    chat.assert_error(reply, 400, "invalid_request_error", "to")
    assert shown(api, **{"from": query["from"], "to": query["from"]}) == []


def test_a_filtered_page_takes_as_many_queries_at_any_depth(book, bobs, django_assert_num_queries):
    shown(bobs)
    for query, queries in (
        ({"type": "USAGE_DEBIT"}, 3),
        ({"type": "SUPPORT_CREDIT"}, 2),
        ({"apiKey": "key-a"}, 2),
        ({"from": iso(book[20].created_at)}, 3),
    ):
        for offset in (0, 5, 1_000_000):
            with django_assert_num_queries(queries):  # the key with its account, the entries, and where they begin
                shown(bobs, offset=offset, **query)


def test_a_deep_page_is_one_index_seek(book, bobs):
    for query in ({}, {"type": "USAGE_DEBIT"}, {"to": iso(book[2].created_at)}):
        with CaptureQueriesContext(connection) as queries:
            assert len(shown(bobs, limit=5, offset=15, **query)) == 5
        sql = queries[-1]["sql"]
        assert 'FROM "billing_ledgerentry"' in sql
        assert sql.endswith(" LIMIT 5")  # and no OFFSET, which reads what it skips
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")  # which suit a table so small
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "Index Scan Backward using a_place_in_the_book_is_taken_once" in plan
        assert re.search(r"Index Cond: .*account_id = .* AND \(seq <= \d+\)", plan)
        assert "Sort" not in plan


# --- CSV ----------------------------------------------------------------------------------------------------------


def text(reply: Any) -> str:
    assert reply.status_code == 200
    return b"".join(reply.streaming_content).decode()


def lines(reply: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text(reply), newline=""), strict=True))


def test_the_csv_file_has_a_line_for_every_entry_as_the_ledger_shows_it(book, bobs):
    listed = bobs.get(LEDGER, {"limit": 100}).json()["entries"]
    rows = lines(bobs.get(SHEET))
    assert [(row["id"], row["type"], row["createdAt"]) for row in rows] == [
        (entry["id"], entry["type"], entry["createdAt"]) for entry in listed
    ]
    cents = [(int(row["amountInCents"]), int(row["balanceAfterInCents"])) for row in rows]
    assert cents == [(entry["amountInCents"], entry["balanceAfterInCents"]) for entry in listed]
    assert [int(row["seq"]) for row in rows] == list(range(len(book), 0, -1))


def test_the_csv_file_has_its_columns_and_exact_dollars(bob, bobs):
    usage.buy(bob, 2_000, "pi_1")
    entry = spend(bob, 195_000, "key-a")
    newest, oldest = lines(bobs.get(SHEET))
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
    }
    assert (oldest["type"], oldest["amountInDollars"], oldest["paymentId"]) == ("CREDIT_PURCHASE", "20.00", "pi_1")
    assert (oldest["apiKey"], oldest["model"], oldest["tokens"]) == ("", "", "")


def test_the_csv_file_takes_the_filters_but_no_pages(book, bobs):
    span = {"from": iso(book[20].created_at), "to": iso(book[5].created_at)}
    for query in ({"type": "USAGE_DEBIT", **span}, {"type": "SUPPORT_CREDIT"}, {"apiKey": "key-a", **span}, {"limit": "1"}):
        filters = {name: value for name, value in query.items() if name != "limit"}
        assert [row["id"] for row in lines(bobs.get(SHEET, query))] == shown(bobs, limit=100, **filters)


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_text_cannot_act_as_a_formula(bob, bobs, begin):
    reason = f'{begin}HYPERLINK("http://example.org", "click")'
    ledger.grant_support_credit(bob.pk, amount_cents=5, reason=reason, reference="one")
    usage.buy(bob, 5, f"{begin}pi_1")
    paid, granted = lines(bobs.get(SHEET))
    assert granted["reason"] == "'" + reason
    assert paid["paymentId"] == f"'{begin}pi_1"


def test_other_text_is_unchanged(bob, bobs):
    reason = 'Sorry, "friend":\nhere is 1+1 = 2 €'
    ledger.grant_support_credit(bob.pk, amount_cents=5, reason=reason, reference="one")
    [row] = lines(bobs.get(SHEET))
    assert row["reason"] == reason


def test_the_csv_file_of_an_empty_ledger_has_its_header(bobs):
    head = text(bobs.get(SHEET))
    assert head.startswith("seq,id,createdAt,type,amountInDollars,balanceAfterInDollars,")
    assert head.count("\r\n") == 1


def test_the_csv_file_has_a_name_and_is_not_cached(book, bobs):
    reply = bobs.get(SHEET)
    assert reply["Content-Type"] == "text/csv; charset=utf-8"
    assert reply["Content-Disposition"] == 'attachment; filename="ledger.csv"'
    assert reply["Cache-Control"] == "no-store"


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_pages, "BATCH_ENTRIES", 5)


@pytest.mark.usefixtures("_small_batches")
def test_batches_of_any_filter_have_every_entry_once(book, bob):
    bob.refresh_from_db()
    for entry_filter in (
        ledger_pages.ALL_ENTRIES,
        ledger_pages.EntryFilter(type="USAGE_DEBIT"),
        ledger_pages.EntryFilter(type="REFUND_DEBIT"),
        ledger_pages.EntryFilter(spender="key-a", until=book[5].created_at),
    ):
        found = list(ledger_pages.read_batches(bob, entry_filter))
        expected = ledger_pages.read_page(bob, limit=100, offset=0, entry_filter=entry_filter)
        assert expected
        assert [len(batch) for batch in found[:-1]] == [5] * (len(found) - 1)
        assert [entry for batch in found for entry in batch] == expected


@pytest.mark.usefixtures("_small_batches")
def test_entries_booked_during_the_download_are_not_in_it(book, bob, bobs):
    parts: Iterator[bytes] = iter(bobs.get(SHEET).streaming_content)
    first = next(parts)
    factories.credit(bob, 5)
    rest = b"".join(parts)
    rows = csv.DictReader(StringIO((first + rest).decode(), newline=""))
    assert [row["id"] for row in rows] == ids(book)


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.django_db(transaction=True)
def test_no_database_connection_is_held_while_a_part_is_sent():
    account = factories.make_account("Bob", cents=100)
    for _ in range(11):
        spend(account, 1, "key-a")
    reply: Any = client_for(factories.make_key(account)[1]).get(SHEET)
    parts = 0
    for _ in reply.streaming_content:
        assert connection.connection is None
        parts += 1
    assert parts == 3
    assert connection.connection is None


def test_the_csv_file_needs_a_key(db):
    reply = client_for(None).get(SHEET)
    chat.assert_error(reply, 401, "invalid_api_key", None)


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "head"])
def test_the_csv_file_is_read_only(alice, api, method):
    before = usage.numbers(alice)
    assert getattr(api, method)(SHEET).status_code == 405
    assert usage.numbers(alice) == before


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
