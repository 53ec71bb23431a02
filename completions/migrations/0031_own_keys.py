"""Accounts may bring keys of providers. A completion that one of them served says which share of the price is charged."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import gateway_project.identifiers

# As in 0021_prices_are_rates, with the new column.
_CHARGED = (
    *("id", "account_id", "key_id", "model_id", "price_id", "settlement", "prompt_tokens", "cached_tokens"),
    *("cache_write_tokens", "completion_tokens", "images", "cost_nanos", "repeats", "charged_before_nanos"),
    *("spending_day", "limit_nanos", "limit_since", "created_at", "cache_write_1h_tokens", "service_tier", "web_searches"),
    "other_counts",
)


def _charges(columns: tuple[str, ...]) -> str:
    old, new = (", ".join(f"{row}.{name}" for name in columns) for row in ("OLD", "NEW"))
    return f"""
    CREATE OR REPLACE TRIGGER charges_are_never_changed AFTER UPDATE ON completions_completion FOR EACH ROW
        WHEN (OLD.settlement IS NOT NULL AND ({old}) IS DISTINCT FROM ({new}))
        EXECUTE FUNCTION completions_refuse_change()
    """


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0035_accounts_have_own_keys"), ("completions", "0030_staff_read_bills")]

    operations = [
        migrations.AddField(
            "completion",
            "own_key_fee",
            models.IntegerField(
                help_text="What is charged of the price, in basis points, for the account's own key. Empty: ours serves.",
                null=True,
            ),
        ),
        migrations.RunSQL(_charges((*_CHARGED, "own_key_fee")), _charges(_CHARGED), hints={"is_owned": True}),
        migrations.CreateModel(
            name="OwnKey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gateway_project.identifiers.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("sealed_secret", models.TextField(editable=False)),
                ("hint", models.CharField(help_text="How it ends.", max_length=4)),
                (
                    "model_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=200),
                        default=list,
                        help_text="That it serves. Empty: all of the provider.",
                        size=None,
                    ),
                ),
                (
                    "falls_back",
                    models.BooleanField(default=False, help_text="Ours may serve at the full price when it fails."),
                ),
                (
                    "check_words",
                    models.CharField(blank=True, help_text="What came of the call with which it was checked.", max_length=200),
                ),
                (
                    "added_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="own_keys",
                        to="billing.account",
                    ),
                ),
                (
                    "provider",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="completions.provider",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("account", "provider"), name="an_account_has_a_key_of_a_provider_once")
                ],
            },
        ),
    ]
