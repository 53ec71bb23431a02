"""Imports files as a bill, in small transactions. A bill counts once it is complete; one that broke off is deleted by the next.

Its lines are added up by hour, model and account while they are read, so a month of lines becomes some thousand rows.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Sum

from completions.bills import comparison, files, reading
from completions.bills.files import UNPACKED_BYTES_MAX, File, Refused
from completions.bills.reading import EXACT, Charge, LeftOut
from completions.models import Bill, BillLine, Provider
from gateway_project.db import pool
from gateway_project.large_work import sliced

logger = logging.getLogger("gateway.bills")

SUMS_MAX = 100_000  # in memory
_SAMPLES = 5  # of each kind of lines that are left out
_BROKEN_TIME = timedelta(hours=12)  # no import takes as long
_DAYS_MAX = 800
_KINDS_MAX = 50  # of lines that are left out

_Sums = dict[tuple[Any, ...], tuple[Decimal, int, int, int]]  # cost, tokens, lines and the first line


def run(provider: Provider, found: Sequence[File], bytes_max: int = UNPACKED_BYTES_MAX) -> tuple[Bill, bool]:
    """Import files as one bill, and compare its days. Return it, and whether it is new. Raises Refused, leaving nothing."""
    sha256, now = files.digest(found, bytes_max, provider.bill_accounts), pool.database_time()
    known = Bill.objects.filter(provider=provider, sha256=sha256, finished_at__isnull=False)
    if known.exists():
        return known.get(), False
    Bill.objects.filter(finished_at=None, begun_at__lt=now - _BROKEN_TIME).delete()
    name = found[0].name if len(found) == 1 else f"{found[0].name} and {len(found) - 1} more"
    bill = Bill.objects.create(provider=provider, file_name=name[-200:], sha256=sha256, begun_at=now)
    try:
        _read(bill, found)
        bill.finished_at = pool.database_time()
        bill.save()
    except BaseException as error:
        bill.delete()
        if isinstance(error, IntegrityError) and known.exists():  # another process was faster
            return known.get(), False
        raise
    comparison.compare(provider.pk, *bill.days)
    logger.info("imported the bill %s: %s lines", bill, bill.lines)
    return bill, True


def _read(bill: Bill, found: Sequence[File]) -> None:
    """Write the lines, and what they are in all into ``bill``."""
    sums: _Sums = {}
    days, exponent = set[date](), -2  # of a cent, at least
    for number, line in sliced(_lines(bill, found)):
        if isinstance(line, LeftOut):
            _leave_out(bill, number, line)
            continue
        days.add(line.day)
        if len(days) > _DAYS_MAX:
            raise Refused(f"The files have more than {_DAYS_MAX} days.")
        key = (line.day, line.hour, line.name, line.account, line.request_id, line.tokens is None)
        cost, tokens, lines, first = sums.get(key, (Decimal(0), 0, 0, number))
        sums[key] = (EXACT.add(cost, line.cost_usd), tokens + (line.tokens or 0), lines + 1, first)
        exponent = min(exponent, int(line.cost_usd.as_tuple().exponent))
        if len(sums) >= SUMS_MAX:
            _write(bill, sums)
    if not days:
        raise Refused(f"No line charges for a model: {left_out_words(bill) or 'there are none'}.")
    _write(bill, sums)
    bill.days = sorted(days)
    total = BillLine.objects.filter(bill=bill).aggregate(lines=Sum("lines"), usd=Sum("cost_usd"))
    bill.lines, bill.total_usd, bill.rounding_usd = int(total["lines"]), total["usd"], EXACT.scaleb(Decimal(5), exponent - 1)


def _lines(bill: Bill, found: Sequence[File]) -> Iterator[tuple[int, Charge | LeftOut]]:
    """Yield the lines with their numbers, all of one format, which ``bill`` gets."""
    ours, until = bill.provider.bill_accounts, bill.begun_at.date() + timedelta(days=1)
    for file in found:
        with files.unpacked(file) as contents:
            for name, content in contents:
                rows = files.rows(content)
                form = reading.recognize(next(rows)[1])
                if bill.format not in ("", form.title):
                    raise Refused(f"{name} is of the format {form.title}, and the files before it are {bill.format}.")
                bill.format = form.title
                for number, row in rows:
                    yield number, LeftOut("unreadable", row) if isinstance(row, str) else reading.read(form, row, ours, until)


def _leave_out(bill: Bill, number: int, line: LeftOut) -> None:
    name, why = ("".join(each if each.isprintable() else "?" for each in text) for text in (line.kind, line.why))
    name = name if name in bill.left_out or len(bill.left_out) < _KINDS_MAX else "others"
    kind = bill.left_out.setdefault(name, {"lines": 0, "cost": "0", "first": []})
    kind["lines"] += 1
    kind["cost"] = str(EXACT.add(Decimal(kind["cost"]), line.cost))
    if len(kind["first"]) < _SAMPLES:
        kind["first"].append([number, why])


def _write(bill: Bill, sums: _Sums) -> None:
    """Write the sums, and forget them."""
    columns = "bill_id, day, hour, name, account, request_id, tokens, cost_usd, lines, first_line"
    sql = f"COPY completions_billline ({columns}) FROM STDIN"
    with transaction.atomic(), connection.cursor() as cursor, cursor.copy(sql) as copy:
        for (*texts, is_uncounted), (cost, tokens, lines, first) in sliced(sums.items()):
            copy.write_row((bill.pk, *texts, None if is_uncounted else tokens, cost, lines, first))
    sums.clear()


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
        entries = [each for each in (Path(settings.BILLS_DIR) / provider.pk).glob("[!.]*") if each.is_dir() or each.is_file()]
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
