"""A bill is imported once and whole; of a day that several have the newest counts; nothing is lost in silence."""

import bz2
import gzip
import io
import json
import math
import os
import zipfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions import tasks
from completions.bills import comparison, files, importing
from completions.bills.files import File, Refused
from completions.bills.reading import EXACT
from completions.models import Bill, BillComparison, BillLine, LanguageModel, Provider
from gateway_project.db import pool
from tests import factories
from tests.completions.bills import written
from tests.completions.bills.written import DAY, HEAD, line

NEXT = DAY + timedelta(days=1)
TEXT = HEAD + line("0.25") + line("0.5", "é, input")


def zipped(kind: int = zipfile.ZIP_DEFLATED, **members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", kind) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_", "."), text)
    return packed.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        TEXT.encode("utf-16-le"),
        TEXT.replace("\n", "\r\n").encode(),
        "\n".join(";".join(f'"{cell}"' for cell in row) for row in [r.split(",", 6) for r in HEAD.splitlines()]).encode()
        + ("\n" + (line("0.25") + line("0.5", "é, input")).replace(",", ";").replace("; input", ", input")).encode(),
        gzip.compress(TEXT.encode()),
        zipped(part_csv=TEXT, readme_txt="nothing"),
    ],
    ids=["utf-8", "bom", "utf-16", "utf-16 without a mark", "crlf", "semicolons", "gzip", "zip"],
)
def test_a_file_is_read_however_it_is_packed_and_encoded(echo_model: LanguageModel, content: bytes) -> None:
    imported, is_new = written.run(content)
    assert is_new
    assert (imported.lines, imported.total_usd) == (2, Decimal("0.75"))
    assert set(BillLine.objects.values_list("name", flat=True)) == {"echo", "é"}


def test_the_same_content_is_imported_once(echo_model: LanguageModel) -> None:
    first, _ = written.run(TEXT.encode())
    for content in (TEXT.encode(), gzip.compress(TEXT.encode()), zipped(other_csv=TEXT)):
        assert written.run(content, name="other.csv") == (first, False)
    assert (Bill.objects.count(), BillLine.objects.count()) == (1, 2)


def test_a_newer_export_counts_for_the_days_it_has(echo_model: LanguageModel) -> None:
    written.bill(line("1"), line("2", day=NEXT))
    newer = written.bill(line("1.5", day=NEXT))
    billed = dict(BillComparison.objects.values_list("day", "billed_usd"))
    assert billed == {DAY: Decimal(1), NEXT: Decimal("1.5")}
    newer.delete()
    comparison.compare("echo", NEXT)
    assert BillComparison.objects.get(day=NEXT).billed_usd == 2


def test_the_parts_of_one_export_are_one_bill(echo_model: LanguageModel, tmp_path: Path) -> None:
    parts = [tmp_path / "part-1.csv", tmp_path / "part-2.csv"]
    for path, text in zip(parts, (line("1"), line("2")), strict=True):
        path.write_text(HEAD + text)
    imported, _ = importing.run_paths(Provider.objects.get(pk="echo"), parts)
    assert (imported.total_usd, imported.file_name, written.only().billed_usd) == (3, "part-1.csv and 1 more", 3)


def test_files_of_two_formats_are_no_bill(echo_model: LanguageModel) -> None:
    other = "usage_date_utc,model,cost_usd\n2026-08-04,echo,1\n"
    with pytest.raises(Refused, match="the files before it are OpenAI costs"):
        written.run(zipped(a_csv=TEXT, b_csv=other))
    assert not Bill.objects.exists()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (line("abc"), "the cost 'abc' is not a number"),
        (line("1,5").replace("1,5", '"1,5"'), "the cost '1,5' is not a number"),
        (line("=1+1"), "the cost '=1+1' is not a number"),
        (line("1e20"), "is too large"),
        (line("0." + "0" * 30 + "1"), "more than 30 decimals"),
        (line("nan"), "is not a number"),
        (line("1", currency="u\0d"), r"the currency 'U\x00D' is none"),
        (line("1", currency="dollars"), "the currency 'DOLLARS' is none"),
        (line("1", currency=""), "the currency '' is none"),
        (line("1", day=date(2099, 1, 1)), "is yet to come"),
        (line("1", day=datetime.now(UTC).date() + timedelta(days=2)), "is yet to come"),
        ('2050-01-01T00:00:00Z,1,usd,,,"echo, input",p\n', "the time '2050-01-01T00:00:00Z' cannot be read, or is yet to come"),
        ('9999-12-31,1,usd,,,"echo, input",p\n', "the time '9999-12-31' cannot be read"),
        ('0001-01-01,1,usd,,,"echo, input",p\n', "the time '0001-01-01' cannot be read"),
        (line("1").replace("17", "x7", 1), "the time"),
        (line("1", "x" * 400 + ", input"), "its name is too long"),
        (line("1", "nul\0, input"), "its name is too long or no text"),
        ("1,2,3\n", "3 fields instead of 7"),
        (line("1", "y" * 200_000 + ", input"), "field larger than field limit"),
    ],
)
def test_a_line_that_cannot_be_read_is_counted_with_its_number(echo_model: LanguageModel, bad: str, said: str) -> None:
    imported = written.bill(line("0.25"), line("0.1", "two\nlines, input"), bad, line("0.5"))
    imported.refresh_from_db()
    [(number, why)] = imported.left_out["unreadable"]["first"]
    assert (number, imported.left_out["unreadable"]["lines"]) == (5, 1)
    assert said in why
    assert imported.total_usd == Decimal("0.85")


