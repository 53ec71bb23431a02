"""A key's day counts its open holds, which are the key's requests in flight; a key may have a maximum of its own for them.

Migration 0009 of ``completions`` counts the holds that are open now: it knows which key and day each of them belongs to.
"""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("keys", "0002_rates_may_be_the_accounts")]

    operations = [
        migrations.AddField(
            model_name="spendingday",
            name="open_holds",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="apikey",
            name="requests_in_flight_max",
            field=models.PositiveIntegerField(
                blank=True, help_text="How many of its requests may run at a time. Empty: the deployment's maximum.", null=True
            ),
        ),
        AddConstraintNotValid(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=Q(("requests_in_flight_max__isnull", True), ("requests_in_flight_max__gte", 1), _connector="OR"),
                name="a_key_may_run_at_least_one_request",
            ),
        ),
        AddConstraintNotValid(
            model_name="spendingday",
            constraint=models.CheckConstraint(condition=Q(("open_holds__gte", 0)), name="a_days_open_holds_are_never_negative"),
        ),
    ]
