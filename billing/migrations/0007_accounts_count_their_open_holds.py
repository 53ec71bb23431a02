"""An account counts its open holds, which are its requests in flight, and may have a maximum of its own for them."""

import django.core.validators
from django.db import migrations, models
from django.db.models import Q

# The partial index of open holds makes this short, however many holds are resolved.
COUNT = """
UPDATE billing_account SET open_holds = counted.holds
FROM (SELECT account_id, count(*) AS holds FROM billing_hold WHERE state = 'HELD' GROUP BY account_id) AS counted
WHERE id = counted.account_id
"""


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
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=Q(("requests_in_flight_max__isnull", True), ("requests_in_flight_max__gte", 1), _connector="OR"),
                name="an_account_may_run_at_least_one_request",
            ),
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=Q(("open_holds__gte", 0)), name="an_accounts_open_holds_are_never_negative"
            ),
        ),
        migrations.RunSQL(COUNT, migrations.RunSQL.noop),
    ]
