"""A limit or budget is reached, too, when it refuses a request: the labels of alerts do not say that all is spent."""

from django.db import migrations, models

_KINDS = [
    ("BALANCE_LOW", "The balance is low"),
    ("KEY_NEAR_LIMIT", "A key has spent most of its limit"),
    ("KEY_AT_LIMIT", "A key reached its limit"),
    ("KEY_HOUR_UNUSUAL", "A key spends far more than usual"),
    ("RUN_NEAR_BUDGET", "A run has spent most of its budget"),
    ("RUN_AT_BUDGET", "A run reached its budget"),
    ("MONTH_NEAR_BUDGET", "Most of a monthly budget is spent"),
    ("MONTH_AT_BUDGET", "A monthly budget is reached"),
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
    dependencies = [("billing", "0037_alerts_of_budgets")]

    operations = [migrations.AlterField("accountalert", "kind", models.CharField(choices=_KINDS, max_length=20))]
