"""A catalog file may say what a model takes on a route, instead of the gateway's own rules."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("completions", "0015_prices_by_two_and_margins")]

    operations = [
        migrations.AddField(
            "route",
            "rules",
            models.JSONField(
                default=dict,
                db_default={},
                editable=False,
                help_text="What a catalog file says that the model takes there, instead of the gateway's own rules.",
            ),
        ),
    ]
