"""A trigger: what refunds and corrections take back of a credit is never more than it was."""

from django.db import migrations

FIT = """
CREATE FUNCTION billing_check_refund() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    credited bigint;
    returned numeric;
BEGIN
    SELECT amount_nanos INTO credited FROM billing_ledgerentry
    WHERE id = (NEW.metadata ->> 'entryId')::uuid AND account_id = NEW.account_id AND amount_nanos > 0;
    SELECT coalesce(sum(-amount_nanos), 0) INTO returned FROM billing_ledgerentry
    WHERE account_id = NEW.account_id AND NOT (type = 'USAGE_DEBIT') AND metadata ->> 'entryId' = NEW.metadata ->> 'entryId';
    IF credited IS NULL OR returned - NEW.amount_nanos > credited THEN
        RAISE EXCEPTION 'a refund of %% does not fit entry %%, of %%, of which %% was refunded', -NEW.amount_nanos,
            NEW.metadata ->> 'entryId', credited, returned USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER refunds_fit_their_credit BEFORE INSERT ON billing_ledgerentry
    FOR EACH ROW WHEN (NEW.type = 'REFUND_DEBIT' AND NEW.metadata ? 'entryId') EXECUTE FUNCTION billing_check_refund();
"""

UNDO = """
DROP TRIGGER refunds_fit_their_credit ON billing_ledgerentry;
DROP FUNCTION billing_check_refund;
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0020_groups_see_payments")]

    operations = [
        # A list with parameters, so that Django neither splits the function's body nor leaves a % undoubled.
        migrations.RunSQL([(FIT, [])], reverse_sql=[(UNDO, [])]),
    ]
