"""An hour in a cache and service tiers have prices of their own, and completions say what they used of either."""

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

# As in 0004_prices_and_charges_are_never_changed, with the new column.
_COLUMNS = (
    *("id", "account_id", "key_id", "model_id", "price_id", "settlement", "prompt_tokens", "cached_tokens"),
    *("cache_write_tokens", "completion_tokens", "images", "cost_nanos", "repeats", "charged_before_nanos"),
    *("spending_day", "limit_nanos", "limit_since", "created_at"),
)
_NEW = ("cache_write_1h_tokens", "service_tier")


def _has_whole_prices(tier: str) -> Q:
    names = [f"{tier}_{name}_nanos" for name in ("input", "output", "cached_input")]
    is_cached_valid = Q(**{f"{names[2]}__isnull": True}) | Q(**{f"{names[2]}__gte": 0})
    are_set = Q(**{f"{name}__{test}": value for name in names[:2] for test, value in (("isnull", False), ("gte", 0))})
    return Q(**{f"{name}__isnull": True for name in names}) | (are_set & is_cached_valid)


_CONSTRAINTS = (
    models.CheckConstraint(
        condition=Q(cache_write_1h_nanos__isnull=True) | Q(cache_write_1h_nanos__gte=0),
        name="a_price_of_an_hour_is_never_negative",
    ),
    models.CheckConstraint(condition=_has_whole_prices("flex"), name="a_flex_tier_has_whole_prices"),
    models.CheckConstraint(condition=_has_whole_prices("priority"), name="a_priority_tier_has_whole_prices"),
)


def _trigger(columns: tuple[str, ...]) -> str:
    old, new = (", ".join(f"{row}.{name}" for name in columns) for row in ("OLD", "NEW"))
    return f"""
    CREATE OR REPLACE TRIGGER charges_are_never_changed AFTER UPDATE ON completions_completion FOR EACH ROW
        WHEN (OLD.settlement IS NOT NULL AND ({old}) IS DISTINCT FROM ({new}))
        EXECUTE FUNCTION completions_refuse_change();
    """


class Migration(migrations.Migration):
    atomic = False  # the constraints are validated after they are added, so that no row waits for them
    dependencies = [("completions", "0005_stored_responses")]

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
        migrations.AddField(
            "price",
            "flex_input_nanos",
            models.BigIntegerField(null=True, blank=True, help_text="Of the flex tier. Empty: it is not offered."),
        ),
        migrations.AddField(
            "price",
            "flex_cached_input_nanos",
            models.BigIntegerField(null=True, blank=True, help_text="Empty: as its input."),
        ),
        migrations.AddField("price", "flex_output_nanos", models.BigIntegerField(null=True, blank=True)),
        migrations.AddField(
            "price",
            "priority_input_nanos",
            models.BigIntegerField(null=True, blank=True, help_text="Of the priority tier. Empty: it is not offered."),
        ),
        migrations.AddField(
            "price",
            "priority_cached_input_nanos",
            models.BigIntegerField(null=True, blank=True, help_text="Empty: as its input."),
        ),
        migrations.AddField("price", "priority_output_nanos", models.BigIntegerField(null=True, blank=True)),
        migrations.AddField(
            "completion",
            "service_tier",
            models.CharField(
                max_length=10,
                null=True,
                help_text="The tier with prices of its own at which it runs, and in the end ran. Empty: none.",
            ),
        ),
        migrations.RunSQL(_trigger(_COLUMNS + _NEW), _trigger(_COLUMNS)),
        *(AddConstraintNotValid("price", constraint) for constraint in _CONSTRAINTS),
        *(ValidateConstraint("price", constraint.name) for constraint in _CONSTRAINTS),
    ]
