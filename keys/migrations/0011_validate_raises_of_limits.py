from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("keys", "0010_limits_may_be_raised_for_a_time")]

    operations = [ValidateConstraint(model_name="apikey", name="a_raise_is_above_the_limit_and_ends")]
