"""Ids of completions are compared as bytes. Completions are found by these and by account: every index costs each of them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("completions", "0005_proposals"),
        ("keys", "0002_rates_may_be_the_accounts"),
    ]

    operations = [
        migrations.AlterField(
            model_name="completion",
            name="id",
            field=models.CharField(db_collation="C", max_length=64, primary_key=True, serialize=False),
        ),
        # Django leaves them behind, for LIKE, of which an index of bytes is capable itself.
        migrations.RunSQL(
            "DROP INDEX completions_completion_id_0fedc3e9_like;"
            "DROP INDEX completions_idempotentrequest_completion_id_a10f628e_like",
            reverse_sql="CREATE INDEX completions_completion_id_0fedc3e9_like"
            " ON completions_completion (id varchar_pattern_ops);"
            "CREATE INDEX completions_idempotentrequest_completion_id_a10f628e_like"
            " ON completions_idempotentrequest (completion_id varchar_pattern_ops)",
        ),
        migrations.AlterField(
            model_name="completion",
            name="key",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="completions", to="keys.apikey"
            ),
        ),
    ]
