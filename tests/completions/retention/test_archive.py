"""Details of completions are archived after a time, and restored; the ledger stays and verifies."""

import gzip
import hashlib
import json
from dataclasses import asdict
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from billing.ledger import audit, signed_days
from billing.models import ArchivedDay, AuditedDay, Hold, LedgerEntry
from completions.models import Completion, IdempotentRequest, UsageMark
from completions.retention import archive, files
from completions.tasks import sum_up_usage
from gateway_project.db import pool
from keys.models import SpendingDay
from tests import chat
from tests.pages.conftest import owner  # noqa: F401  a fixture

DAY = timedelta(days=1)


@pytest.fixture
def later(api, echo_model, settings, tmp_path):
    """Send two completions that are charged and one that fails, and sign them off. Return a time when they are old."""
    settings.RETENTION_DETAIL_DAYS, settings.ARCHIVE_DIR = 35, str(tmp_path / "archive")
    assert [chat.ask(api, **fields).status_code for fields in ({"user": "u"}, {}, {"echo": {"status": 500}})] == [200, 200, 502]
    sum_up_usage()
    now = pool.database_time()
    assert signed_days.verify((now + DAY).replace(hour=4)) == []  # signs the day of the completions, and no further one
    return now + 60 * DAY


def rows():
    """Return all completions and holds as they are."""
    return [list(model.objects.order_by("pk").values()) for model in (Completion, Hold)]


def ledger():
    return [list(model.objects.order_by("pk").values()) for model in (LedgerEntry, SpendingDay)]


def command(name, *arguments):
    printed = StringIO()
    call_command(name, *arguments, "--json", stdout=printed, stderr=StringIO())
    return json.loads(printed.getvalue())


def archived_file():
    [day] = ArchivedDay.objects.all()
    return Path(settings.ARCHIVE_DIR) / day.files[0]["name"]


def test_details_of_an_old_day_are_archived_and_the_ledger_stays(later):
    before = ledger()
    assert archive.run(later) == 1
    assert (rows(), ledger()) == ([[], []], before)
    assert audit.verify() == []
    assert signed_days.verify(later) == []
    day, path = ArchivedDay.objects.get(), archived_file()
    assert (day.completions, day.holds) == (3, 3)
    packed = path.read_bytes()
    manifest = json.loads(path.with_name(f"completions-{day.day}.json").read_text())
    assert (manifest["rows"], manifest["sha256"]) == (3, hashlib.sha256(packed).hexdigest())
    lines = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    assert sorted(line["hold"]["state"] for line in lines) == ["RELEASED", "SETTLED", "SETTLED"]
    assert all(line["completion"]["id"] == line["hold"]["reference"] for line in lines)


def test_what_is_not_old_or_not_signed_is_kept(later, settings):
    assert archive.run(later - 26 * DAY) == 0
    settings.RETENTION_DETAIL_DAYS = None
    assert archive.run(later) == 0
    settings.RETENTION_DETAIL_DAYS = 35
    AuditedDay.objects.all().delete()
    assert archive.run(later) == 0
    assert [len(each) for each in rows()] == [3, 3]


def test_the_command_says_why_it_archives_nothing(later, settings, monkeypatch):
    def reason() -> str:
        result = command("archive_details")
        assert result["days"] == 0
        return result["reason"]

    assert reason() == "No completion is older than 35 days."
    monkeypatch.setattr(pool, "database_time", lambda: later)
    day = AuditedDay.objects.get().day
    UsageMark.objects.all().delete()
    assert reason().startswith(f"{day} is not archived yet: its usage is not summed up")
    AuditedDay.objects.all().delete()
    assert reason().startswith("The audit has signed off no further day: run_task billing.tasks.verify_ledger")
    ArchivedDay.objects.create(day=day, written_at=later, restored_at=later)
    assert reason().startswith("What is older was restored within a week")
    settings.RETENTION_DETAIL_DAYS = None
    assert reason() == "Details are kept for ever: GATEWAY_RETENTION_DETAIL_DAYS is not set."


def test_an_archived_day_is_restored_to_the_same_rows_for_a_week(later, monkeypatch):
    before = rows()
    archive.run(later)
    day = ArchivedDay.objects.get().day
    assert command("restore_archive", str(day)) == {"day": str(day), "completions": 3}
    assert rows() == before
    assert audit.verify() == []
    restored_at = ArchivedDay.objects.get().restored_at
    assert archive.run(restored_at + 6 * DAY) == 0
    assert rows() == before
    assert command("restore_archive", str(day))["completions"] == 3  # again: nothing is there twice
    assert rows() == before
    assert archive.run(restored_at + 8 * DAY) == 1
    assert rows() == [[], []]


