"""Adds the table of stored responses."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0009_accounts_may_keep_responses"),
        ("completions", "0004_prices_and_charges_are_never_changed"),
    ]

    operations = [
        migrations.CreateModel(
            name="StoredResponse",
            fields=[
                (
                    "completion",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="completions.completion",
                    ),
                ),
                ("previous_id", models.CharField(db_collation="C", editable=False, max_length=64, null=True)),
                ("sealed_input", models.TextField(editable=False, null=True)),
                ("sealed_output", models.TextField(editable=False, null=True)),
                ("sealed_reply", models.TextField(editable=False, null=True)),
                (
                    "stored_bytes",
                    models.IntegerField(
                        db_default=0,
                        default=0,
                        help_text="Of the sealed texts, as counted in the account's stored_response_bytes.",
                    ),
                ),
                ("is_background", models.BooleanField(db_default=False, default=False)),
                ("cancelled_at", models.DateTimeField(editable=False, null=True)),
                ("expires_at", models.DateTimeField(db_index=True)),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="billing.account",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        condition=models.Q(("stored_bytes__gt", 0)),
                        fields=["account", "expires_at", "completion"],
                        name="stored_responses_by_age",
                    )
                ],
            },
        ),
    ]
