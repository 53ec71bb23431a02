"""Triggers that make the log append-only. Every refusal is a check_violation, which Django raises as IntegrityError."""

from django.db import migrations

APPEND_ONLY = """
CREATE FUNCTION activity_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the activity log is append-only: % is refused', TG_OP USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER acts_are_never_changed BEFORE UPDATE OR DELETE ON activity_activity
    FOR EACH ROW EXECUTE FUNCTION activity_refuse_change();
CREATE TRIGGER acts_are_never_truncated BEFORE TRUNCATE ON activity_activity
    FOR EACH STATEMENT EXECUTE FUNCTION activity_refuse_change();
"""

UNDO = """
DROP TRIGGER acts_are_never_truncated ON activity_activity;
DROP TRIGGER acts_are_never_changed ON activity_activity;
DROP FUNCTION activity_refuse_change();
"""


class Migration(migrations.Migration):
    replaces = [
        ("activity", "0002_acts_are_never_changed"),
        ("activity", "0003_take_over_the_admins_history"),
        ("activity", "0004_forms_are_acted_on_once"),
        ("activity", "0005_programs_act"),
    ]

    dependencies = [("activity", "0001_initial")]

    operations = [migrations.RunSQL(APPEND_ONLY, UNDO)]
