"""Completions say what was demanded about their data, and what the route that served promised."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("completions", "0027_providers_promise")]

    operations = [
        migrations.AddField(
            model_name="completion",
            name="data_demanded",
            field=models.JSONField(
                help_text="What was demanded of providers about data, by who did: request, key, account. Empty: nothing.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="completion",
            name="data_promised",
            field=models.JSONField(help_text="What the route that served promised. Empty: nothing was demanded.", null=True),
        ),
    ]
