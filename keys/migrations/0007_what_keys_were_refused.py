import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("keys", "0006_tokens_owed_are_counted_apart"),
    ]

    operations = [
        migrations.CreateModel(
            name="RefusalCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField(help_text="The hour's beginning, UTC.")),
                ("status", models.SmallIntegerField()),
                ("code", models.CharField(max_length=50)),
                ("error", models.CharField(help_text="The class of the error, as the log names it.", max_length=50)),
                ("number", models.BigIntegerField()),
                (
                    "key",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="refusal_counts",
                        to="keys.apikey",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["hour"], name="refusal_counts_by_hour")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("key", "hour", "error", "code"), name="refusals_of_an_hour_are_counted_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RefusedRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("request_id", models.CharField(db_collation="C", max_length=40, unique=True)),
                ("status", models.SmallIntegerField()),
                ("code", models.CharField(max_length=50)),
                ("error", models.CharField(help_text="The class of the error, as the log names it.", max_length=50)),
                ("message", models.CharField(max_length=500)),
                (
                    "model",
                    models.CharField(
                        help_text="What the request named. Empty: it was refused before that was read.", max_length=200
                    ),
                ),
                (
                    "key",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="refused_requests",
                        to="keys.apikey",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["key", "-at"], name="refused_requests_by_key"),
                    models.Index(fields=["at"], name="refused_requests_by_time"),
                ],
            },
        ),
    ]
