"""Triggers: what must hold between rows, the database refuses to break, whoever writes.

Every refusal is a check_violation, which Django raises as IntegrityError. Two indexes go that nothing uses.
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

# An entry follows the one before it: the next seq, and a balance that adds up. Where the clock was set back, an entry is as
# late as the one before it. So entries are in the order of their times, and a time is found without an index of times.
CHAIN = """
CREATE FUNCTION billing_check_chain() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last record;
BEGIN
    SELECT seq, balance_after_nanos, created_at INTO last
        FROM billing_ledgerentry WHERE account_id = NEW.account_id ORDER BY seq DESC LIMIT 1;
    IF NEW.seq <> coalesce(last.seq, 0) + 1 THEN
        RAISE EXCEPTION 'seq %% does not follow %%', NEW.seq, coalesce(last.seq, 0) USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.balance_after_nanos <> coalesce(last.balance_after_nanos, 0) + NEW.amount_nanos THEN
        RAISE EXCEPTION 'balance %% is not %% plus %%', NEW.balance_after_nanos, coalesce(last.balance_after_nanos, 0),
            NEW.amount_nanos USING ERRCODE = 'check_violation';
    END IF;
    NEW.created_at := greatest(NEW.created_at, last.created_at);
    RETURN NEW;
END $$;

CREATE TRIGGER entries_follow_each_other BEFORE INSERT ON billing_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION billing_check_chain();
"""

# At commit, an account's row says what its last entry says. Deferred, because the two are written one after the other.
# An entry that others follow is not compared: its balance is in theirs by the chain, and the last of them is compared.
# An account that takes the id of another one takes its ledger, too.
BALANCE = """
CREATE FUNCTION billing_check_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    this_id uuid;
    account record;
    last record;
BEGIN
    IF TG_TABLE_NAME = 'billing_account' THEN this_id := NEW.id; ELSE this_id := NEW.account_id; END IF;
    SELECT balance_nanos, last_seq INTO account FROM billing_account WHERE id = this_id;
    IF TG_TABLE_NAME = 'billing_ledgerentry' THEN
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
END $$;

CREATE CONSTRAINT TRIGGER accounts_agree_with_their_book AFTER INSERT OR UPDATE OF id, balance_nanos, last_seq
    ON billing_account DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_check_balance();
CREATE CONSTRAINT TRIGGER entries_agree_with_their_account AFTER INSERT
    ON billing_ledgerentry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_check_balance();
"""

# A hold is resolved once, its terms never change, and it is never deleted.
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

# What refunds and corrections take back of a credit is never more than the credit.
REFUNDS = """
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

# A credit request is decided once, and nothing else of it changes.
CREDIT_REQUESTS = """
CREATE FUNCTION billing_check_credit_request() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the credit request %% stays as it is: %% is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.id, NEW.reference, NEW.account_id, NEW.amount_cents, NEW.reason, NEW.ticket, NEW.requested_by_id, NEW.requested_at)
        IS DISTINCT FROM
       (OLD.id, OLD.reference, OLD.account_id, OLD.amount_cents, OLD.reason, OLD.ticket, OLD.requested_by_id, OLD.requested_at)
    THEN
        RAISE EXCEPTION 'the terms of credit request %% are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER credit_requests_are_decided_once BEFORE UPDATE OR DELETE ON billing_creditrequest
    FOR EACH ROW EXECUTE FUNCTION billing_check_credit_request();
"""

# A payment keeps its account and amount, and what is paid stays paid.
PAYMENTS = """
CREATE FUNCTION billing_keep_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a payment is never deleted' USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.account_id, NEW.amount_cents, NEW.currency, NEW.processor, NEW.is_live)
        IS DISTINCT FROM (OLD.account_id, OLD.amount_cents, OLD.currency, OLD.processor, OLD.is_live) THEN
        RAISE EXCEPTION 'the account, amount and currency of a payment never change' USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status = 'PAID' AND (NEW.status, NEW.credit_id, NEW.receipt_number, NEW.intent_id)
        IS DISTINCT FROM (OLD.status, OLD.credit_id, OLD.receipt_number, OLD.intent_id) THEN
        RAISE EXCEPTION 'what is paid stays paid' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER a_payment_keeps_its_amount BEFORE UPDATE OR DELETE ON billing_payment
    FOR EACH ROW EXECUTE FUNCTION billing_keep_payment();
"""

