"""What stops an automatic top-up is told, once. Those that a decline stopped before were told by a mail already."""

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


def fill(apps: Any, schema_editor: Any) -> None:
    apps.get_model("billing", "TopUpRule").objects.exclude(stopped_because="").update(stop_told="declined")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("billing", "0020_a_changed_address_ends_sessions"),
    ]

    operations = [
        migrations.AddField(
            model_name="payment",
            name="disputed_at",
            field=models.DateTimeField(help_text="When that last rose.", null=True),
        ),
        migrations.AddField(
            model_name="topuprule",
            name="card_at",
            field=models.DateTimeField(help_text="When a member last paid with it.", null=True),
        ),
        migrations.AddField(
            model_name="topuprule",
            name="stop_told",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="Which cause members were last told of.", max_length=20
            ),
        ),
        migrations.AddField(
            model_name="topuprule",
            name="stopped_by",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="Which of the causes in ``stops`` that is.", max_length=20
            ),
        ),
        AddIndexConcurrently(
            "payment",
            models.Index(condition=models.Q(("disputed_cents__gt", 0)), fields=["account"], name="disputed_payments"),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop, hints={"is_owned": True}),
    ]
