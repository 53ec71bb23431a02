"""Accounts say what they demand of providers about data."""

import django.contrib.postgres.fields
import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0032_keys_are_compared_with_their_usual_hour"),
    ]

    operations = [
        migrations.AddField(
            model_name="account",
            name="data_policy",
            field=models.CharField(
                blank=True,
                choices=[
                    ("", "Any provider"),
                    ("deny", "Only providers that do not train on them"),
                    ("zdr", "Only providers that keep nothing of them"),
                ],
                db_default="",
                default="",
                max_length=10,
                verbose_name="prompts and replies",
            ),
        ),
        migrations.AddField(
            model_name="account",
            name="data_regions",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(
                    max_length=2,
                    validators=[
                        django.core.validators.RegexValidator(r"\A[a-z]{2}\Z", "Write codes of two lower-case letters.")
                    ],
                ),
                blank=True,
                help_text="Where requests may be processed, such as eu, ch. Empty: anywhere.",
                null=True,
                size=10,
                verbose_name="regions",
            ),
        ),
    ]
