"""Lines of bills have hours, comparisons say which hours do not agree, and providers which accounts on their bills are ours."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Abs, Greatest

FINDINGS = [
    ("unknown_model", "unknown model: say what the name stands for"),
    ("unknown_request", "no completion has these requests: failed attempts, or others with the key"),
    ("no_price", "the catalog has no price of the provider"),
    ("not_billed", "not in the bill"),
    ("not_used", "billed without a completion"),
    ("other_price", "the same tokens at another price: check the provider's price"),
    ("other_tokens", "other tokens than completions have"),
    ("early", "the export was made before the day's figures were final"),
    ("hours", "the day agrees, its hours do not"),
]


class Migration(migrations.Migration):
    atomic = False  # an index is made concurrently
    dependencies = [("completions", "0032_unknown_requests_may_have_failed")]

    operations = [
        migrations.AddField(
            "provider",
            "bill_accounts",
            ArrayField(
                models.CharField(max_length=500),
                **{"blank": True, "db_default": [], "default": list, "verbose_name": "ours on bills"},
                help_text="Keys, accounts or projects as its bills name them, with commas; none: lines that name none."
                " Lines of others are left out. Empty: all count.",
            ),
        ),
        migrations.AlterField(
            "bill",
            "sha256",
            models.CharField(help_text="Of the unpacked files, and of which accounts are ours.", max_length=64),
        ),
        migrations.AddField(
            "bill",
            "days",
            ArrayField(models.DateField(), db_default=[], default=list, help_text="UTC days that it has costs of."),
        ),
        migrations.RunSQL(
            "UPDATE completions_bill SET days = ARRAY(SELECT day FROM completions_billday"
            " WHERE bill_id = completions_bill.id ORDER BY day)",
            migrations.RunSQL.noop,
            hints={"is_owned": False},
        ),
        migrations.DeleteModel("BillDay"),
        migrations.AddField(
            "billline", "hour", models.PositiveSmallIntegerField(help_text="In UTC. Empty: not told.", null=True)
        ),
        migrations.AddField(
            "billcomparison",
            "hours",
            models.JSONField(db_default=[], default=list, help_text="The hours that do not agree, with amounts in US dollars."),
        ),
        migrations.AddField(
            "billcomparison",
            "hours_usd",
            models.DecimalField(
                **{"db_default": "0", "default": "0", "decimal_places": 30, "max_digits": 60},
                help_text="What is unexplained in its hours, whether too much or too little.",
            ),
        ),
        migrations.AlterField("billcomparison", "finding", models.CharField(blank=True, choices=FINDINGS, max_length=20)),
        AddIndexConcurrently(
            "billcomparison",
            models.Index(Greatest(Abs("unexplained_usd"), "hours_usd").desc(), name="comparisons_by_size"),
        ),
        RemoveIndexConcurrently("billcomparison", "comparisons_by_difference"),
    ]
