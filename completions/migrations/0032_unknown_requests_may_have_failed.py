from django.db import migrations, models

FINDINGS = [
    ("unknown_model", "unknown model: say what the name stands for"),
    ("unknown_request", "no completion has these requests: failed attempts, or others with the key"),
    ("no_price", "the catalog has no price of the provider"),
    ("not_billed", "not in the bill"),
    ("not_used", "billed without a completion"),
    ("other_price", "the same tokens at another price: check the provider's price"),
    ("other_tokens", "other tokens than completions have"),
    ("early", "the export was made before the day's figures were final"),
]


class Migration(migrations.Migration):
    dependencies = [("completions", "0031_own_keys")]
    operations = [
        migrations.AlterField("billcomparison", "finding", models.CharField(blank=True, choices=FINDINGS, max_length=20))
    ]
