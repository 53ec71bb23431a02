"""Members get alerts of runs and monthly budgets that are nearly or wholly spent."""

from django.db import migrations, models

_KINDS = [
    ("BALANCE_LOW", "The balance is low"),
    ("KEY_NEAR_LIMIT", "A key has spent most of its limit"),
    ("KEY_AT_LIMIT", "A key has spent its limit"),
    ("KEY_HOUR_UNUSUAL", "A key spends far more than usual"),
    ("RUN_NEAR_BUDGET", "A run has spent most of its budget"),
    ("RUN_AT_BUDGET", "A run has spent its budget"),
    ("MONTH_NEAR_BUDGET", "Most of a monthly budget is spent"),
    ("MONTH_AT_BUDGET", "A monthly budget is spent"),
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
    dependencies = [("billing", "0036_second_factor_requests_are_called_lost_phones")]

    operations = [migrations.AlterField("accountalert", "kind", models.CharField(choices=_KINDS, max_length=20))]
