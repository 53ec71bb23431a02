"""The open holds of each key's day are counted, once: its row says their number from here on."""

from django.db import migrations

# The partial index of open holds makes this short, however many holds are resolved.
COUNT = """
UPDATE keys_spendingday SET open_holds = counted.holds
FROM (
    SELECT key_id, spending_day, count(*) AS holds
    FROM billing_hold JOIN completions_completion ON completions_completion.id = reference
    WHERE state = 'HELD' GROUP BY key_id, spending_day
) AS counted
WHERE keys_spendingday.key_id = counted.key_id AND day = spending_day
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("completions", "0008_refused_provider_keys"),
        ("billing", "0007_accounts_count_their_open_holds"),
        ("keys", "0003_keys_count_their_open_holds"),
    ]

    operations = [migrations.RunSQL(COUNT, migrations.RunSQL.noop)]
