import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0027_failed_holds_are_found_by_time"),
        ("completions", "0025_completions_keep_their_labels"),
    ]

    operations = [
        migrations.CreateModel(
            name="UsageMark",
            fields=[
                (
                    "account",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="billing.account",
                    ),
                ),
                ("last_seq", models.BigIntegerField(db_default=0, default=0)),
                ("failures_until", models.DateTimeField(help_text="Empty: none was summed up.", null=True)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="LabelHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField()),
                ("requests", models.BigIntegerField(help_text="All that ended.")),
                (
                    "errors",
                    models.BigIntegerField(help_text="Those that cost nothing and have no ledger entry."),
                ),
                ("prompt_tokens", models.BigIntegerField()),
                ("completion_tokens", models.BigIntegerField()),
                ("cost_nanos", models.BigIntegerField()),
                ("first_tokens", models.BigIntegerField(help_text="Streams whose first token was timed.")),
                ("first_token_ms", models.BigIntegerField(help_text="The sum of their times.")),
                ("name", models.CharField(db_collation="C", max_length=64, null=True)),
                ("value", models.CharField(db_collation="C", max_length=512, null=True)),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="billing.account"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("account", "hour", "name", "value"), name="labels_are_summed_up_once", nulls_distinct=False
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="UsageHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField()),
                ("requests", models.BigIntegerField(help_text="All that ended.")),
                (
                    "errors",
                    models.BigIntegerField(help_text="Those that cost nothing and have no ledger entry."),
                ),
                ("prompt_tokens", models.BigIntegerField()),
                ("completion_tokens", models.BigIntegerField()),
                ("cost_nanos", models.BigIntegerField()),
                ("first_tokens", models.BigIntegerField(help_text="Streams whose first token was timed.")),
                ("first_token_ms", models.BigIntegerField(help_text="The sum of their times.")),
                ("key_id", models.CharField(db_collation="C", max_length=64)),
                ("model_id", models.CharField(db_collation="C", max_length=200)),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="billing.account"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("account", "hour", "key_id", "model_id"), name="usage_is_summed_up_once")
                ],
            },
        ),
    ]