EVENTS = """
CREATE FUNCTION billing_refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'payment events are append-only: %% is refused', TG_OP USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER payment_events_are_never_changed BEFORE UPDATE OR DELETE ON billing_paymentevent
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_event_change();
"""

UNDO = """
DROP TRIGGER payment_events_are_never_changed ON billing_paymentevent;
DROP TRIGGER a_payment_keeps_its_amount ON billing_payment;
DROP TRIGGER credit_requests_are_decided_once ON billing_creditrequest;
DROP TRIGGER refunds_fit_their_credit ON billing_ledgerentry;
DROP TRIGGER holds_resolve_once ON billing_hold;
DROP TRIGGER entries_agree_with_their_account ON billing_ledgerentry;
DROP TRIGGER accounts_agree_with_their_book ON billing_account;
DROP TRIGGER entries_follow_each_other ON billing_ledgerentry;
DROP TRIGGER entries_are_never_truncated ON billing_ledgerentry;
DROP TRIGGER entries_are_never_changed ON billing_ledgerentry;
DROP FUNCTION billing_refuse_event_change, billing_keep_payment, billing_check_credit_request, billing_check_refund,
    billing_check_hold, billing_check_balance, billing_check_chain, billing_refuse_change;
"""


class Migration(migrations.Migration):
    replaces = [
        ("billing", "0002_books_keep_themselves"),
        ("billing", "0003_entries_are_found_by_what_they_are"),
        ("billing", "0004_accounts_have_defaults_for_their_keys"),
        ("billing", "0005_checks_read_what_they_compare"),
        ("billing", "0006_sign_in_limits"),
        ("billing", "0007_accounts_count_their_open_holds"),
        ("billing", "0008_accounts_count_their_stored_replies"),
        ("billing", "0009_count_open_holds"),
        ("billing", "0010_password_links"),
        ("billing", "0011_credits_wait_for_a_second_person"),
        ("billing", "0012_credit_requests_are_decided_once"),
        ("billing", "0013_payments"),
        ("billing", "0014_payments_keep_their_amount"),
        ("billing", "0015_search_finds_accounts_and_payments"),
        ("billing", "0017_payment_differences"),
        ("billing", "0018_entries_beside_usage_by_time"),
        ("billing", "0019_top_ups"),
        ("billing", "0021_refunds_fit_their_credits"),
        ("billing", "0022_acts_on_accounts_need_permissions"),
        ("billing", "0024_members_have_roles"),
        ("billing", "0025_validate_the_roles"),
        ("billing", "0027_failed_holds_are_found_by_time"),
        ("billing", "0028_warnings"),
        ("billing", "0029_validate_the_threshold"),
    ]

    dependencies = [("billing", "0001_initial")]

    # A list with parameters, so that Django neither splits a function body at its semicolons nor leaves a % undoubled.
    operations = [
        migrations.RunSQL(
            [(sql, []) for sql in (APPEND_ONLY, CHAIN, BALANCE, HOLDS, REFUNDS, CREDIT_REQUESTS, PAYMENTS, EVENTS)],
            reverse_sql=[(UNDO, [])],
        ),
        # Django makes them for LIKE, of which an index of bytes (db_collation C) is capable itself.
        migrations.RunSQL(
            "DROP INDEX billing_hold_reference_efde3da1_like; DROP INDEX billing_ledgerentry_reference_23094ef0_like",
            "CREATE INDEX billing_hold_reference_efde3da1_like ON billing_hold (reference varchar_pattern_ops);"
            "CREATE INDEX billing_ledgerentry_reference_23094ef0_like ON billing_ledgerentry (reference varchar_pattern_ops)",
        ),
    ]
