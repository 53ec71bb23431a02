from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("completions", "0022_ready_groups"),
    ]

    operations = [
        migrations.CreateModel(
            name="CompletionHour",
            fields=[
                ("hour", models.DateTimeField(primary_key=True, serialize=False)),
                ("completions", models.BigIntegerField()),
                ("cost_nanos", models.BigIntegerField(help_text="What those that have ended cost in all.")),
                (
                    "first_token_p50_ms",
                    models.PositiveIntegerField(
                        help_text="Half of the streams began sooner. Empty: there were none.", null=True
                    ),
                ),
                ("first_token_p99_ms", models.PositiveIntegerField(help_text="99 % of the streams began sooner.", null=True)),
            ],
            options={
                "verbose_name": "hour of completions",
                "verbose_name_plural": "hours of completions",
                "default_permissions": ("view",),
            },
        ),
    ]
