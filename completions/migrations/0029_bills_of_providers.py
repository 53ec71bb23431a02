from functools import partial
from typing import Any

from django.db import migrations, models
from django.db.models.deletion import CASCADE, PROTECT
from django.db.models.functions import Abs, Now

_ID = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))
_FINDINGS = [
    ("unknown_model", "unknown model: say what the name stands for"),
    ("unknown_request", "requests that the gateway did not send, or not with this key"),
    ("no_price", "the catalog has no price of the provider"),
    ("not_billed", "not in the bill"),
    ("not_used", "billed without a completion"),
    ("other_price", "the same tokens at another price: check the provider's price"),
    ("other_tokens", "other tokens than completions have"),
    ("early", "the export was made before the day's figures were final"),
]
_usd: Any = partial(models.DecimalField, decimal_places=30, max_digits=60)
_text: Any = partial(models.CharField, max_length=300)


def _of(table: str, on_delete: Any, **options: Any) -> Any:
    return models.ForeignKey(f"completions.{table}", on_delete=on_delete, **{"related_name": "+", "db_index": False, **options})


class Migration(migrations.Migration):
    dependencies = [("completions", "0028_completions_say_what_was_demanded")]

    operations = [
        migrations.CreateModel(
            "Bill",
            fields=[
                _ID,
                ("file_name", models.CharField(max_length=200, verbose_name="file")),
                ("format", models.CharField(max_length=60)),
                ("sha256", models.CharField(help_text="Of the unpacked files.", max_length=64)),
                ("lines", models.BigIntegerField(default=0, help_text="Lines that charge for models.")),
                ("total_usd", _usd(default="0", verbose_name="total")),
                ("rounding_usd", _usd("rounding", default="0", help_text="Half of the last digit that its costs have.")),
                (
                    "left_out",
                    models.JSONField(
                        default=dict, help_text="Of each kind of other lines: how many, their cost, and the first ones."
                    ),
                ),
                ("begun_at", models.DateTimeField(db_default=Now(), verbose_name="imported at")),
                ("finished_at", models.DateTimeField(editable=False, help_text="Empty: its import has not ended.", null=True)),
                ("provider", _of("provider", PROTECT)),
            ],
            options={"default_permissions": ("view", "add", "delete")},
        ),
        migrations.CreateModel(
            "BillComparison",
            fields=[
                _ID,
                ("day", models.DateField(verbose_name="UTC day")),
                ("name", _text("model", help_text="The model's ID, or the name of an unknown model on the bill.")),
                ("completions", models.BigIntegerField()),
                ("lines", models.BigIntegerField(verbose_name="lines of the bill")),
                ("charged_nanos", models.BigIntegerField(verbose_name="charged")),
                (
                    "expected_nanos",
                    models.BigIntegerField("expected cost", null=True, help_text="At the catalog's price of the provider."),
                ),
                ("billed_usd", _usd(verbose_name="billed")),
                ("reasons", models.JSONField(help_text="What explains the difference, in US dollars by reason.")),
                ("unexplained_usd", _usd(verbose_name="unexplained")),
                ("finding", models.CharField(blank=True, choices=_FINDINGS, max_length=20)),
                ("compared_at", models.DateTimeField(db_default=Now())),
                ("bill", _of("bill", CASCADE, db_index=True)),
                ("provider", _of("provider", PROTECT)),
            ],
            options={"verbose_name": "bill comparison", "default_permissions": ("view",)},
        ),
        migrations.CreateModel(
            "BillDay",
            fields=[_ID, ("day", models.DateField()), ("bill", _of("bill", CASCADE, related_name="days"))],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            "BilledModel",
            fields=[
                _ID,
                ("name", _text(help_text="As the comparison shows it.")),
                ("model", _of("languagemodel", CASCADE)),
                ("provider", _of("provider", CASCADE)),
            ],
            options={"verbose_name": "name on bills", "verbose_name_plural": "names on bills"},
        ),
        migrations.CreateModel(
            "BillLine",
            fields=[
                _ID,
                ("day", models.DateField()),
                ("name", _text(help_text="The model, as the provider calls it here.")),
                ("account", _text(help_text="The provider's account, project or key. Empty: not told.", max_length=500)),
                ("request_id", models.CharField(help_text="Empty: not told.", max_length=100)),
                ("tokens", models.BigIntegerField(help_text="Empty: not told, or in another unit.", null=True)),
                ("cost_usd", _usd()),
                ("lines", models.BigIntegerField()),
                ("first_line", models.BigIntegerField(help_text="The number of the first of them in its file.")),
                ("bill", _of("bill", CASCADE)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.AddConstraint(
            "bill",
            models.UniqueConstraint(
                condition=models.Q(finished_at__isnull=False), fields=("provider", "sha256"), name="a_bill_is_imported_once"
            ),
        ),
        migrations.AddIndex("billcomparison", models.Index(Abs("unexplained_usd").desc(), name="comparisons_by_difference")),
        migrations.AddConstraint(
            "billcomparison",
            models.UniqueConstraint(fields=("provider", "day", "name"), name="a_model_is_compared_once_a_day"),
        ),
        migrations.AddConstraint(
            "billcomparison",
            models.CheckConstraint(
                condition=models.Q(completions__gt=0) | models.Q(lines__gt=0) | ~models.Q(charged_nanos=0),
                name="a_comparison_has_something",
            ),
        ),
        migrations.AddIndex("billday", models.Index(fields=["day"], name="bills_by_day")),
        migrations.AddConstraint("billday", models.UniqueConstraint(fields=("bill", "day"), name="a_bill_has_a_day_once")),
        migrations.AddConstraint(
            "billedmodel",
            models.UniqueConstraint(fields=("provider", "name"), name="a_name_on_bills_has_one_meaning"),
        ),
        migrations.AddIndex("billline", models.Index(fields=["bill", "day"], name="lines_of_a_bill_by_day")),
    ]
