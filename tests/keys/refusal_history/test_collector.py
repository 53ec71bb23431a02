"""Refusals are collected within bounds, also while the database is unavailable, and written by several processes at a time."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection, transaction

from gateway_project.text import compact_json
from keys import tasks
from keys.models import RefusalCount, RefusedRequest
from keys.refusal_history import collector, tables
from keys.refusal_history.collector import KEYS_MAX, KINDS_MAX, LATEST_MAX, RefusalCollector, process_collector
from keys.refusal_history.tables import Refusal
from tests import factories, plans
from tests.outage import with_the_database_unavailable
from tests.waiting import somebody_waits, until

AT = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def refused(number: int = 0, *, at: datetime = AT, code: str = "insufficient_quota") -> Refusal:
    return Refusal(at + timedelta(microseconds=number), f"req_{number}", 402, code, "InsufficientQuota", "Too few.", "a/b")


def total(collected) -> int:
    counted = sum(sum(of_key.counts.values()) for of_key in collected.by_key.values())
    return counted + collected.dropped


# --- Bounds --------------------------------------------------------------------------------------------------------


def test_memory_is_bounded_and_what_is_dropped_is_counted():
    collected = RefusalCollector()
    for number in range(KEYS_MAX + 100):
        for of_key in range(3):
            collected.record(f"key {number}", refused(of_key))
    taken = collected.take()
    assert list(taken.by_key) == [f"key {number}" for number in range(100, KEYS_MAX + 100)]  # the oldest are dropped
    assert (taken.dropped, total(taken)) == (300, 3 * (KEYS_MAX + 100))


def test_of_each_key_the_last_refusals_and_the_last_counts_are_kept():
    collected = RefusalCollector()
    for number in range(100):
        collected.record("key", refused(number, at=AT + number * HOUR))
    taken = collected.take()
    of_key = taken.by_key["key"]
    assert [each.request_id for each in of_key.latest] == [f"req_{number}" for number in range(100 - LATEST_MAX, 100)]
    assert len(of_key.counts) == KINDS_MAX
    assert min(kind.hour for kind in of_key.counts) == AT.replace(minute=0) + (100 - KINDS_MAX) * HOUR
    assert total(taken) == 100


def test_what_could_not_be_written_stays_within_the_same_bounds():
    collected = RefusalCollector()
    for outage in range(50):
        for number in range(KEYS_MAX // 10):
            collected.record(f"key {outage} {number}", refused(at=AT + outage * HOUR))
        collected.record("always", refused(outage, at=AT + outage * HOUR))
        collected.put_back(collected.take())
    taken = collected.take()
    assert len(taken.by_key) == KEYS_MAX
    assert total(taken) == 50 * (KEYS_MAX // 10 + 1)


def test_what_is_put_back_is_older_than_what_came_meanwhile():
    collected = RefusalCollector()
    collected.record("key", refused(1))
    taken = collected.take()
    collected.record("key", refused(2))
    collected.put_back(taken)
    [of_key] = collected.take().by_key.values()
    assert [each.request_id for each in of_key.latest] == ["req_1", "req_2"]
    assert list(of_key.counts.values()) == [2]


# --- Writing -------------------------------------------------------------------------------------------------------


@pytest.fixture
def key(alice):
    return factories.make_key(alice)[0]


def test_counts_of_several_writes_add_up_by_hour_and_code(key):
    for number in range(3):
        process_collector.record(key.pk, refused(number))
        process_collector.record(key.pk, refused(10 + number, at=AT + HOUR))
        process_collector.record(key.pk, refused(20 + number, code="other"))
        collector.write()
    counts = RefusalCount.objects.order_by("hour", "code").values_list("hour", "code", "number")
    hour = AT.replace(minute=0)
    assert list(counts) == [(hour, "insufficient_quota", 3), (hour, "other", 3), (hour + HOUR, "insufficient_quota", 3)]


def test_a_key_keeps_its_last_fifty_and_others_keep_theirs(key, charlie):
    other, _ = factories.make_key(charlie)
    process_collector.record(other.pk, refused(1_000_000))
    collector.write()
    for number in range(3 * tables.LATEST_MAX):
        process_collector.record(key.pk, refused(number))
        if number % LATEST_MAX == LATEST_MAX - 1:
            collector.write()
            assert key.refused_requests.count() <= tables.LATEST_MAX
    kept = key.refused_requests.order_by("at").values_list("request_id", flat=True)
    assert list(kept) == [f"req_{number}" for number in range(2 * tables.LATEST_MAX, 3 * tables.LATEST_MAX)]
    assert other.refused_requests.count() == 1


def test_nothing_collected_is_no_query(django_assert_num_queries, db):
    with django_assert_num_queries(0):
        collector.write()


@pytest.mark.one_cell
def test_one_statement_writes_all(django_assert_num_queries, alice):
    for number in range(20):
        process_collector.record(factories.make_key(alice)[0].pk, refused(number))
    with django_assert_num_queries(1):
        collector.write()
    assert RefusedRequest.objects.count() == 20


@pytest.mark.django_db(transaction=True)
def test_what_an_outage_kept_back_is_written_after_it(key):
    process_collector.record(key.pk, refused(1))

    def write():
        with pytest.raises(OperationalError):
            collector.write()
        return True

    assert with_the_database_unavailable(write)
    process_collector.record(key.pk, refused(2))
    collector.write()
    assert RefusalCount.objects.get().number == 2
    assert set(RefusedRequest.objects.values_list("request_id", flat=True)) == {"req_1", "req_2"}


@pytest.mark.django_db(transaction=True)
def test_two_processes_write_the_same_keys_at_a_time(alice):
    keys = [factories.make_key(alice)[0].pk for _ in range(20)]

    def write(process: int) -> None:
        for turn in range(10):
            own = RefusalCollector()
            for place, key_id in enumerate(keys if process else reversed(keys)):
                own.record(key_id, refused(process * 1_000_000 + turn * 1_000 + place))
            statement = tables.write_statement(collector._of_each_key(own.take()))
            with connection.cursor() as cursor:
                cursor.execute(statement.sql.replace("$1", "%s"), [as_json(statement.parameter)])
        connection.close()

    threads = [threading.Thread(target=write, args=[process]) for process in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(RefusalCount.objects.values_list("number", flat=True)) == {20}
    assert RefusedRequest.objects.count() == 400


def as_json(parameter) -> str:
    return compact_json.dumps(parameter).decode()


@pytest.mark.django_db(transaction=True)
def test_a_write_waits_for_no_row_that_admissions_and_settlements_lock(key):
    """They lock the key's row while they decide; a write only refers to it."""
    process_collector.record(key.pk, refused(1))
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM keys_apikey WHERE id = %s FOR NO KEY UPDATE", [key.pk])
        thread = threading.Thread(target=lambda: (collector.write(), connection.close()))
        thread.start()
        until(lambda: not thread.is_alive() or somebody_waits())
        assert not thread.is_alive()
    thread.join()
    assert RefusalCount.objects.get().number == 1


