from django.contrib.postgres.indexes import BrinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0020_completions_keep_their_providers_request")]

    operations = [
        AddIndexConcurrently(model_name="completion", index=models.Index(fields=["key", "-id"], name="completions_by_key")),
        AddIndexConcurrently(
            model_name="completion",
            index=BrinIndex(
                autosummarize=True,
                fields=["provider_request_id"],
                name="completions_by_provider_request",
                opclasses=["text_bloom_ops"],
            ),
        ),
    ]
