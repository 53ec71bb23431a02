"""Calls the field "email address" in forms. It changes no table."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0009_accounts_may_keep_responses")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="user",
                    name="email",
                    field=models.EmailField("email address", max_length=254, unique=True),
                ),
            ],
        ),
    ]
