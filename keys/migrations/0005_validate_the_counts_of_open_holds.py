from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("keys", "0004_staff_may_set_rates")]

    operations = [
        ValidateConstraint(model_name="apikey", name="a_key_may_run_at_least_one_request"),
        ValidateConstraint(model_name="spendingday", name="a_days_open_holds_are_never_negative"),
    ]
