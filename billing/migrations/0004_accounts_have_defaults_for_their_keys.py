"""What an account lets each of its keys ask in a minute, where the key does not say."""

import django.core.validators
from django.db import migrations, models

_FIELDS = ("requests_per_minute", "tokens_per_minute")


class Migration(migrations.Migration):
    dependencies = [("billing", "0003_entries_are_found_by_what_they_are")]

    operations = [
        *(
            migrations.AddField(
                model_name="account",
                name=name,
                field=models.PositiveIntegerField(
                    blank=True,
                    help_text="Of each of its keys that has no such limit of its own. Empty: the deployment's, if it has one.",
                    null=True,
                    validators=[django.core.validators.MinValueValidator(1)],
                ),
            )
            for name in _FIELDS
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("requests_per_minute__isnull", True), ("requests_per_minute__gte", 1), _connector="OR"),
                    models.Q(("tokens_per_minute__isnull", True), ("tokens_per_minute__gte", 1), _connector="OR"),
                ),
                name="an_accounts_rate_is_at_least_one_a_minute",
            ),
        ),
    ]
