import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("completions", "0028_labels_by_name")]

    operations = [
        migrations.AddField(
            model_name="routablealias",
            name="qualities",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.FloatField(null=True),
                db_default=[],
                default=list,
                help_text="0 to 100, of each. Empty: never tested.",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="routablealias",
            name="ranked_on",
            field=models.DateField(help_text="The day of the ranking, in UTC.", null=True),
        ),
    ]
