from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # an index is made concurrently

    dependencies = [("completions", "0016_routes_have_rules")]

    operations = [
        AddIndexConcurrently(
            "storedresponse",
            models.Index(
                fields=["account", "expires_at", "completion"],
                condition=models.Q(stored_bytes=0),
                name="unreplied_responses_by_age",
            ),
        ),
    ]
