"""Accounts know whether they ever paid for usage, and how much work they left unpaid of late."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0006_entries_and_members_have_a_second_record")]

    operations = [
        migrations.AddField(
            model_name="account",
            name="has_paid",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="account",
            name="unpaid_until",
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
