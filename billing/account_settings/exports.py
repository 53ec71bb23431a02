"""All data of an account as one ZIP file: of each table a JSON and a CSV file. Made in the background, kept for some days.

It is written row by row into parts in the database, so that no process has more than one in memory. If a worker dies, another
one starts again.
"""

import json
import logging
import re
import zipfile
from collections.abc import Generator, Iterator
from datetime import timedelta
from io import TextIOWrapper
from typing import IO, Any, cast
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest

from billing import locks
from billing.account_settings import own_tables
from billing.models import Account, AccountExport, ExportPart
from billing.sign_in import mails
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.text import csv_text
from gateway_project.web import hosts

logger = logging.getLogger("gateway.exports")

State = AccountExport.State
PART_BYTES = 1_000_000
CLAIM_TIME = timedelta(minutes=70)  # longer than a task may run
A_DAY_MAX = 3  # of an account
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)


class ExportRefused(Exception):
    """No export was asked for; says why, as a sentence."""


class TooLarge(Exception):
    """The file would be larger than EXPORT_BYTES_MAX."""


def ask(request: HttpRequest, account: Account) -> AccountExport:
    """Ask for an export, or return the one that is being made. Raises ExportRefused."""
    with transaction.atomic():
        locked = locks.lock_account(account.pk)
        if waiting := locked.exports.filter(state=State.WAITING).first():
            return waiting
        if locked.exports.filter(asked_at__gt=pool.database_time() - timedelta(days=1)).count() >= A_DAY_MAX:
            raise ExportRefused(f"An account is exported {A_DAY_MAX} times a day at most. Try again tomorrow.")
        export = AccountExport.objects.create(account=locked, asked_by=request.user)  # type: ignore[misc]
        log.record(request, log.Act.DATA_EXPORTED, export, "Asked for an export of all data.")
    return export


def read_parts(export: AccountExport) -> Generator[bytes, None, None]:
    for number in range(-(-export.size_bytes // PART_BYTES)):
        part = ExportPart.objects.filter(export=export, number=number).values_list("content", flat=True).first()
        pool.release_connection()
        if part is None:
            return  # it expired meanwhile
        yield bytes(part)


def forget_expired() -> int:
    """Delete exports that are some days old. Return how many."""
    now = pool.database_time()
    over = Q(expires_at__lte=now) | Q(state=State.FAILED, asked_at__lte=now - timedelta(days=1))
    expired = list(AccountExport.objects.filter(over).values_list("pk", flat=True)[:100])
    for pk in expired:
        while numbers := list(ExportPart.objects.filter(export=pk).values_list("pk", flat=True)[:50]):
            ExportPart.objects.filter(pk__in=numbers).delete()
        AccountExport.objects.filter(pk=pk).delete()
    return len(expired)


def make_waiting() -> int:
    """Make the exports that were asked for. Return how many are ready."""
    made = 0
    while export := _claim():
        made += _make(export)
    return made


def _claim() -> AccountExport | None:
    with transaction.atomic():
        now = pool.database_time()
        free = Q(claimed_until=None) | Q(claimed_until__lt=now)
        rows = AccountExport.objects.select_for_update(of=("self",), no_key=True, skip_locked=True)
        export = rows.filter(free, state=State.WAITING).select_related("account", "asked_by").order_by("pk").first()
        if export:
            export.claimed_until = now + CLAIM_TIME
            export.save(update_fields=["claimed_until"])
            ExportPart.objects.filter(export=export).delete()
    return export


def _make(export: AccountExport) -> bool:
    parts, row = _Parts(export.pk), AccountExport.objects.filter(pk=export.pk)
    try:
        _write_zip(export.account, parts)
    except TooLarge:
        logger.error("the export %s of account %s is too large", export.pk, export.account_id)
        ExportPart.objects.filter(export=export).delete()
        row.update(state=State.FAILED, size_bytes=0, ready_at=None, expires_at=None)
        return False
    now = pool.database_time()
    expires_at = now + timedelta(days=settings.EXPORT_DAYS)
    row.update(state=State.READY, size_bytes=parts.size_bytes, ready_at=now, expires_at=expires_at)
    link = hosts.mailed_page("export", "the Settings of your dashboard")
    mails.send(export.asked_by.email, "export_ready", account=export.account.name, link=link, days=settings.EXPORT_DAYS)
    return True


def _write_zip(account: Account, parts: "_Parts") -> None:
    # The file has no seek: what it says of its members comes after each of them.
    with zipfile.ZipFile(cast(IO[bytes], parts), "w", zipfile.ZIP_DEFLATED) as file:
        for name, read in own_tables.readers().items():
            with file.open(f"{name}.json", "w", force_zip64=True) as member:
                _write_json(member, read(account))
            with file.open(f"{name}.csv", "w", force_zip64=True) as member:
                for number, row in enumerate(read(account)):
                    head = [] if number else [list(row)]
                    member.write(csv_text.write_lines([*head, map(_cell, row.values())]))
    parts.finish()


def _write_json(member: IO[bytes], rows: Iterator[dict[str, Any]]) -> None:
    with TextIOWrapper(member, encoding="utf-8") as text:
        separator = "["
        for row in rows:
            text.write(f"{separator}\n{json.dumps(row, ensure_ascii=False)}")
            separator = ","
        text.write("\n]\n" if separator == "," else "[]\n")


def _cell(value: Any) -> Any:
    """Return a value as a cell that is no formula. An amount is a number, and no formula either."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
    return csv_text.text_cell(text) if isinstance(text, str) and not _NUMBER.fullmatch(text) else text


class _Parts:
    """A file that can be written only, and becomes rows of PART_BYTES each. Raises TooLarge."""

    def __init__(self, export_id: UUID) -> None:
        self._export_id, self._waiting, self._number = export_id, bytearray(), 0
        self.size_bytes = 0

    def write(self, content: bytes) -> int:
        self._waiting += content
        self.size_bytes += len(content)
        if self.size_bytes > settings.EXPORT_BYTES_MAX:
            raise TooLarge
        while len(self._waiting) >= PART_BYTES:
            self._store(bytes(self._waiting[:PART_BYTES]))
            del self._waiting[:PART_BYTES]
        return len(content)

    def flush(self) -> None:
        """Nothing: parts are stored when they are full."""

    def finish(self) -> None:
        if self._waiting:
            self._store(bytes(self._waiting))

    def _store(self, content: bytes) -> None:
        ExportPart.objects.create(export_id=self._export_id, number=self._number, content=content)
        self._number += 1
