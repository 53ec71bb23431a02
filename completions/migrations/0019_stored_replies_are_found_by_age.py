from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0018_completions_are_found_by_request")]

    operations = [
        AddIndexConcurrently(
            model_name="idempotentrequest",
            index=models.Index(
                fields=["account", "expires_at", "id"],
                condition=models.Q(("reply_bytes__gt", 0)),
                name="stored_replies_by_age",
            ),
        )
    ]
