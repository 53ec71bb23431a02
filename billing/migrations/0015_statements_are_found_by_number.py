from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Cast, Right


class Migration(migrations.Migration):
    atomic = False  # an index is made concurrently

    dependencies = [("billing", "0014_owners_settings")]

    operations = [
        AddIndexConcurrently("account", models.Index(Right(Cast("id", models.TextField()), 8), name="accounts_by_end_of_id")),
    ]
