"""Calls each source as it calls itself, where staff read of it. It changes no table."""

from typing import Any

from django.db import migrations, models

CHOICES = [
    ("INTERNAL", "This gateway"),
    ("LMSYS_ARENA", "LMArena"),
    ("HUGGINGFACE", "Hugging Face"),
    ("ARTIFICIAL_ANALYSIS", "Artificial Analysis"),
    ("OPENROUTER", "OpenRouter"),
]


def _alter(model_name: str, **options: Any) -> migrations.AlterField:
    return migrations.AlterField(model_name, "source", models.CharField(choices=CHOICES, max_length=20, **options))


class Migration(migrations.Migration):
    dependencies = [("rankings", "0004_staff_release_snapshots")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                _alter("sourcestate", primary_key=True, serialize=False),
                *map(_alter, ("snapshot", "alias", "entry", "dailyrank")),
            ],
        ),
    ]
