"""The hours of usage that are new are found without their account, to compare each key's with its usual one."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index is made concurrently
    dependencies = [("completions", "0025_completions_count_on_budgets")]

    operations = [AddIndexConcurrently("usagehour", models.Index(fields=["hour"], name="usage_by_hour"))]
