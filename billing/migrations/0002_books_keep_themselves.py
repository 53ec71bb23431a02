"""Triggers: what must hold between rows, the database refuses to break, whoever writes.

Every refusal is a check_violation, which Django raises as IntegrityError.
"""

from django.db import migrations

APPEND_ONLY = """
CREATE FUNCTION billing_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the book is append-only: %% on %% is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER entries_are_never_changed BEFORE UPDATE OR DELETE ON billing_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER entries_are_never_truncated BEFORE TRUNCATE ON billing_ledgerentry
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
"""

# An entry follows the one before it: the next seq, and a balance that adds up.
CHAIN = """
CREATE FUNCTION billing_check_chain() RETURNS trigger LANGUAGE plpgsql AS $$
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
    RETURN NEW;
END $$;

CREATE TRIGGER entries_follow_each_other BEFORE INSERT ON billing_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION billing_check_chain();
"""

# At commit, an account's row says what its last entry says. Deferred, because the two are written one after the other.
BALANCE = """
CREATE FUNCTION billing_check_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    this_id uuid;
    account billing_account%%ROWTYPE;
    last billing_ledgerentry%%ROWTYPE;
BEGIN
    this_id := CASE TG_TABLE_NAME WHEN 'billing_account' THEN to_jsonb(NEW) ->> 'id' ELSE to_jsonb(NEW) ->> 'account_id' END;
    SELECT * INTO account FROM billing_account WHERE id = this_id;
    SELECT * INTO last FROM billing_ledgerentry WHERE account_id = this_id ORDER BY seq DESC LIMIT 1;
    IF account.balance_nanos <> coalesce(last.balance_after_nanos, 0) OR account.last_seq <> coalesce(last.seq, 0) THEN
        RAISE EXCEPTION 'account %% says balance %% and seq %%, its book %% and %%', this_id, account.balance_nanos,
            account.last_seq, coalesce(last.balance_after_nanos, 0), coalesce(last.seq, 0)
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER accounts_agree_with_their_book AFTER INSERT OR UPDATE OF balance_nanos, last_seq
    ON billing_account DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_check_balance();
CREATE CONSTRAINT TRIGGER entries_agree_with_their_account AFTER INSERT
    ON billing_ledgerentry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_check_balance();
"""

# A hold is resolved once, its terms never change, and it is never forgotten.
HOLDS = """
CREATE FUNCTION billing_check_hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.state <> 'HELD' THEN
        RAISE EXCEPTION 'hold %% is %% and stays so', OLD.reference, OLD.state USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.reference, NEW.account_id, NEW.amount_nanos) IS DISTINCT FROM (OLD.reference, OLD.account_id, OLD.amount_nanos) THEN
        RAISE EXCEPTION 'the terms of hold %% are fixed', OLD.reference USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER holds_resolve_once BEFORE UPDATE OR DELETE ON billing_hold
    FOR EACH ROW EXECUTE FUNCTION billing_check_hold();
"""

UNDO = """
DROP TRIGGER holds_resolve_once ON billing_hold;
DROP TRIGGER entries_agree_with_their_account ON billing_ledgerentry;
DROP TRIGGER accounts_agree_with_their_book ON billing_account;
DROP TRIGGER entries_follow_each_other ON billing_ledgerentry;
DROP TRIGGER entries_are_never_truncated ON billing_ledgerentry;
DROP TRIGGER entries_are_never_changed ON billing_ledgerentry;
DROP FUNCTION billing_check_hold, billing_check_balance, billing_check_chain, billing_refuse_change;
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0001_initial")]

    # A list with parameters, so that Django neither splits a function body at its semicolons nor leaves a % undoubled.
    operations = [migrations.RunSQL([(sql, []) for sql in (APPEND_ONLY, CHAIN, BALANCE, HOLDS)], reverse_sql=[(UNDO, [])])]
