"""Fills the hashes of earlier entries, a thousand at a time, under the lock of their account. It may run again."""

from django.db import connection, migrations, transaction

BATCH = 1_000


def fill(apps, schema_editor):
    # Those without entries, too: a transaction that began before the trigger knew hashes may commit the first one meanwhile.
    ids = list(apps.get_model("billing", "Account").objects.order_by("pk").values_list("pk", flat=True))
    for account_id in ids:
        seq = 0
        while seq is not None:
            seq = fill_some(account_id, seq)


def fill_some(account_id, seq):
    """Fill the entries of an account after a seq, in order. The trigger computes each hash. Return the last seq, or None."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '60s'")  # a settlement holds the account for milliseconds
        cursor.execute("SELECT 1 FROM billing_account WHERE id = %s FOR NO KEY UPDATE", [account_id])
        cursor.execute(
            "SELECT seq, hash IS NULL FROM billing_ledgerentry WHERE account_id = %s AND seq > %s ORDER BY seq LIMIT %s",
            [account_id, seq, BATCH],
        )
        entries = cursor.fetchall()
        places = [(account_id, seq) for seq, is_empty in entries if is_empty]
        cursor.executemany("UPDATE billing_ledgerentry SET hash = '' WHERE account_id = %s AND seq = %s", places)
    return entries[-1][0] if entries else None


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0029_entries_prove_themselves")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop, hints={"is_owned": True})]
