from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0027_models_have_a_kind")]

    operations = [
        AddIndexConcurrently(
            model_name="labelhour", index=models.Index(fields=["account", "name", "hour"], name="labels_by_name")
        ),
    ]
