from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("keys", "0007_what_keys_were_refused")]

    operations = [
        AddIndexConcurrently(model_name="apikey", index=models.Index(fields=["last_four"], name="keys_by_last_four")),
    ]
