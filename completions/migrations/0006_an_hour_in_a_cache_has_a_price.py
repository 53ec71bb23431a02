"""What a cache keeps for an hour has a price of its own, and completions say how many tokens that was."""

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models

# As in 0004_prices_and_charges_are_never_changed, with the new column.
_COLUMNS = (
    *("id", "account_id", "key_id", "model_id", "price_id", "settlement", "prompt_tokens", "cached_tokens"),
    *("cache_write_tokens", "completion_tokens", "images", "cost_nanos", "repeats", "charged_before_nanos"),
    *("spending_day", "limit_nanos", "limit_since", "created_at"),
)
_NEW = ("cache_write_1h_tokens",)


def _trigger(columns: tuple[str, ...]) -> str:
    old, new = (", ".join(f"{row}.{name}" for name in columns) for row in ("OLD", "NEW"))
    return f"""
    CREATE OR REPLACE TRIGGER charges_are_never_changed AFTER UPDATE ON completions_completion FOR EACH ROW
        WHEN (OLD.settlement IS NOT NULL AND ({old}) IS DISTINCT FROM ({new}))
        EXECUTE FUNCTION completions_refuse_change();
    """


class Migration(migrations.Migration):
    atomic = False  # the constraint is validated after it is added, so that no row waits for it
    dependencies = [("completions", "0004_prices_and_charges_are_never_changed")]

    operations = [
        migrations.AddField(
            "price",
            "cache_write_1h_nanos",
            models.BigIntegerField(
                null=True, blank=True, help_text="Of what a cache keeps for an hour. Empty: that is not offered."
            ),
        ),
        migrations.AddField(
            "completion",
            "cache_write_1h_tokens",
            models.BigIntegerField(null=True, help_text="Of these, those that the cache keeps for an hour."),
        ),
        migrations.RunSQL(_trigger(_COLUMNS + _NEW), _trigger(_COLUMNS)),
        AddConstraintNotValid(
            "price",
            models.CheckConstraint(
                condition=models.Q(cache_write_1h_nanos__isnull=True) | models.Q(cache_write_1h_nanos__gte=0),
                name="a_price_of_an_hour_is_never_negative",
            ),
        ),
        ValidateConstraint("price", "a_price_of_an_hour_is_never_negative"),
    ]
