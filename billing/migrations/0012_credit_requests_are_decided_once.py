"""A trigger lets a credit request be decided once, and nothing else of it be changed."""

from django.db import migrations

DECIDED_ONCE = """
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

UNDO = """
DROP TRIGGER credit_requests_are_decided_once ON billing_creditrequest;
DROP FUNCTION billing_check_credit_request();
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0011_credits_wait_for_a_second_person")]

    operations = [migrations.RunSQL([(DECIDED_ONCE, [])], reverse_sql=[(UNDO, [])])]
