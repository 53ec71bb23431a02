from typing import Any

from celery.exceptions import Retry
from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from gateway_project.operator_command import OperatorCommand

# Only starts tasks in a worker: ``refresh_rankings`` reads the sources here.
_STARTS_OTHERS = "rankings.tasks.refresh_due_sources"


class Command(OperatorCommand):
    help = "Run a periodic task now, without beat, a worker or Redis."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task", metavar="TASK", help="Its name, such as billing.tasks.verify_ledger.")

    def handle(self, *args: Any, **options: Any) -> None:
        from gateway_project.celery import app

        name = options["task"]
        if name not in (names := {entry["task"] for entry in settings.PERIODIC_TASKS.values()} - {_STARTS_OTHERS}):
            raise CommandError(f"TASK: {name!r} is not one of {', '.join(sorted(names))}.")
        app.loader.import_default_modules()
        try:
            result = app.tasks[name].apply(throw=True).result
        except Retry as retry:  # as a worker would, later
            raise CommandError(f"{name} did not end: {retry.exc}. Run it again.") from None
        self.write_result(options, {"task": name, "result": result}, f"{name} has ended. Result: {result}")
