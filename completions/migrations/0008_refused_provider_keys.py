"""A provider row says which key the provider refused, so that its models are not offered until that changes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("completions", "0007_admissions_say_their_limit"),
    ]

    operations = [
        migrations.AddField(
            model_name="provider",
            name="key_refusal",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="The provider's status and words.",
                max_length=400,
            ),
        ),
        migrations.AddField(
            model_name="provider",
            name="key_refused_at",
            field=models.DateTimeField(editable=False, help_text="The last time.", null=True),
        ),
        migrations.AddField(
            model_name="provider",
            name="refused_key",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="Fingerprint of the refused key.",
                max_length=64,
            ),
        ),
    ]
