"""GET /v1/usage/export: books that follow it equal the ledger, whatever became of completions meanwhile."""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from billing.ledger import audit, signed_days
from billing.models import LedgerEntry
from completions.charging.recovery import drains
from completions.models import Completion
from completions.pricing import meters
from completions.pricing.usage import Usage
from completions.retention import archive
from completions.tasks import sum_up_usage
from gateway_project.db import durability, pool
from keys import management_keys
from tests import chat, factories
from tests.billing import guards
from tests.cases import raising
from tests.completions import settlements
from tests.completions.admitted import admit
from tests.completions.charging.recovery.outbox_files import store
from tests.conftest import client_for
from tests.plans import plan_of

PATH = "/v1/usage/export"
DAY = timedelta(days=1)
USAGE = Usage(10, 10)
REPORTED = Completion.Settlement.REPORTED


@pytest.fixture(autouse=True)
def _outbox(settings, tmp_path, echo_model):
    settings.OUTBOX_DIR = tmp_path / "outbox"


@pytest.fixture
def key(alice):
    return factories.make_key(alice)


@pytest.fixture
def program(key):
    return client_for(key[1])


@pytest.fixture
def manager(alice):
    return client_for(management_keys.issue(alice, name="books", created_by=alice.members.get())[1])


def read(client: Any, **query: Any) -> dict[str, Any]:
    """Return a page, whose checksum is right."""
    reply = client.get(PATH, query)
    assert reply.status_code == 200, reply.content
    data = reply.content[len(b'{"data":') : reply.content.rindex(b',"checksum":')]
    page = reply.json()
    assert json.loads(data) == page["data"]
    assert hashlib.sha256(data).hexdigest() == page["checksum"]
    return page


def follow(client: Any, **query: Any) -> Iterator[dict[str, Any]]:
    """Yield the records after a cursor, page by page, to the end."""
    while (page := read(client, **query))["has_more"]:
        yield from page["data"]
        query["cursor"] = page["next_cursor"]
    yield from page["data"]


def nanos(records: Any) -> int:
    return int(sum(Decimal(each["cost_in_dollars"]) * 10**9 for each in records))


def used_nanos(account: Any) -> int:
    """Return what the ledger says that usage cost, after what was given back."""
    entries = LedgerEntry.objects.filter(account=account)
    usage = [*entries.filter(type="USAGE_DEBIT"), *entries.filter(reference__startswith="overcharge:")]
    return -sum(entry.amount_nanos for entry in usage)


def correct(key: Any, relayed_bytes: int, usage: Usage = USAGE) -> tuple[Completion, Completion | None]:
    """Let a completion be swept as of a dead process, and settled exactly later. Return it, and its correction."""
    completion_id = store(admit(key), REPORTED, usage, usage.prompt_tokens * 500 + usage.completion_tokens * 1_500)
    swept = Completion.objects.get(pk=completion_id)
    settlements.recover(swept, relayed_bytes)  # unless another thread has drained it
    drains.drain()
    return swept, Completion.objects.filter(repeats=completion_id).first()


def test_a_completion_is_a_record_with_all_that_is_booked(alice, key, program):
    headers = {"x-gateway-run": "nightly", "x-gateway-run-budget": "1"}
    chat.send(program, chat.body(user="customer-7", metadata={"team": "blue"}), headers=headers)
    [row] = Completion.objects.all()
    entry = LedgerEntry.objects.get(reference=row.pk)
    page = read(program)
    [record] = page["data"]
    assert page["has_more"] is False
    assert record.pop("booked_at")[:19] == entry.created_at.isoformat()[:19]
    assert record == {
        "seq": entry.seq,
        "id": str(entry.pk),
        "kind": "completion",
        "completion": row.pk,
        "supersedes": None,
        "cost_in_dollars": "0.0000075",
        "key": key[0].pk,
        "model": "demo/echo",
        "settlement": "reported",
        "usage": {
            **{meter.count: 0 for meter in meters.METERS},
            **{"prompt_tokens": row.prompt_tokens, "completion_tokens": row.completion_tokens},
        },
        "details": {
            "provider": "echo",
            "service_tier": None,
            "request_id": row.request_id,
            "provider_request_id": row.provider_request_id,
            "user": "customer-7",
            "metadata": {"team": "blue"},
            "run": "nightly",
            "data_demanded": None,
            "data_promised": None,
        },
    }


