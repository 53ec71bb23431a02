"""Compare the names of tables by their beginning: on Citus a trigger runs on a shard, whose name ends in a number."""

from django.db import migrations

_BALANCE = """
CREATE OR REPLACE FUNCTION billing_check_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_entry boolean := starts_with(TG_TABLE_NAME, 'billing_ledgerentry');
    this_id uuid;
    account record;
    last record;
BEGIN
    IF is_entry THEN this_id := NEW.account_id; ELSE this_id := NEW.id; END IF;
    SELECT balance_nanos, last_seq INTO account FROM billing_account WHERE id = this_id;
    IF is_entry THEN
        IF NOT FOUND THEN
            RAISE EXCEPTION 'account %% is not there', this_id USING ERRCODE = 'check_violation';
        END IF;
        IF account.last_seq > NEW.seq THEN
            RETURN NULL;
        END IF;
        SELECT NEW.seq, NEW.balance_after_nanos INTO last;
    ELSE
        SELECT seq, balance_after_nanos INTO last
            FROM billing_ledgerentry WHERE account_id = this_id ORDER BY seq DESC LIMIT 1;
    END IF;
    IF account.balance_nanos <> coalesce(last.balance_after_nanos, 0) OR account.last_seq <> coalesce(last.seq, 0) THEN
        RAISE EXCEPTION 'account %% says balance %% and seq %%, its book %% and %%', this_id, account.balance_nanos,
            account.last_seq, coalesce(last.balance_after_nanos, 0), coalesce(last.seq, 0)
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0015_statements_are_found_by_number")]

    # The former release works with either function, so nothing is undone.
    operations = [migrations.RunSQL([(_BALANCE, [])], migrations.RunSQL.noop)]
