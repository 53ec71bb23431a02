"""Marks the accounts that have paid for usage, a few at a time. It may be interrupted, and run again."""

from django.db import connection, migrations, transaction

BATCH = 100

# Locked by id, as settlements lock them. One index seek of an account's entries finds a debit that paid, if there is one.
MARK = """
WITH locked AS (SELECT id FROM billing_account WHERE id = ANY (%s) AND NOT has_paid ORDER BY id FOR NO KEY UPDATE)
UPDATE billing_account SET has_paid = true
FROM locked
WHERE billing_account.id = locked.id AND EXISTS (
    SELECT FROM billing_ledgerentry AS entry
    WHERE entry.account_id = locked.id AND entry.type = 'USAGE_DEBIT' AND entry.amount_nanos < 0
)
"""


def mark_accounts_that_paid(apps, schema_editor):
    ids = list(apps.get_model("billing", "Account").objects.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), BATCH):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(MARK, [ids[start : start + BATCH]])


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0007_accounts_have_a_standing")]

    operations = [migrations.RunPython(mark_accounts_that_paid, migrations.RunPython.noop)]
