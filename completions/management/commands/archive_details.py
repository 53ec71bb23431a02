from typing import Any

from django.core.management.base import CommandError

from completions.retention import archive, files
from gateway_project.db import everywhere, pool
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Move the completions and holds that are older than GATEWAY_RETENTION_DETAIL_DAYS to GATEWAY_ARCHIVE_DIR."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            now = pool.database_time()
            days = sum(everywhere.run(lambda: archive.run(now, seconds=float("inf"))))
        except (files.Damaged, OSError) as error:
            raise CommandError(str(error)) from None
        reason = "" if days else " ".join(dict.fromkeys(everywhere.run(lambda: archive.reason_to_wait(now))))
        self.write_result(options, {"days": days, "reason": reason}, f"{days} days are archived. {reason}".strip())
