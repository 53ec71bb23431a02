"""Accounts know whether they ever paid for usage, and how much work they left unpaid of late."""

from django.db import connection, migrations, models, transaction

BATCH = 1_000

# One index seek of an account's entries finds a debit that paid something, if there is one.
MARK = """
UPDATE billing_account SET has_paid = true
WHERE id = ANY (%s) AND NOT has_paid AND EXISTS (
    SELECT FROM billing_ledgerentry AS entry
    WHERE entry.account_id = billing_account.id AND entry.type = 'USAGE_DEBIT' AND entry.amount_nanos < 0
)
"""


def mark_accounts_that_paid(apps, schema_editor):
    ids = list(apps.get_model("billing", "Account").objects.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), BATCH):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(MARK, [ids[start : start + BATCH]])


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0006_entries_and_members_have_a_second_record")]

    operations = [
        migrations.AddField(
            model_name="account",
            name="has_paid",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="account",
            name="unpaid_until",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.RunPython(mark_accounts_that_paid, migrations.RunPython.noop),
    ]