# --- Old rows, plans -------------------------------------------------------------------------------------------------


def test_what_is_older_than_thirty_days_is_deleted(key):
    now = datetime.now(UTC)
    for days in (29, 31):
        process_collector.record(key.pk, refused(days, at=now - timedelta(days=days)))
    collector.write()
    assert tasks.forget_old_refusals() == 2
    assert [RefusalCount.objects.count(), RefusedRequest.objects.get().request_id] == [1, "req_29"]


def test_no_statement_of_the_history_scans_a_table(key, alice):
    keys = [factories.make_key(alice)[0] for _ in range(30)]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO keys_refusedrequest (key_id, at, request_id, status, code, error, message, model)"
            " SELECT unnest(%s::text[]), now(), gen_random_uuid()::text, 429, '', '', '', '' FROM generate_series(1, 100)",
            [[each.pk for each in keys]],
        )
        cursor.execute("ANALYZE keys_refusedrequest")
    process_collector.record(key.pk, refused(1))
    statement = tables.write_statement(collector._of_each_key(process_collector.take()))
    with plans.without_scans():
        plan = plans.plan_of(statement.sql.replace("$1", "%s"), [as_json(statement.parameter)])
        old = RefusalCount.objects.filter(hour__lt=AT).explain() + RefusedRequest.objects.filter(at__lt=AT).explain()
    assert "Seq Scan" not in plan + old
    assert "refused_requests_by_key" in plan
