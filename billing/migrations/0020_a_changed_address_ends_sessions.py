"""Counts the changes of a user's address, whoever makes one: sessions from before are over."""

from django.db import migrations, models

_COUNT = """
CREATE FUNCTION billing_count_address() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.sessions_generation := greatest(NEW.sessions_generation, OLD.sessions_generation)
        + (NEW.email IS DISTINCT FROM OLD.email)::integer;
    RETURN NEW;
END $$
"""
_TRIGGER = """
CREATE TRIGGER a_changed_address_ends_sessions BEFORE UPDATE OF email, sessions_generation ON billing_user
    FOR EACH ROW EXECUTE FUNCTION billing_count_address()
"""
_UNDO = ["DROP TRIGGER a_changed_address_ends_sessions ON billing_user", "DROP FUNCTION billing_count_address()"]


class Migration(migrations.Migration):
    atomic = False  # each statement is short
    dependencies = [("billing", "0019_approvals_say_what_was_seen")]

    operations = [
        migrations.AddField(
            "user",
            "sessions_generation",
            models.IntegerField(
                default=0,
                db_default=0,
                editable=False,
                help_text="Sessions of an earlier one are over. Triggers count new addresses.",
            ),
        ),
        migrations.RunSQL([_COUNT, _TRIGGER], _UNDO, hints={"is_owned": False}),
    ]
