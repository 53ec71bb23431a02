"""Completions say of which run they are, and on which monthly budgets they count."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index is made concurrently

    dependencies = [("completions", "0024_staff_pages_say_provider"), ("keys", "0003_runs_and_budgets")]

    operations = [
        migrations.AddField(
            "completion",
            "run",
            models.CharField(db_collation="C", help_text="The caller's id of its run. Empty: none.", max_length=100, null=True),
        ),
        migrations.AddField(
            "completion", "run_budget_nanos", models.BigIntegerField(help_text="The budget of its run.", null=True)
        ),
        migrations.AddField(
            "completion",
            "budgets",
            models.JSONField(
                help_text="The ids of the monthly budgets that it counts on, each with the nanodollars at which it stopped;"
                " null where it only warned. Empty: none.",
                null=True,
            ),
        ),
        AddIndexConcurrently(
            "completion",
            models.Index(condition=models.Q(run__isnull=False), fields=["key", "run"], name="completions_by_run"),
        ),
    ]