def test_each_kind_of_token_is_told(program, key):
    admitted = admit(key[0])
    settlements.settle(admitted, Usage(50, 4, 20, 10, cache_write_1h_tokens=5, web_searches=2), REPORTED)
    [record] = read(program)["data"]
    told = {name: number for name, number in record["usage"].items() if number}
    assert told == {
        **{"prompt_tokens": 50, "completion_tokens": 4, "cached_tokens": 20, "cache_write_tokens": 10},
        **{"cache_write_1h_tokens": 5, "web_searches": 2},
    }


def test_a_key_exports_its_own_usage_and_a_management_key_that_of_the_account(alice, bob, key, program, manager):
    other = client_for(factories.make_key(alice)[1])
    for client in (program, other, client_for(factories.make_key(bob)[1]), program):
        chat.ask(client)
    correct(key[0], relayed_bytes=320)
    whole, own, others = (list(follow(client, limit=1)) for client in (manager, program, other))
    assert [each["kind"] for each in own] == ["completion", "completion", "completion", "correction", "refund"]
    assert {each["key"] for each in own} == {key[0].pk}
    assert whole == sorted([*own, *others], key=lambda each: each["seq"])
    assert len(others) == 1
    assert nanos(whole) == used_nanos(alice)


def test_completions_that_cost_nothing_because_they_failed_are_no_records(program):
    assert chat.ask(program, echo={"status": 500}).status_code == 502
    assert read(program)["data"] == []


def test_a_correction_that_costs_more_names_the_completion_that_it_corrects(alice, key, program):
    swept, correction = correct(key[0], relayed_bytes=4)
    first, second = read(program)["data"]
    assert (first["completion"], first["kind"], first["settlement"]) == (swept.pk, "completion", "recovered")
    assert (second["completion"], second["kind"], second["supersedes"]) == (correction.pk, "correction", swept.pk)
    assert second["usage"]["completion_tokens"] == 10
    assert nanos([first, second]) == used_nanos(alice) == 20_000


def test_a_refund_of_an_overcharge_names_the_completion_that_was_charged(alice, key, program):
    swept, _ = correct(key[0], relayed_bytes=320)
    charged, corrected, refund = read(program)["data"]
    assert (corrected["kind"], corrected["cost_in_dollars"], corrected["supersedes"]) == ("correction", "0.00", swept.pk)
    assert (refund["kind"], refund["completion"], refund["supersedes"]) == ("refund", swept.pk, swept.pk)
    assert (refund["usage"], refund["settlement"], refund["key"]) == (None, None, key[0].pk)
    assert nanos([refund]) == -101_000
    assert nanos([charged, corrected, refund]) == used_nanos(alice) == 20_000


def test_a_correction_of_what_was_charged_nothing_supersedes_a_completion_without_a_record(key, program):
    swept, correction = correct(key[0], relayed_bytes=0)
    [record] = read(program)["data"]
    assert (record["completion"], record["supersedes"]) == (correction.pk, swept.pk)


def test_a_rerun_names_the_run_before(alice, key, program):
    stream = chat.send(program, chat.body(stream=True), HTTP_IDEMPOTENCY_KEY="again")
    next(iter(stream.streaming_content))
    first = Completion.objects.get()
    assert settlements.recover(first, 4)
    assert chat.send(program, chat.body(stream=True), HTTP_IDEMPOTENCY_KEY="again").getvalue()
    charged, rerun = read(program)["data"]
    assert (charged["completion"], charged["kind"]) == (first.pk, "completion")
    assert (rerun["kind"], rerun["supersedes"]) == ("rerun", first.pk)
    assert nanos([charged, rerun]) == used_nanos(alice)


