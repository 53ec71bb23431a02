import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """What the audit signed stays in a cell when an account moves to another one."""

    dependencies = [("billing", "0016_balances_are_checked_on_shards")]

    operations = [
        migrations.AlterField(
            model_name="auditedledger",
            name="account",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="billing.account",
            ),
        ),
    ]
