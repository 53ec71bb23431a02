"""A closing of an owner may be kept by staff, who closed the account, too: what was promised then still happens."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0022_payments_say_why_they_are_refused")]

    operations = [
        migrations.AddField(
            "accountclosing",
            "kept_closed_at",
            models.DateTimeField(null=True, help_text="Since when only staff can open the account again, if so."),
        ),
    ]