def test_a_page_is_the_same_bytes_again_and_the_last_one_up_to_its_end(program):
    for _ in range(3):
        chat.ask(program)
    first = program.get(PATH, {"limit": 2})
    cursor = first.json()["next_cursor"]
    last = program.get(PATH, {"limit": 2, "cursor": cursor})
    assert (first.json()["has_more"], last.json()["has_more"]) == (True, False)
    chat.ask(program)
    assert program.get(PATH, {"limit": 2}).content == first.content
    again = {"limit": 2, "cursor": cursor}
    assert len(program.get(PATH, again).json()["data"]) == 2
    assert program.get(PATH, {**again, "until": last.json()["next_cursor"]}).content == last.content


def test_an_end_is_continued_from_later(program, manager, alice):
    for client in (program, manager):
        cursor = read(client)["next_cursor"]
        factories.credit(alice, 100)  # beside usage
        later = read(client, cursor=cursor)
        assert (later["data"], later["has_more"]) == ([], False)
        assert later["next_cursor"] != cursor
        chat.ask(program)
        assert len(read(client, cursor=later["next_cursor"])["data"]) == 1


@pytest.mark.parametrize("name", ["cursor", "until"])
def test_a_cursor_of_another_ledger_or_of_none_is_refused_by_name(alice, bob, key, program, manager, name):
    chat.ask(program)
    others = [manager, client_for(factories.make_key(alice)[1]), client_for(factories.make_key(bob)[1])]
    good = read(program)["next_cursor"]
    digest = good.partition("-")[2]
    wrong = [read(each)["next_cursor"] for each in others]
    wrong += ["x", "0", f"0-{digest}", f"{10**17}-{digest}", f"00{good}", good.upper() + "0", "9" * 19 + f"-{digest}"]
    for each in wrong:
        reply = program.get(PATH, {name: each})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, name), each
    assert program.get(PATH, {name: good}).status_code == 200


def test_a_cursor_from_before_a_restore_is_refused(alice, program):
    chat.ask(program)
    cursor = read(program)["next_cursor"]
    guards.remove("billing_ledgerentry")
    LedgerEntry.objects.filter(account=alice, type="USAGE_DEBIT").update(reference="another")
    guards.forge_hashes()  # as if another completion were booked in its place
    reply = program.get(PATH, {"cursor": cursor})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "cursor")


def test_an_end_before_the_cursor_is_refused(program):
    cursor = read(program)["next_cursor"]
    chat.ask(program)
    reply = program.get(PATH, {"cursor": read(program)["next_cursor"], "until": cursor})
    assert (reply.status_code, reply.json()["error"]["message"]) == (400, "until must not be before cursor.")


def test_a_limit_out_of_bounds_is_refused(program):
    for limit in (0, 501):
        reply = program.get(PATH, {"limit": limit})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "limit")


def test_what_is_archived_keeps_its_money(alice, program, settings, tmp_path):
    settings.RETENTION_DETAIL_DAYS, settings.ARCHIVE_DIR = 35, str(tmp_path / "archive")
    chat.ask(program, user="customer-7")
    [before] = read(program)["data"]
    sum_up_usage()
    now = pool.database_time()
    assert signed_days.verify((now + DAY).replace(hour=4)) == []
    assert archive.run(now + 60 * DAY) == 1
    assert not Completion.objects.exists()
    [after] = read(program)["data"]
    kept = ("prompt_tokens", "completion_tokens", "web_searches")
    usage = {name: number if name in kept else None for name, number in before["usage"].items()}
    assert after == {**before, "details": None, "usage": usage}


def test_programs_without_a_key_and_revoked_ones_are_refused(alice, key, program):
    made, secret = management_keys.issue(alice, name="old", created_by=alice.members.get())
    management_keys.revoke(made)
    for client in (client_for(None), client_for(secret), client_for("mgw_manage_x")):
        assert client.get(PATH).status_code == 401


