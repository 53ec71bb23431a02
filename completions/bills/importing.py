"""Imports files as a bill, in small transactions. A bill counts once it is complete; one that broke off is deleted by the next.

Its lines are added up by day, model and account while they are read, so a month of hourly lines becomes some hundred rows.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now

from completions.bills import comparison, files, reading
from completions.bills.files import UNPACKED_BYTES_MAX, File, Refused
from completions.bills.formats import Format
from completions.bills.reading import EXACT, Charge, LeftOut
from completions.models import Bill, BillDay, Provider
from gateway_project.db import pool

logger = logging.getLogger("gateway.bills")

SUMS_MAX = 20_000  # in memory
_SAMPLES = 5  # of each kind of lines that are left out
_PAUSE_LINES = 200
_BROKEN_TIME = timedelta(hours=12)  # no import takes as long
_DAYS_MAX = 800

_Key = tuple[Any, ...]


class Import:
    """The lines of a bill that were read so far."""

    def __init__(self, bill: Bill) -> None:
        self._bill, self._sums, self.days = bill, dict[_Key, list[Any]](), set[Any]()
        self._exponent = -2  # of a cent, at least

    def add(self, number: int, read: Charge | LeftOut) -> None:
        if isinstance(read, LeftOut):
            return self._leave_out(number, read)
        self.days.add(read.day)
        if len(self.days) > _DAYS_MAX:
            raise Refused(f"The files have more than {_DAYS_MAX} days.")
        key = (read.day, read.name, read.account, read.request_id, read.tokens is None)
        total = self._sums.setdefault(key, [read.cost_usd * 0, 0, 0, number])
        total[0] = EXACT.add(total[0], read.cost_usd)
        total[1] += read.tokens or 0
        total[2] += 1
        self._exponent = min(self._exponent, read.cost_usd.as_tuple().exponent)  # type: ignore[assignment]
        if len(self._sums) >= SUMS_MAX:
            self.flush()
        return None

    def _leave_out(self, number: int, line: LeftOut) -> None:
        kind = self._bill.left_out.setdefault(line.kind, {"lines": 0, "cost": "0", "first": []})
        kind["lines"] += 1
        kind["cost"] = str(EXACT.add(EXACT.create_decimal(kind["cost"]), line.cost))
        if len(kind["first"]) < _SAMPLES:
            kind["first"].append([number, "".join(each if each.isprintable() else "?" for each in line.why)])

    def flush(self) -> None:
        """Write the sums."""
        with (
            transaction.atomic(),
            connection.cursor() as cursor,
            cursor.copy(
                "COPY completions_billline"
                " (bill_id, day, name, account, request_id, tokens, cost_usd, lines, first_line) FROM STDIN"
            ) as copy,
        ):
            for (*texts, is_uncounted), (cost, tokens, lines, first) in self._sums.items():
                copy.write_row((self._bill.pk, *texts, None if is_uncounted else tokens, cost, lines, first))
        self._bill.lines += sum(total[2] for total in self._sums.values())
        for total in self._sums.values():
            self._bill.total_usd = EXACT.add(self._bill.total_usd, total[0])
        self._bill.rounding_usd = EXACT.scaleb(EXACT.create_decimal(5), self._exponent - 1)
        self._sums.clear()


def run(
    provider: Provider, found: Sequence[File], bytes_max: int = UNPACKED_BYTES_MAX, pause: Callable[[], None] = lambda: None
) -> tuple[Bill, bool]:
    """Import files as one bill, and compare its days. Return it, and whether it is new. Raises Refused, leaving nothing."""
    sha256 = files.digest(found, bytes_max)
    if known := _known(provider, sha256):
        return known, False
    now = pool.database_time()
    Bill.objects.filter(finished_at=None, begun_at__lt=now - _BROKEN_TIME).delete()
    name = found[0].name if len(found) == 1 else f"{found[0].name} and {len(found) - 1} more"
    bill = Bill.objects.create(provider=provider, file_name=name[-200:], sha256=sha256)
    bill.total_usd, bill.begun_at = EXACT.create_decimal(0), now
    try:
        _read(bill, found, pause)
        Bill.objects.filter(pk=bill.pk).update(finished_at=Now())
    except BaseException as error:
        bill.delete()
        if isinstance(error, IntegrityError) and (known := _known(provider, sha256)):  # another process was faster
            return known, False
        raise
    comparison.compare_days(provider, bill.days.values_list("day", flat=True))
    logger.info("imported the bill %s: %s lines", bill, bill.lines)
    return bill, True


def _known(provider: Provider, sha256: str) -> Bill | None:
    return Bill.objects.filter(provider=provider, sha256=sha256, finished_at__isnull=False).first()


def _read(bill: Bill, found: Sequence[File], pause: Callable[[], None]) -> None:
    form, imported = None, Import(bill)
    for file in found:
        with files.unpacked(file) as contents:
            for name, content in contents:
                form = _read_rows(imported, name, content, form, pause)
    if not imported.days:
        raise Refused(f"No line charges for a model: {left_out_words(bill) or 'there are none'}.")
    imported.flush()
    assert form is not None
    bill.format = form.title
    BillDay.objects.bulk_create(BillDay(bill=bill, day=day) for day in sorted(imported.days))
    bill.save(update_fields=["format", "lines", "total_usd", "rounding_usd", "left_out"])


def _read_rows(imported: Import, name: str, content: Any, known: Format | None, pause: Callable[[], None]) -> Format:
    _, head = next(rows := files.rows(content))
    form = reading.recognize(head)
    if known and form is not known:
        raise Refused(f"{name} is of the format {form.title}, and the files before it are {known.title}.")
    for count, (number, row) in enumerate(rows):
        imported.add(number, LeftOut("unreadable", row) if isinstance(row, str) else reading.read(form, row))
        if count % _PAUSE_LINES == 0:
            pause()
    return form


def left_out_words(bill: Bill) -> str:
    """Say how many lines were left out, and where the first ones of each kind are."""
    return "; ".join(
        f"{kind['lines']:,} {name}, cost {kind['cost']} (line {', line '.join(f'{at}: {why}' for at, why in kind['first'])})"
        for name, kind in bill.left_out.items()
    )


def run_directory() -> int:
    """Import what is new in GATEWAY_BILLS_DIR/PROVIDER: each file, or folder of files, is a bill. Return how many are."""
    imported = 0
    for provider in Provider.objects.order_by("pk") if settings.BILLS_DIR else ():
        entries = [each for each in (Path(settings.BILLS_DIR) / provider.pk).glob("[!.]*") if each.exists()]
        for entry in sorted(entries, key=lambda each: (each.stat().st_mtime, each.name)):
            paths = sorted(each for each in entry.rglob("[!.]*") if each.is_file()) if entry.is_dir() else [entry]
            try:
                imported += run_paths(provider, paths)[1] if paths else 0
            except (Refused, OSError) as error:  # the other files still have their turn
                logger.error("the bill %s is not imported: %s", entry, error)
    return imported


def run_paths(provider: Provider, paths: Sequence[Path]) -> tuple[Bill, bool]:
    """Import files by their paths as one bill. Raises Refused and OSError."""
    with ExitStack() as stack:
        return run(provider, [File(path.name, stack.enter_context(path.open("rb"))) for path in paths])
