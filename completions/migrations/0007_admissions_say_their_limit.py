"""Every admission says the spending limit that it fitted, so that an audit can ask whether it did."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("completions", "0006_ids_are_compared_as_bytes"),
    ]

    operations = [
        migrations.AddField(
            model_name="completion",
            name="limit_nanos",
            field=models.BigIntegerField(help_text="The key's spending limit at admission. Empty: it had none.", null=True),
        ),
        migrations.AddField(
            model_name="completion",
            name="limit_since",
            field=models.DateField(help_text="The first day that the limit counted. Empty: since ever.", null=True),
        ),
    ]