def test_bytes_that_are_no_text_are_counted(echo_model: LanguageModel) -> None:
    imported, _ = written.run((HEAD + line("1")).encode() + line("2", "bad\udcff, input").encode(errors="surrogateescape"))
    assert imported.left_out["unreadable"]["lines"] == 1


def test_tokens_beyond_belief_are_not_counted(echo_model: LanguageModel) -> None:
    imported = written.bill(*[line("1", tokens="9" * 18)] * 50)
    assert (imported.lines, BillLine.objects.get().tokens) == (50, None)


def test_credits_count_as_they_are(echo_model: LanguageModel) -> None:
    written.bill(line("1"), line("-0.25"))
    assert written.only().billed_usd == Decimal("0.75")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04 nonsense", "cannot be unpacked"),
        (gzip.compress(TEXT.encode())[:-9], "cannot be unpacked"),
        (bz2.compress(TEXT.encode()), "of no known format"),
        (zipped(readme_txt="x"), "No line charges for a model"),
        (HEAD.encode(), "No line charges for a model"),
        ((HEAD + line("1", "storage")).encode(), "1 not models"),
        (HEAD.encode() + b"x" * 1_100_000, "more than 1,000,000 characters"),
        (b'"' + b"x" * 200_000 + b'",b\n1,2\n', "The first line is no CSV: field larger"),
        (zipped(a_csv=TEXT, kind=zipfile.ZIP_LZMA).replace(b"]\0\0", b"\xff\xff\xff", 1), "cannot be unpacked"),
        (TEXT.encode("utf-16") + b"\0\xd8" * 3, "cannot be unpacked"),
        (b'{"data": 5}', "no JSON of a cost API"),
        (b'{"data": [], "has_more": true}', "Further pages follow"),
        (b"[" * 100_000, "It is nested too deeply."),
        (b'{"data":' * 100_000, "It is nested too deeply."),
        (b'{"data": [{"results": [{"amount": {"value": 1}, "amount": {"value": 999}}]}]}', "An object has amount.value twice"),
        (b'{"data": [{"results": [{"amount": "1", "Amount": "999"}]}]}', "An object has amount twice"),
        (b'{"data": [{"results": [{"amount": {"value": 1}, "amount.value": 9}]}]}', "An object has amount.value twice"),
        (b'{"data": [{"results": [{"amount": {"value": 1, "value": 999}}]}]}', "An object has value twice"),
        (b'{"data": [{"start_time": 1, "START_TIME": 2, "results": []}]}', "An object has start_time twice"),
        (b'{"data": [{"results": [{"amount.value": 1}, "amount"]}]}', "no known format"),
        (HEAD.replace("amount_currency", "amount_value,amount_currency").encode(), "two columns of a name: amount_value."),
        (HEAD.replace("project_id", "project_id, Line_Item ").encode(), "two columns of a name: line_item."),
        (
            HEAD.replace("project_id", "quantity;start_time").replace(",", ";").encode(),
            "two columns of a name: quantity, start_time",
        ),
        (
            zipped(zipfile.ZIP_DEFLATED, **{f"{number}_csv": "" for number in range(1_001)}),
            "costs.csv has more than 1,000 files.",
        ),
    ],
)
def test_what_is_no_bill_is_refused_and_leaves_nothing(echo_model: LanguageModel, content: bytes, said: str) -> None:
    with pytest.raises(Refused, match=said):
        written.run(content)
    assert [table.objects.count() for table in (Bill, BillLine)] == [0, 0]


def cost_page(*results: dict[str, Any], **bucket: Any) -> dict[str, Any]:
    """Return a page of OpenAI's cost API, of DAY, whose results cost a dollar each where they do not say otherwise."""
    cost = {"amount": {"value": 1, "currency": "usd"}, "line_item": "echo, input"}
    return {"data": [{"start_time": f"{DAY}", "results": [{**cost, **each} for each in results], **bucket}]}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"amount": {"value": 9, "currency": None}}, "the currency '' is none"),
        ({"amount": {"value": 9, "currency": True}}, "the currency '' is none"),
        ({"amount": {"value": None, "currency": "usd"}}, "the cost '' is not a number"),
        ({"amount": {"value": [9], "currency": "usd"}}, "the cost '' is not a number"),
        ({"start_time": None}, "the time '' cannot be read"),
        ({"start_time": "2099-01-01"}, "the time '2099-01-01' cannot be read, or is yet to come"),
        ({"amount": {"value": math.nan, "currency": "usd"}}, "the cost 'NaN' is not a number"),
    ],
)
def test_a_result_that_cannot_be_read_is_counted_with_its_number(
    echo_model: LanguageModel, result: dict[str, Any], said: str
) -> None:
    imported, _ = written.run(json.dumps(cost_page({}, result)).encode())
    [[number, why]] = imported.left_out["unreadable"]["first"]
    assert (number, imported.lines, imported.total_usd) == (2, 1, 1)
    assert said in why