def test_reads_by_either_key_are_paced(program, manager, settings, key):
    settings.KEY_READS_PER_MINUTE = 1
    for client in (program, manager):
        assert [client.get(PATH).status_code for _ in range(2)] == [200, 429]


def test_a_read_by_a_management_key_is_in_flight_of_its_account(settings):
    settings.ACCOUNT_READS_IN_FLIGHT = 0
    account = factories.make_account("Busy", owner=factories.make_user("busy@example.org"))
    secret = management_keys.issue(account, name="books", created_by=account.members.get())[1]
    chat.assert_error(client_for(secret).get(PATH), 429, "rate_limit_exceeded")


def test_each_query_seeks_an_index(alice, key, program, manager):
    for _ in range(3):
        chat.ask(program)
    correct(key[0], relayed_bytes=320)
    for client in (program, manager):
        with CaptureQueriesContext(connection) as captured:
            page = read(client, limit=2)
            read(client, limit=2, cursor=page["next_cursor"])
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")  # preferred for small tables
        for query in captured.captured_queries:
            if "billing_ledgerentry" in query["sql"] or "completions_completion" in query["sql"]:
                plan = plan_of(query["sql"])
                assert "Seq Scan" not in plan, plan
                assert "Sort" not in plan, plan


def test_a_page_that_a_crash_of_the_database_might_forget_is_not_shown(program, monkeypatch):
    chat.ask(program)
    cursor = read(program)["next_cursor"]
    monkeypatch.setattr(durability, "wait_until_durable", raising(OperationalError("the connection was lost before the flush")))
    assert program.get(PATH).status_code == 503
    assert read(program, cursor=cursor)["data"] == []  # nothing new


@pytest.mark.django_db(transaction=True)
def test_books_that_follow_equal_the_ledger_while_completions_run_crash_and_are_corrected(alice, echo_model):
    keys = [factories.make_key(alice) for _ in range(3)]
    manager = client_for(management_keys.issue(alice, name="books", created_by=alice.members.get())[1])
    for relayed_bytes in (4, 320):
        correct(keys[0][0], relayed_bytes)

    def work(number: int) -> None:
        made, secret = keys[number]
        client = client_for(secret)
        for turn in range(4):
            chat.ask(client)
            correct(made, relayed_bytes=(0, 4, 320)[(turn + number) % 3], usage=Usage(10, 5 + turn))
        connection.close()

    def book(client: Any, is_over: Any) -> list[dict[str, Any]]:
        records, query, is_last = list[dict[str, Any]](), dict[str, Any](), False
        while not is_last:
            is_last = is_over()
            while (page := read(client, limit=3, **query))["data"] or page["has_more"]:
                records += page["data"]
                query["cursor"] = page["next_cursor"]
        connection.close()
        return records

    with ThreadPoolExecutor(7) as threads:
        working = [threads.submit(work, number) for number in range(3)]
        clients = [manager, *(client_for(secret) for _, secret in keys)]
        books = [threads.submit(book, client, lambda: all(each.done() for each in working)) for client in clients]
        for each in working:
            each.result()
        drains.drain()
        whole, *own = [each.result() for each in books]
    assert audit.verify(alice.pk) == []
    assert {"completion", "correction", "refund"} == {each["kind"] for each in whole}
    entries = LedgerEntry.objects.filter(account=alice).exclude(type="CREDIT_PURCHASE").order_by("seq")
    usage = [entry for entry in entries if entry.metadata.get("completionId")]
    assert [(each["seq"], nanos([each])) for each in whole] == [(entry.seq, -entry.amount_nanos) for entry in usage]
    assert nanos(whole) == used_nanos(alice) == sum(map(nanos, own))
    assert sorted(each["seq"] for records in own for each in records) == [each["seq"] for each in whole]
