from typing import Any

from django.core.management.base import CommandError, CommandParser

from billing.alerts.payload import camel_case
from billing.models import ArchivedDay
from completions.retention import files
from completions.retention.files import Damaged, File
from gateway_project.db import everywhere
from gateway_project.operator_command import OperatorCommand

_TOLD = ("day", "completions", "files", "deleted_at", "restored_at")


class Command(OperatorCommand):
    help = "List the archived days and their files. With --verify, read each file: exits with 1 if one is not what was written."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--verify", action="store_true", help="Compare each file with its SHA-256.")

    def handle(self, *args: Any, **options: Any) -> None:
        days = everywhere.gather(lambda: ArchivedDay.objects.exclude(written_at=None))
        days.sort(key=lambda each: each.day)
        damages = [damage for day in days for damage in _damages(day)] if options["verify"] else []
        facts = {"days": [{camel_case(name): getattr(day, name) for name in _TOLD} for day in days], "damages": damages}
        self.write_result(options, facts, "\n".join([*map(_line, days), *damages]) or "No day is archived.")
        if damages:
            raise CommandError(f"{len(damages)} files are damaged or missing.")


def _damages(day: ArchivedDay) -> list[str]:
    damages = []
    for each in day.files:
        try:
            files.verify(File(**each))
        except Damaged as damage:
            damages.append(str(damage))
    return damages


def _line(day: ArchivedDay) -> str:
    where = ", ".join(f"{each['name']} ({each['bytes']:,} bytes)" for each in day.files) or "dropped"
    state = "restored" if day.restored_at else "archived" if day.deleted_at else "being deleted"
    return f"{day.day}  {day.completions:,} completions  {state}  {where}"
