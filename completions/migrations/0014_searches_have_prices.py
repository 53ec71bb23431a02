"""A search of the web has a price of its own, and completions say how many they made."""

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

# As in 0006_hours_and_tiers_have_prices, with the new column.
_COLUMNS = (
    *("id", "account_id", "key_id", "model_id", "price_id", "settlement", "prompt_tokens", "cached_tokens"),
    *("cache_write_tokens", "completion_tokens", "images", "cost_nanos", "repeats", "charged_before_nanos"),
    *("spending_day", "limit_nanos", "limit_since", "created_at", "cache_write_1h_tokens", "service_tier"),
)
_CONSTRAINT = models.CheckConstraint(
    condition=Q(web_search_nanos__isnull=True) | Q(web_search_nanos__gte=0),
    name="a_price_of_a_search_is_never_negative",
)


def _trigger(columns: tuple[str, ...]) -> str:
    old, new = (", ".join(f"{row}.{name}" for name in columns) for row in ("OLD", "NEW"))
    return f"""
    CREATE OR REPLACE TRIGGER charges_are_never_changed AFTER UPDATE ON completions_completion FOR EACH ROW
        WHEN (OLD.settlement IS NOT NULL AND ({old}) IS DISTINCT FROM ({new}))
        EXECUTE FUNCTION completions_refuse_change();
    """


class Migration(migrations.Migration):
    atomic = False  # the constraint is validated after it is added, so that no row waits for it
    dependencies = [("completions", "0013_archived_completions_are_deleted")]

    operations = [
        migrations.AddField(
            "price",
            "web_search_nanos",
            models.BigIntegerField(
                null=True, blank=True, help_text="Nanodollars for each search of the web. Empty: that is not offered."
            ),
        ),
        migrations.AddField(
            "completion",
            "web_searches",
            models.BigIntegerField(null=True, help_text="Searches of the web by the provider. Empty: none."),
        ),
        migrations.RunSQL(_trigger((*_COLUMNS, "web_searches")), _trigger(_COLUMNS)),
        AddConstraintNotValid("price", _CONSTRAINT),
        ValidateConstraint("price", _CONSTRAINT.name),
    ]
