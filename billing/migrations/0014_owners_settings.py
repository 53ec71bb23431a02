"""Which emails an account gets, closings of accounts, and exports of their data."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import gateway_project.identifiers


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0013_lost_second_factors"),
    ]

    operations = [
        migrations.CreateModel(
            name="EmailChoice",
            fields=[
                (
                    "account",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="email_choice",
                        serialize=False,
                        to="billing.account",
                    ),
                ),
                (
                    "receipts",
                    models.BooleanField(
                        db_default=True, default=True, verbose_name="Receipts of payments and automatic top-ups"
                    ),
                ),
                ("credits", models.BooleanField(db_default=True, default=True, verbose_name="Credits from support")),
                (
                    "refunds",
                    models.BooleanField(db_default=True, default=True, verbose_name="Refunds, disputes and corrections"),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.AlterField(
            model_name="accountwarning",
            name="kind",
            field=models.CharField(
                choices=[
                    ("BALANCE_LOW", "The balance is low"),
                    ("KEY_NEAR_LIMIT", "A key has spent most of its limit"),
                    ("KEY_AT_LIMIT", "A key has spent its limit"),
                    ("TOP_UP_STOPPED", "The automatic top-up stopped"),
                    ("PAYMENT_TAKEN_BACK", "A payment was taken back"),
                    ("TEST", "A test"),
                    ("PAYMENT_BOOKED", "A payment was booked"),
                    ("CREDIT_BOOKED", "Credit was added"),
                    ("CREDIT_TAKEN_BACK", "Credit was taken back"),
                ],
                max_length=20,
            ),
        ),
        migrations.CreateModel(
            name="AccountExport",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gateway_project.identifiers.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("asked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                (
                    "state",
                    models.CharField(
                        choices=[("WAITING", "Being prepared"), ("READY", "Ready"), ("FAILED", "Too large")],
                        default="WAITING",
                        max_length=10,
                    ),
                ),
                ("claimed_until", models.DateTimeField(help_text="Until then a worker makes it.", null=True)),
                ("size_bytes", models.BigIntegerField(default=0)),
                ("ready_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField(help_text="When its file is deleted.", null=True)),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="exports", to="billing.account"
                    ),
                ),
                (
                    "asked_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="ExportPart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("content", models.BinaryField()),
                (
                    "export",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="parts",
                        to="billing.accountexport",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="AccountClosing",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gateway_project.identifiers.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("closed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                (
                    "is_refunded",
                    models.BooleanField(help_text="Whether unused purchases are paid back; else they are forfeited."),
                ),
                (
                    "refunded_at",
                    models.DateTimeField(help_text="When all that the processor can pay back was paid back.", null=True),
                ),
                (
                    "erase_at",
                    models.DateTimeField(help_text="When personal data is erased, unless the closing is undone before."),
                ),
                ("erased_at", models.DateTimeField(null=True)),
                ("undone_at", models.DateTimeField(null=True)),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="closings", to="billing.account"
                    ),
                ),
                (
                    "closed_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("erased_at", None), ("undone_at", None)),
                        fields=("account",),
                        name="an_account_is_closed_once_at_a_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("undone_at", None), ("erased_at", None), _connector="OR"),
                        name="what_is_erased_is_not_undone",
                    ),
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="accountexport",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "WAITING")), fields=("account",), name="an_export_is_made_once_at_a_time"
            ),
        ),
        migrations.AddConstraint(
            model_name="exportpart",
            constraint=models.UniqueConstraint(fields=("export", "number"), name="a_part_of_a_file_has_a_place"),
        ),
    ]
