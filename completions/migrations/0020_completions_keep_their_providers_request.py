from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("completions", "0019_stored_replies_are_found_by_age")]

    operations = [
        migrations.AddField(
            model_name="completion",
            name="provider_request_id",
            field=models.CharField(
                db_collation="C", help_text="The provider's own id of the latest attempt.", max_length=100, null=True
            ),
        ),
    ]
