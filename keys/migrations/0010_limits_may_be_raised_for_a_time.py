from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import F, Q

from billing import money


class Migration(migrations.Migration):
    dependencies = [("keys", "0009_ready_groups")]

    operations = [
        migrations.AddField("apikey", "raised_limit_cents", models.BigIntegerField(blank=True, null=True)),
        migrations.AddField("apikey", "raised_until", models.DateTimeField(blank=True, null=True)),
        AddConstraintNotValid(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=Q(raised_limit_cents__isnull=True, raised_until__isnull=True)
                | Q(raised_limit_cents__isnull=False, raised_until__isnull=False, spending_limit_cents__isnull=False)
                & Q(raised_limit_cents__gt=F("spending_limit_cents"), raised_limit_cents__lte=money.CENTS_MAX),
                name="a_raise_is_above_the_limit_and_ends",
            ),
        ),
    ]