def test_a_page_that_a_file_has_twice_counts_twice(echo_model: LanguageModel) -> None:
    imported, _ = written.run(json.dumps([cost_page({}), cost_page({})]).encode())
    assert (imported.lines, imported.total_usd, BillLine.objects.get().lines) == (2, 2, 2)


def test_long_names_and_values_around_many_results_take_no_memory(echo_model: LanguageModel) -> None:
    """Each result repeats its bucket's members: those that no format has are not read."""
    results: list[dict[str, Any]] = [{"x" * 100_000: {f"{part}": part for part in range(100)}}] * 3
    page = cost_page(*results, **{f"bucket {number}": ["y"] * 1_000 for number in range(100)})
    [_, *rows] = files.rows(io.BytesIO(json.dumps(page).encode()))
    assert [row for _, row in rows] == [
        {"start_time": f"{DAY}", "amount.value": "1", "amount.currency": "usd", "line_item": "echo, input"}
    ] * 3


def test_a_bill_may_have_tomorrow(echo_model: LanguageModel) -> None:
    tomorrow = pool.database_time().date() + timedelta(days=1)
    assert written.bill(line("1", day=tomorrow)).days == [tomorrow]


def test_a_small_file_does_not_become_an_endless_one(echo_model: LanguageModel) -> None:
    packed = File("bomb.gz", io.BytesIO(gzip.compress(b"0" * 2_000_000)))
    with pytest.raises(Refused, match="larger than 1,000,000 bytes"):
        importing.run(Provider.objects.get(pk="echo"), [packed], 1_000_000)


def test_more_sums_than_fit_into_memory_are_written_in_parts(echo_model: LanguageModel, monkeypatch: Any) -> None:
    monkeypatch.setattr(importing, "SUMS_MAX", 3)
    lines = [line("0.1", f"model-{number % 5}, input") for number in range(20)]
    imported = written.bill(*lines)
    assert (imported.lines, imported.total_usd) == (20, 2)
    assert sum(BillLine.objects.values_list("lines", flat=True)) == 20


@given(st.lists(st.decimals(min_value=-(10**6), max_value=10**6, places=30), min_size=1, max_size=20))
def test_sums_lose_no_digit(costs: list[Decimal]) -> None:
    total = Decimal(0)
    for cost in costs:
        total = EXACT.add(total, cost)
    with localcontext(prec=500):
        assert total == sum(costs)


def test_the_directory_is_read_once_a_night(echo_model: LanguageModel, tmp_path: Path, settings: Any) -> None:
    settings.BILLS_DIR = str(tmp_path)
    (tmp_path / "echo" / "july").mkdir(parents=True)
    for name, text in {
        "july/a.csv": line("1"),
        "july/b.csv": line("2"),
        "bad.csv": "",
        "august.csv": line("5", day=NEXT),
    }.items():
        (tmp_path / "echo" / name).write_text(HEAD + text)
    os.mkfifo(tmp_path / "echo" / "waits-for-a-writer.csv")
    assert [tasks.import_bills() for _ in range(2)] == [2, 0]
    assert dict(BillComparison.objects.values_list("day", "billed_usd")) == {DAY: 3, NEXT: 5}


def test_a_later_price_changes_the_comparison_of_recent_days_by_night(echo_model: LanguageModel, settings: Any) -> None:
    today = pool.database_time().date()
    written.use(echo_model, day=today)
    written.bill(line("1", day=today))
    assert written.only().finding == "no_price"
    written.price(echo_model)
    tasks.import_bills()
    assert (written.only().finding, written.only().unexplained_usd) == ("", 0)


def test_an_import_that_broke_off_does_not_count(echo_model: LanguageModel) -> None:
    broken = factories.make_provider()
    begun = {"file_name": "broken", "begun_at": "2026-01-01T00:00:00Z", "days": [DAY]}
    bill = Bill.objects.create(provider=broken, sha256="0", **begun)
    BillLine.objects.create(bill=bill, day=DAY, name="echo", tokens=1, cost_usd=1, lines=1, first_line=2)
    comparison.compare(broken.pk, DAY)
    assert not BillComparison.objects.exists()
    written.bill(line("1"))
    assert not Bill.objects.filter(file_name="broken").exists()
