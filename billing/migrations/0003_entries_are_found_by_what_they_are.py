"""Who spent it, and the two indexes by which entries of one kind are found; times that never run back within a book."""

from django.db import migrations, models
from django.db.models import Q

# As before, and at its end the time: where the clock was set back, an entry is as late as the one before it. So a time is a
# place in the book, found by halving, and no index need be kept of times.
CHAIN = """
CREATE OR REPLACE FUNCTION billing_check_chain() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last billing_ledgerentry%%ROWTYPE;
BEGIN
    SELECT * INTO last FROM billing_ledgerentry WHERE account_id = NEW.account_id ORDER BY seq DESC LIMIT 1;
    IF NEW.seq <> coalesce(last.seq, 0) + 1 THEN
        RAISE EXCEPTION 'seq %% does not follow %%', NEW.seq, coalesce(last.seq, 0) USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.balance_after_nanos <> coalesce(last.balance_after_nanos, 0) + NEW.amount_nanos THEN
        RAISE EXCEPTION 'balance %% is not %% plus %%', NEW.balance_after_nanos, coalesce(last.balance_after_nanos, 0),
            NEW.amount_nanos USING ERRCODE = 'check_violation';
    END IF;
{times}    RETURN NEW;
END $$;
"""
TIMES = "    NEW.created_at := greatest(NEW.created_at, last.created_at);\n"


class Migration(migrations.Migration):
    dependencies = [("billing", "0002_books_keep_themselves")]

    operations = [
        migrations.AddField(
            model_name="ledgerentry",
            name="spender",
            field=models.CharField(blank=True, help_text="Of usage: an id of whoever spent it.", max_length=64, null=True),
        ),
        migrations.AddConstraint(
            model_name="ledgerentry",
            constraint=models.CheckConstraint(
                condition=Q(spender__isnull=True) | Q(type="USAGE_DEBIT"), name="only_usage_has_a_spender"
            ),
        ),
        migrations.AddIndex(
            model_name="ledgerentry",
            index=models.Index(
                fields=["account", "spender", "seq"], condition=Q(spender__isnull=False), name="entries_by_spender"
            ),
        ),
        migrations.AddIndex(
            model_name="ledgerentry",
            index=models.Index(
                fields=["account", "type", "seq"], condition=~Q(type="USAGE_DEBIT"), name="entries_beside_usage"
            ),
        ),
        migrations.RunSQL([(CHAIN.format(times=TIMES), [])], reverse_sql=[(CHAIN.format(times=""), [])]),
    ]
