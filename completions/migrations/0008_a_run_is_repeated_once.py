"""A completion has one that follows it at most: its repetition under its Idempotency-Key, or its correction."""

from django.db import migrations, models
from django.db.models import Q

_NAME = "a_run_is_repeated_once"
_SETTLEMENTS = [
    ("reported", "the upstream's own usage"),
    ("estimated", "complete, but the upstream reported no usage"),
    ("partial", "cut short: the input and what was relayed"),
    ("recovered", "its process died: the input and what it had noted as relayed"),
    ("released", "nothing was charged"),
    ("expired", "nobody settled it in time; nothing was charged"),
    ("corrected", "the exact figures of an earlier one that was recovered or had expired"),
]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0007_labels_by_day")]

    operations = [
        migrations.AlterField(
            "completion",
            "settlement",
            models.CharField(max_length=10, choices=_SETTLEMENTS, null=True, help_text="Empty while it runs."),
        ),
        # Django adds a unique constraint with a lock that lasts as long as the index takes.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    [  # one that was interrupted leaves an index that is not valid
                        f"DROP INDEX CONCURRENTLY IF EXISTS {_NAME}",
                        f"CREATE UNIQUE INDEX CONCURRENTLY {_NAME} ON completions_completion (repeats)"
                        " WHERE repeats IS NOT NULL",
                    ],
                    f"DROP INDEX CONCURRENTLY IF EXISTS {_NAME}",
                )
            ],
            state_operations=[
                migrations.AddConstraint(
                    "completion",
                    models.UniqueConstraint(fields=["repeats"], condition=Q(repeats__isnull=False), name=_NAME),
                )
            ],
        ),
    ]
