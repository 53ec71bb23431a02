from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0021_stops_are_told"),
    ]

    operations = [
        migrations.AddField(
            model_name="payment",
            name="refusal",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="Why what was paid is not credited, to the payer; empty: it is.",
            ),
        ),
    ]
