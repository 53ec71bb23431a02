import django.core.validators
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("completions", "0014_repeated_runs_pay_the_difference")]

    operations = [
        migrations.AddField(
            model_name="languagemodel",
            name="requests_in_flight_max",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="How many requests for it each key may have in flight. Empty: as many as for all models together.",
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
            ),
        ),
        AddConstraintNotValid(
            model_name="languagemodel",
            constraint=models.CheckConstraint(
                condition=Q(("requests_in_flight_max__isnull", True), ("requests_in_flight_max__gte", 1), _connector="OR"),
                name="a_model_may_have_requests_in_flight",
            ),
        ),
    ]
