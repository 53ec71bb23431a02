"""A price that waits for a second person keeps in which state its model's prices were."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("completions", "0018_catalogue_reads_no_customers")]

    operations = [
        migrations.AddField(
            "pricerequest",
            "seen",
            models.JSONField(
                default=dict,
                db_default={},
                editable=False,
                help_text="By name, the state of what it is about when it was asked for.",
            ),
        ),
    ]
