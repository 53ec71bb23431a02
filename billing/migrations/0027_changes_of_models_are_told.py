"""Accounts are told what changes of models that they used. The emails about it can be switched off."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.fields.json import KT

_KINDS = [
    ("BALANCE_LOW", "The balance is low"),
    ("KEY_NEAR_LIMIT", "A key has spent most of its limit"),
    ("KEY_AT_LIMIT", "A key has spent its limit"),
    ("TOP_UP_STOPPED", "The automatic top-up stopped"),
    ("PAYMENT_TAKEN_BACK", "A payment was taken back"),
    ("PRICE_CHANGED", "A price changes"),
    ("MODEL_ENDS", "A model ends or has a successor"),
    ("TEST", "A test"),
    ("PAYMENT_BOOKED", "A payment was booked"),
    ("CREDIT_BOOKED", "Credit was added"),
    ("CREDIT_TAKEN_BACK", "Credit was taken back"),
    ("CHANGES_SUMMED", "What changes of models, once a day"),
]


class Migration(migrations.Migration):
    atomic = False  # an index is made concurrently
    dependencies = [("billing", "0026_support_unblocks_sign_ins")]

    operations = [
        migrations.AddField(
            "emailchoice",
            "changes",
            models.BooleanField(db_default=True, default=True, verbose_name="Prices that change, and models that end"),
        ),
        migrations.AlterField("accountwarning", "kind", models.CharField(choices=_KINDS, max_length=20)),
        AddIndexConcurrently(
            "accountwarning",
            models.Index(
                KT("data__model"), condition=models.Q(kind__in=["PRICE_CHANGED", "MODEL_ENDS"]), name="warnings_by_model"
            ),
        ),
    ]
