"""Triggers that keep what a payment is about, and the events about it. A refusal is a check_violation (IntegrityError)."""

from django.db import migrations

KEEP = """
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

CREATE FUNCTION billing_refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'payment events are append-only: % is refused', TG_OP USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER payment_events_are_never_changed BEFORE UPDATE OR DELETE ON billing_paymentevent
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_event_change();
"""

UNDO = """
DROP TRIGGER payment_events_are_never_changed ON billing_paymentevent;
DROP FUNCTION billing_refuse_event_change();
DROP TRIGGER a_payment_keeps_its_amount ON billing_payment;
DROP FUNCTION billing_keep_payment();
"""


class Migration(migrations.Migration):
    atomic = False  # PostgreSQL runs the statements of one string as one transaction; no row is changed
    dependencies = [("billing", "0013_payments")]

    operations = [migrations.RunSQL(KEEP, UNDO)]
