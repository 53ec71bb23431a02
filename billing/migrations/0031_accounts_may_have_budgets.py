from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0030_earlier_entries_have_hashes")]

    operations = [
        migrations.AddField("account", "has_budgets", models.BooleanField(db_default=False, default=False, editable=False))
    ]
