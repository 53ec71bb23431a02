"""Lets acts be deleted that are older than a year; of others, none. It changes a function, and locks no table.

The role of the gateway may not delete from the log. So a function of the owner's does it, and does nothing else.
"""

from django.db import migrations

KEPT_A_YEAR = """
CREATE OR REPLACE FUNCTION activity_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < statement_timestamp() - interval '365 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'the activity log is append-only: % is refused', TG_OP USING ERRCODE = 'check_violation';
END $$;

-- From the first act on, as ids count up with the time: without old ones only a batch is read.
CREATE FUNCTION activity_delete_old(kept_since timestamptz, rows_max integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH deleted AS (
        DELETE FROM activity_activity WHERE id IN (
            SELECT id FROM (SELECT id, at FROM activity_activity ORDER BY id LIMIT rows_max) AS first WHERE at < kept_since
        ) RETURNING id
    )
    SELECT count(*) FROM deleted
$$;
"""
BEFORE = """
DROP FUNCTION activity_delete_old(timestamptz, integer);

CREATE OR REPLACE FUNCTION activity_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the activity log is append-only: % is refused', TG_OP USING ERRCODE = 'check_violation';
END $$;
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("activity", "0002_triggers")]

    operations = [migrations.RunSQL(KEPT_A_YEAR, BEFORE)]
