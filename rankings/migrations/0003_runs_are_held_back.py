"""Snapshots say why they are held back, what was left out of them, and the versions of their boards; ranks have a series."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rankings", "0002_ready_groups")]

    operations = [
        migrations.AddField(
            model_name="dailyrank",
            name="series",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="The major version of the board: ranks of two are not compared.",
                max_length=40,
            ),
        ),
        migrations.AddField(
            model_name="snapshot",
            name="boards",
            field=models.JSONField(
                db_default={},
                default=dict,
                help_text="By board: its version, and since when it has not been read, if it was not.",
            ),
        ),
        migrations.AddField(
            model_name="snapshot",
            name="held_because",
            field=models.TextField(
                blank=True,
                db_default="",
                help_text="Why it is not published. Empty: it is, or was.",
                verbose_name="held back because",
            ),
        ),
        migrations.AddField(
            model_name="snapshot",
            name="notes",
            field=models.TextField(blank=True, db_default="", help_text="What was left out."),
        ),
    ]
