"""Limits and budgets may count the provider's price of what an account's own key serves."""

from django.db import migrations, models

# As in 0031_own_keys, with the new columns.
_CHARGED = (
    *("id", "account_id", "key_id", "model_id", "price_id", "settlement", "prompt_tokens", "cached_tokens"),
    *("cache_write_tokens", "completion_tokens", "images", "cost_nanos", "repeats", "charged_before_nanos"),
    *("spending_day", "limit_nanos", "limit_since", "created_at", "cache_write_1h_tokens", "service_tier", "web_searches"),
    *("other_counts", "own_key_fee"),
)
_COUNTED = ("provider_held_nanos", "provider_nanos", "counts_price")


def _charges(columns: tuple[str, ...]) -> str:
    old, new = (", ".join(f"{row}.{name}" for name in columns) for row in ("OLD", "NEW"))
    return f"""
    CREATE OR REPLACE TRIGGER charges_are_never_changed AFTER UPDATE ON completions_completion FOR EACH ROW
        WHEN (OLD.settlement IS NOT NULL AND ({old}) IS DISTINCT FROM ({new}))
        EXECUTE FUNCTION completions_refuse_change()
    """


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0033_bills_have_hours")]

    operations = [
        migrations.AddField(
            "ownkey",
            "counts_price",
            models.BooleanField(
                db_default=False,
                default=False,
                help_text="Limits and budgets count the provider's price, too, not our fee alone.",
            ),
        ),
        migrations.AddField(
            "completion",
            "provider_held_nanos",
            models.BigIntegerField(
                db_default=0, default=0, help_text="What limits and budgets held for the provider's price, beside the hold."
            ),
        ),
        migrations.AddField(
            "completion",
            "provider_nanos",
            models.BigIntegerField(
                help_text="The price without the share, where an own key served. Where it counts, no more than was held.",
                null=True,
            ),
        ),
        migrations.AddField(
            "completion",
            "counts_price",
            models.BooleanField(
                help_text="Whether limits and budgets count the provider's price. Empty: ours serves.", null=True
            ),
        ),
        migrations.RunSQL(_charges((*_CHARGED, *_COUNTED)), _charges(_CHARGED), hints={"is_owned": True}),
    ]
