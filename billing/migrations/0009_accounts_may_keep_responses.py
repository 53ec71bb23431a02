"""Accounts say whether responses are stored for them, and count the bytes of those that are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0008_mark_accounts_that_paid")]

    operations = [
        migrations.AddField(
            model_name="account",
            name="keeps_responses",
            field=models.BooleanField(
                db_default=True,
                default=True,
                help_text="Whether responses are stored for later requests, unless a request says otherwise. "
                "If not, those that are stored cannot be read any more, and are deleted within the hour.",
            ),
        ),
        migrations.AddField(
            model_name="account",
            name="stored_response_bytes",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
