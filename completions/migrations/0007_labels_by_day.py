"""Usage by label is exact: each label has sums of its own, and those of old hours are added to those of their day.

Of accounts with labels that were not told apart the sums are deleted. ``completions.tasks.sum_up_usage`` makes them anew,
from the ledger.
"""

import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models, transaction

_SUMS = ("requests", "errors", "prompt_tokens", "completion_tokens", "cost_nanos", "first_tokens", "first_token_ms")
_HELP = {
    "requests": "All that ended.",
    "errors": "Those that cost nothing and have no ledger entry.",
    "first_tokens": "Streams whose first token was timed.",
    "first_token_ms": "The sum of their times.",
}
_ARE_TOLD = models.CheckConstraint(
    condition=models.Q(name__isnull=False, value__isnull=False), name="labels_have_a_name_and_a_value"
)


def delete_sums(apps, schema_editor):
    """Delete the sums of the accounts whose labels were not all told apart, each account in a transaction."""
    marks, hours, labels = (apps.get_model("completions", name).objects for name in ("UsageMark", "UsageHour", "LabelHour"))
    is_untold = models.Q(name=None) | models.Q(value=None)
    for account_id in list(labels.filter(is_untold).values_list("account_id", flat=True).distinct()):
        with transaction.atomic():
            marks.select_for_update().get(account_id=account_id)
            hours.filter(account_id=account_id).delete()
            labels.filter(account_id=account_id).delete()
            marks.filter(account_id=account_id).update(last_seq=0, failures_until=None)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0006_hours_and_tiers_have_prices")]

    operations = [
        migrations.CreateModel(
            name="LabelDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                *((name, models.BigIntegerField(help_text=_HELP.get(name, ""))) for name in _SUMS),
                ("name", models.CharField(db_collation="C", max_length=64)),
                ("value", models.CharField(db_collation="C", max_length=512)),
                ("day", models.DateField()),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="billing.account",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("account", "name", "day", "value"), name="labels_are_in_their_day_once")
                ],
            },
        ),
        AddIndexConcurrently("labelhour", models.Index(fields=["hour"], name="labels_by_hour")),
        # Processes of the former release fail to sum up from here on, and do not write what would be wrong.
        AddConstraintNotValid("labelhour", _ARE_TOLD),
        migrations.RunPython(delete_sums, migrations.RunPython.noop),
        ValidateConstraint("labelhour", _ARE_TOLD.name),
        # By the constraint PostgreSQL knows that no row is null, and reads none.
        migrations.AlterField("labelhour", "name", models.CharField(db_collation="C", max_length=64)),
        migrations.AlterField("labelhour", "value", models.CharField(db_collation="C", max_length=512)),
        migrations.RemoveConstraint("labelhour", _ARE_TOLD.name),
        migrations.AlterField(  # its help alone
            "completion",
            "failed_attempts",
            models.JSONField(
                null=True,
                help_text="Of each attempt that failed: provider, status and reason. Empty: none failed. []: none was made,"
                " because the circuits of all routes were open.",
            ),
        ),
    ]
