"""An account counts its open holds, which are its requests in flight, and may have a maximum of its own for them.

Migration 0009 counts the holds that are open now.
"""

import django.core.validators
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("billing", "0006_sign_in_limits")]

    operations = [
        migrations.AddField(
            model_name="account",
            name="open_holds",
            field=models.IntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="account",
            name="requests_in_flight_max",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="How many requests of all its keys together may run at a time. Empty: the deployment's maximum.",
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
            ),
        ),
        AddConstraintNotValid(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=Q(("requests_in_flight_max__isnull", True), ("requests_in_flight_max__gte", 1), _connector="OR"),
                name="an_account_may_run_at_least_one_request",
            ),
        ),
        AddConstraintNotValid(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=Q(("open_holds__gte", 0)), name="an_accounts_open_holds_are_never_negative"
            ),
        ),
    ]
