"""Ledger entries filtered by type, time and key, at any offset."""

import re
from datetime import timedelta, timezone
from itertools import cycle, product

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.ledger import reading
from billing.models import LedgerEntry
from gateway_project.text import timestamps
from tests import chat, factories
from tests.billing.ledger_entries import CSV, LEDGER, ids, iso, listed
from tests.conftest import client_for

TYPES = LedgerEntry.Type.values

# --- Filters ------------------------------------------------------------------------------------------------------


def test_every_filter_returns_the_matching_entries_whole_and_by_pages(entries, bobs_client):
    times = [iso(entries[index].created_at) for index in (20, 5)]
    spans = [{}, {"from": times[0]}, {"to": times[1]}, {"from": times[0], "to": times[1]}, {"from": times[1], "to": times[1]}]
    filters = product([None, *TYPES], [None, "key-a", "key-b", "key-c"], spans)
    some_page = cycle([(1, 0), (7, 3), (3, 15), (5, 10**30)])  # one a filter: neither depends on the other
    for type, key, span in filters:
        matching = [
            entry
            for entry in entries
            if type in (None, entry.type)
            and key in (None, entry.spender)
            and iso(entry.created_at) >= span.get("from", "")
            and iso(entry.created_at) < span.get("to", "9")
        ]
        given = {name: value for name, value in {"type": type, "apiKey": key, **span}.items() if value is not None}
        for limit, offset in ((100, 0), next(some_page)):
            expected = ids(matching[offset : offset + limit])
            assert listed(bobs_client, limit=limit, offset=offset, **given) == expected, (given, limit, offset)


def test_from_is_inclusive_and_to_is_exclusive(entries, bobs_client):
    moment = timestamps.iso_millis(entries[7].created_at)  # as the API shows it, without microseconds
    since, until = listed(bobs_client, limit=100, **{"from": moment}), listed(bobs_client, limit=100, to=moment)
    assert since + until == ids(entries)
    assert str(entries[7].pk) in since


def test_times_may_have_any_offset_from_utc(entries, bobs_client):
    local = entries[7].created_at.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert listed(bobs_client, limit=100, **{"from": iso(local)}) == ids(entries[:8])


@pytest.mark.parametrize(
    ("param", "year", "count"), [("from", 2100, 0), ("to", 2100, 10), ("from", 1900, 10), ("to", 1900, 0), ("from", "0001", 10)]
)
def test_times_outside_the_ledger_select_all_or_nothing(entries, bobs_client, param, year, count):
    assert len(listed(bobs_client, **{param: f"{year}-01-01T00:00:00Z"})) == count


def test_an_empty_ledger_has_no_entries_for_any_filter(bobs_client):
    for query in ({"type": "USAGE_DEBIT"}, {"type": "REFUND_DEBIT"}, {"apiKey": "key-a"}, {"from": "2026-01-01T00:00:00Z"}):
        assert listed(bobs_client, **query) == []


def test_a_completion_is_found_by_its_key(alice, echo_model):
    keys = [factories.make_key(alice, name) for name in ("laptop", "server")]
    for _, secret in keys:
        assert chat.ask(client_for(secret)).status_code == 200
    api = client_for(keys[0][1])
    newest_first = ids(list(alice.entries.order_by("-seq")))
    assert listed(api, apiKey=keys[0][0].pk) == newest_first[1:2]
    assert listed(api, apiKey=keys[1][0].pk) == newest_first[:1]
    assert listed(api) == newest_first


def test_another_accounts_key_finds_nothing(entries, api):
    assert listed(api, apiKey="key-a") == []


NO_TIMES = (
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
INVALID = {
    "type": ("GIFT", "usage_debit", "", "USAGE_DEBIT,REFUND_DEBIT", "9" * 1_500, "\x00"),
    "apiKey": ("", "x" * 65, "\x00"),
    "from": NO_TIMES,
    "to": NO_TIMES,
}


@pytest.mark.parametrize("path", [LEDGER, CSV])
def test_an_invalid_filter_is_refused_by_name(api, subtests, path):
    for param, values in INVALID.items():
        for value in values:
            with subtests.test(f"{param}={value[:25]!r}"):
                chat.assert_error(api.get(path, {param: value}), 400, "invalid_request_error", param)


def test_an_unknown_type_lists_the_known_ones(api):
    message = api.get(LEDGER, {"type": "GIFT"}).json()["error"]["message"]
    assert message == "type must be one of CREDIT_PURCHASE, USAGE_DEBIT, SUPPORT_CREDIT, REFUND_DEBIT."


@pytest.mark.parametrize("value", ["2026-11-21T00:00:00", "2026-11-21"])
def test_a_time_without_an_offset_is_refused(api, value):
    message = api.get(LEDGER, {"from": value}).json()["error"]["message"]
    assert message == "from must say its offset from UTC: Z, or as +02:00 with the + written as %2B."


def test_a_range_that_ends_before_it_begins_is_refused(api):
    query = {"from": "2026-11-21T00:00:00Z", "to": "2026-11-21T00:00:00+00:01"}
    reply = api.get(LEDGER, query)
    chat.assert_error(reply, 400, "invalid_request_error", "to")
    assert listed(api, **{"from": query["from"], "to": query["from"]}) == []


def test_a_filtered_page_takes_a_fixed_number_of_queries_at_any_depth(entries, bobs_client, django_assert_num_queries):
    listed(bobs_client)
    for query, queries in (
        ({"type": "USAGE_DEBIT"}, 3),
        ({"type": "SUPPORT_CREDIT"}, 2),
        ({"apiKey": "key-a"}, 2),
        ({"from": iso(entries[20].created_at)}, 3),
    ):
        for offset in (0, 5, 1_000_000):
            with django_assert_num_queries(queries):  # the key with its account, the entries, and where the page begins
                listed(bobs_client, offset=offset, **query)


def test_a_deep_page_is_one_index_seek(entries, bobs_client):
    for query in ({}, {"type": "USAGE_DEBIT"}, {"to": iso(entries[2].created_at)}):
        with CaptureQueriesContext(connection) as queries:
            assert len(listed(bobs_client, limit=5, offset=15, **query)) == 5
        sql = queries[-1]["sql"]
        assert 'FROM "billing_ledgerentry"' in sql
        assert sql.endswith(" LIMIT 5")  # no OFFSET, which would read what it skips
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")  # preferred for small tables
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "Index Scan Backward using a_place_in_the_book_is_taken_once" in plan
        assert re.search(r"Index Cond: .*account_id = .* AND \(seq <= \d+\)", plan)
        assert "Sort" not in plan


# --- Batches --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches")
def test_batches_of_any_filter_have_every_entry_once(entries, bob):
    bob.refresh_from_db()
    for entry_filter in (
        reading.ALL_ENTRIES,
        reading.EntryFilter(type="USAGE_DEBIT"),
        reading.EntryFilter(type="REFUND_DEBIT"),
        reading.EntryFilter(spender="key-a", until=entries[5].created_at),
    ):
        found = list(reading.read_batches(bob, entry_filter))
        expected = reading.read_page(bob, limit=100, offset=0, entry_filter=entry_filter)
        assert expected
        assert [len(batch) for batch in found[:-1]] == [5] * (len(found) - 1)
        assert [entry for batch in found for entry in batch] == expected
