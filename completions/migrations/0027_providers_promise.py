"""Providers and routes say how the data of requests is treated."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("completions", "0026_keys_are_compared_with_their_usual_hour")]

    operations = [
        migrations.AddField(
            model_name="provider",
            name="region",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="eu, or the code of a country, such as us; or global: anywhere.",
                max_length=10,
                validators=[
                    django.core.validators.RegexValidator(
                        r"\A([a-z]{2}|global)\Z", "Two lower-case letters, such as eu or us; or global."
                    )
                ],
                verbose_name="processed in",
            ),
        ),
        migrations.AddField(
            model_name="provider",
            name="retention_days",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="0: it keeps nothing.",
                null=True,
                validators=[django.core.validators.MaxValueValidator(36500)],
                verbose_name="keeps prompts, days",
            ),
        ),
        migrations.AddField(
            model_name="provider",
            name="trains",
            field=models.BooleanField(blank=True, null=True, verbose_name="trains on prompts"),
        ),
        migrations.AddField(
            model_name="route",
            name="region",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="eu, or the code of a country, such as us; or global: anywhere.",
                max_length=10,
                validators=[
                    django.core.validators.RegexValidator(
                        r"\A([a-z]{2}|global)\Z", "Two lower-case letters, such as eu or us; or global."
                    )
                ],
                verbose_name="processed in",
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="retention_days",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="0: it keeps nothing.",
                null=True,
                validators=[django.core.validators.MaxValueValidator(36500)],
                verbose_name="keeps prompts, days",
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="trains",
            field=models.BooleanField(blank=True, null=True, verbose_name="trains on prompts"),
        ),
    ]