def test_a_day_that_an_earlier_version_archived_is_restored(later):
    """Its file lacks columns that were added since. One that may not be empty needs its value in ``archive._INSERT``."""
    defaults = {field.column for field in Completion._meta.concrete_fields if field.has_db_default()}
    assert defaults == {"created_at", "charged_before_nanos", "provider_held_nanos"}  # the first two are older than archives
    before = rows()
    archive.run(later)
    day, path = ArchivedDay.objects.get(), archived_file()
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    for line in lines:
        for column in ("provider_held_nanos", "provider_nanos", "counts_price", "own_key_fee", "data_promised", "budgets"):
            del line["completion"][column]
    day.files = [asdict(files.write(day.day, map(json.dumps, lines)))]
    day.save()
    assert command("restore_archive", str(day.day))["completions"] == 3
    assert rows() == before
    assert audit.verify() == []


def test_details_are_dropped_where_there_is_no_archive(later, settings):
    settings.ARCHIVE_DIR = ""
    assert archive.run(later) == 1
    assert rows() == [[], []]
    assert audit.verify() == []
    with pytest.raises(CommandError, match="There is no archive of"):
        command("restore_archive", str(ArchivedDay.objects.get().day))


def test_a_run_that_cannot_write_deletes_nothing_and_the_next_one_archives(later, settings, tmp_path):
    before, wanted = rows(), settings.ARCHIVE_DIR
    (tmp_path / "file").write_text("")
    settings.ARCHIVE_DIR = str(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        archive.run(later)
    assert rows() == before
    settings.ARCHIVE_DIR = wanted
    assert archive.run(later) == 1
    assert rows() == [[], []]


def test_a_run_that_was_interrupted_between_file_and_deletion_is_continued(later):
    day = Completion.objects.earliest("id").finished_at.date()
    ArchivedDay.objects.create(day=day)
    archive._write(day)
    [(statement, values), *_] = archive._deletions(day)
    archive._delete_some(day, statement, values)
    assert [len(each) for each in rows()] != [3, 3]
    assert audit.verify() == []
    written = archived_file().read_bytes()
    assert archive.run(later) == 1
    assert rows() == [[], []]
    assert archived_file().read_bytes() == written


def test_nothing_is_deleted_while_the_file_is_not_what_was_written(later):
    before = rows()
    day = Completion.objects.earliest("id").finished_at.date()
    ArchivedDay.objects.create(day=day)
    archive._write(day)
    archived_file().write_bytes(b"damaged")
    with pytest.raises(files.Damaged):
        archive.run(later)
    assert rows() == before


def test_damaged_and_missing_files_are_listed_and_not_restored(later):
    archive.run(later)
    day = ArchivedDay.objects.get().day
    assert command("list_archive", "--verify")["damages"] == []
    archived_file().write_bytes(b"damaged")
    for name, arguments in (("list_archive", ["--verify"]), ("restore_archive", [str(day)])):
        with pytest.raises(CommandError):
            command(name, *arguments)
    assert rows() == [[], []]
    archived_file().unlink()
    with pytest.raises(CommandError, match="1 files are damaged or missing"):
        command("list_archive", "--verify")


def test_replies_that_are_stored_keep_the_day(later, alice):
    completion = Completion.objects.earliest("id")
    stored = IdempotentRequest.objects.create(
        account=alice, key="k", fingerprint="f", completion=completion, is_stream=False, expires_at=later
    )
    assert archive.run(later) == 0
    stored.delete()
    assert archive.run(later) == 1


def test_usage_that_is_not_summed_up_keeps_the_day(later, api):
    chat.ask(api)
    signed_days.verify(later - 50 * DAY)
    ArchivedDay.objects.all().delete()
    assert archive.run(later) == 1  # the first day is summed up; what came late belongs to a day that is not
    assert archive.run(later) == 0
    sum_up_usage()
    assert archive.run(later) > 0


def test_an_open_hold_and_days_that_are_not_archived_are_never_deleted(later):
    one = Completion.objects.earliest("id").pk
    statements = (
        f"DELETE FROM completions_completion WHERE id = '{one}'",
        f"DELETE FROM billing_hold WHERE reference = '{one}'",
    )
    for statement in statements:
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    ArchivedDay.objects.create(day=later.date(), written_at=later)
    Hold.objects.create(reference="open", account_id=Hold.objects.first().account_id, amount_nanos=0, expires_at=later)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM billing_hold WHERE reference = 'open'")


def test_pages_and_the_api_say_that_details_are_archived(later, api, owner):  # noqa: F811
    completion = Completion.objects.exclude(cost_nanos=0).earliest("id")
    archive.run(later)
    page = owner.get(f"/dashboard/requests/{completion.pk}/").content.decode()
    assert "Archived request" in page
    assert "kept for 35 days" in page
    assert "Requests are listed for 35 days" in owner.get("/dashboard/requests/").content.decode()
    for path in (f"/v1/completions/{completion.pk}", f"/v1/generation?id={completion.pk}"):
        reply = api.get(path)
        assert reply.status_code == 404
        assert "are no longer kept" in reply.json()["error"]["message"]
