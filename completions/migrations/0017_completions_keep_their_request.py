from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("completions", "0016_validate_the_maximum_of_models")]

    operations = [
        migrations.AddField(
            model_name="completion",
            name="failed_attempts",
            field=models.JSONField(
                help_text="Of each attempt that failed: provider, status and reason. Empty: none failed.", null=True
            ),
        ),
        migrations.AddField(
            model_name="completion",
            name="request_id",
            field=models.CharField(db_collation="C", help_text="The reply's x-request-id.", max_length=40, null=True),
        ),
    ]
