from datetime import date
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import IntegrityError

from billing.models import ArchivedDay
from completions.retention import archive, files
from gateway_project.db import everywhere, pool
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Insert the completions and holds of an archived day again. After a week they are deleted again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("day", metavar="DAY", type=_day, help="Such as 2026-10-31.")

    def handle(self, *args: Any, **options: Any) -> None:
        day = options["day"]
        try:
            in_cells = everywhere.run(lambda: self._restore(day))
        except files.Damaged as error:
            raise CommandError(str(error)) from None
        except IntegrityError as error:
            raise CommandError(f"A key, model, price or provider of {day} was deleted since: {error}") from None
        if all(restored is None for restored in in_cells):
            raise CommandError(f"There is no archive of {day}: list_archive shows which days have one.")
        restored = sum(filter(None, in_cells))
        self.write_result(options, {"day": day, "completions": restored}, f"{restored:,} completions of {day} are restored.")

    def _restore(self, day: date) -> int | None:
        archived = ArchivedDay.objects.filter(pk=day).exclude(written_at=None).first()
        return archive.restore(day, pool.database_time()) if archived and archived.files else None


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CommandError(f"DAY must be a day such as 2026-10-31; it is {text!r}.") from None
