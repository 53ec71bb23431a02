"""Members get an alert when a key spends so many times its usual hour, as the account says."""

from django.db import migrations, models

_KINDS = [
    ("BALANCE_LOW", "The balance is low"),
    ("KEY_NEAR_LIMIT", "A key has spent most of its limit"),
    ("KEY_AT_LIMIT", "A key has spent its limit"),
    ("KEY_HOUR_UNUSUAL", "A key spends far more than usual"),
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
    dependencies = [("billing", "0031_accounts_may_have_budgets")]

    operations = [
        migrations.AddField(
            "account",
            "unusual_hour_factor",
            models.SmallIntegerField(
                null=True,
                default=5,
                db_default=5,
                editable=False,
                help_text="Members get an alert when a key spends so many times its usual hour. Empty: they get none.",
            ),
        ),
        migrations.AlterField("accountalert", "kind", models.CharField(choices=_KINDS, max_length=20)),
    ]
