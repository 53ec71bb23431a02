"""Lets the acts on no account be found, which are few among many: staff who may not view accounts read no others."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("activity", "0003_old_acts_are_deleted")]

    operations = [
        AddIndexConcurrently(
            model_name="activity",
            index=models.Index(
                fields=["-id"], condition=models.Q(("account_id__isnull", True)), name="activity_beside_accounts"
            ),
        )
    ]
