from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0017_completions_keep_their_request")]

    operations = [
        AddIndexConcurrently(
            model_name="completion",
            index=models.Index(fields=["request_id"], name="completions_by_request"),
        ),
        AddIndexConcurrently(
            model_name="completion",
            index=models.Index(
                condition=Q(("failed_attempts__isnull", False)), fields=["key", "-id"], name="failed_completions_by_key"
            ),
        ),
    ]
