from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("billing", "0017_payment_differences"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="ledgerentry",
            index=models.Index(
                condition=models.Q(("type", "USAGE_DEBIT"), _negated=True), fields=["id"], name="entries_beside_usage_by_time"
            ),
        ),
    ]
