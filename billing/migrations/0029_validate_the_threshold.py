from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0028_warnings")]

    operations = [ValidateConstraint(model_name="account", name="a_warning_threshold_is_a_positive_amount")]
