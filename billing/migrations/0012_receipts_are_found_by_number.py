from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Cast, Right


class Migration(migrations.Migration):
    atomic = False  # an index is made concurrently

    dependencies = [("billing", "0011_signed_and_archived_days")]

    operations = [
        AddIndexConcurrently(
            "payment",
            models.Index(
                Right(Cast("account_id", models.TextField()), 8), models.F("receipt_number"), name="payments_by_receipt"
            ),
        ),
    ]
