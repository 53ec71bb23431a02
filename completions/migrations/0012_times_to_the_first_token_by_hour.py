"""Counts streams by the time to their first token, so that the hours of all completions need not read each completion again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("completions", "0011_groups_write_incidents")]

    operations = [
        migrations.CreateModel(
            name="FirstTokenHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField()),
                ("milliseconds", models.IntegerField()),
                ("streams", models.BigIntegerField()),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=["hour", "milliseconds"], name="streams_are_counted_by_their_time")
                ],
            },
        ),
        migrations.AlterField("completionhour", "cost_nanos", models.BigIntegerField(help_text="What they cost in all.")),
    ]
