"""Adds what the status page shows: sums of answered requests, and incidents."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("completions", "0009_routes_have_an_api"),
    ]

    operations = [
        migrations.CreateModel(
            name="Incident",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(help_text="For example, OpenAI models answer slowly.", max_length=200)),
                (
                    "impact",
                    models.CharField(
                        choices=[
                            ("minor", "Some requests are affected"),
                            ("major", "Most requests are affected"),
                            ("maintenance", "Planned maintenance"),
                        ],
                        default="minor",
                        max_length=20,
                    ),
                ),
                ("began_at", models.DateTimeField(default=django.utils.timezone.now, verbose_name="began at (UTC)")),
                (
                    "ended_at",
                    models.DateTimeField(
                        blank=True, help_text="Leave empty while it lasts.", null=True, verbose_name="ended at (UTC)"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ended_at__isnull", True), ("ended_at__gte", models.F("began_at")), _connector="OR"
                        ),
                        name="an_incident_ends_after_it_began",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="IncidentUpdate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(default=django.utils.timezone.now, verbose_name="at (UTC)")),
                (
                    "text",
                    models.TextField(help_text="Everybody can read it. For example, We send requests to other providers."),
                ),
                (
                    "incident",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="updates", to="completions.incident"
                    ),
                ),
            ],
            options={
                "verbose_name": "update",
                "ordering": ["-at", "-id"],
            },
        ),
        migrations.CreateModel(
            name="UptimeSums",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("is_day", models.BooleanField()),
                ("since", models.DateTimeField()),
                ("kind", models.CharField(db_collation="C", help_text="model or provider.", max_length=10)),
                (
                    "subject",
                    models.CharField(
                        db_collation="C", help_text="The id of the model, or the slug of the provider.", max_length=200
                    ),
                ),
                ("answered", models.BigIntegerField()),
                ("failed", models.BigIntegerField()),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("is_day", "since", "kind", "subject"), name="uptime_is_summed_up_once")
                ],
            },
        ),
    ]
