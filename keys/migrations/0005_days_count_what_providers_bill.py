"""A key's day has what its limit counts beside the spending: the prices of providers that serve with the account's own keys."""

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models

_ARE_POSITIVE = models.CheckConstraint(
    condition=models.Q(provider_spent_nanos__gte=0, provider_held_nanos__gte=0),
    name="a_days_provider_prices_are_never_negative",
)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("keys", "0004_keys_demand_treatment_of_data")]

    operations = [
        *(
            migrations.AddField("spendingday", name, models.BigIntegerField(db_default=0, default=0))
            for name in ("provider_spent_nanos", "provider_held_nanos")
        ),
        AddConstraintNotValid("spendingday", _ARE_POSITIVE),
        ValidateConstraint("spendingday", _ARE_POSITIVE.name),
    ]
