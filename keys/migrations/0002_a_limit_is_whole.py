"""A limit without a type was neither true nor false to the first form of this constraint, and so was let through."""

from django.db import migrations, models
from django.db.models import Q

NAME = "a_limit_has_a_type_and_only_a_recurring_one_a_period"
TYPED = {"spending_limit_cents__isnull": False, "spending_type__isnull": False}


class Migration(migrations.Migration):
    dependencies = [("keys", "0001_initial")]

    operations = [
        migrations.RemoveConstraint("apikey", NAME),
        migrations.AddConstraint(
            "apikey",
            models.CheckConstraint(
                condition=Q(spending_limit_cents__isnull=True, spending_type__isnull=True, spending_period__isnull=True)
                | Q(**TYPED, spending_type="FIXED") & Q(spending_period__isnull=True)
                | Q(**TYPED, spending_type="RECURRING")
                & Q(spending_period__isnull=False, spending_period__in=["DAILY", "WEEKLY", "MONTHLY"]),
                name=NAME,
            ),
        ),
    ]
