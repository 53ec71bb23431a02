"""A model may have an end and a successor. A trigger notes when that changes, so that whoever used the model is told once."""

import django.db.models.deletion
from django.db import migrations, models

NOTE = """
CREATE FUNCTION completions_note_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.end_set_at := statement_timestamp();
    RETURN NEW;
END $$
"""
NOTED = """
CREATE TRIGGER a_changed_end_is_noted BEFORE UPDATE ON completions_languagemodel FOR EACH ROW
    WHEN ((OLD.ends_on, OLD.successor_id) IS DISTINCT FROM (NEW.ends_on, NEW.successor_id))
    EXECUTE FUNCTION completions_note_end()
"""
UNDO = ["DROP TRIGGER a_changed_end_is_noted ON completions_languagemodel", "DROP FUNCTION completions_note_end()"]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("completions", "0021_prices_are_rates")]

    operations = [
        migrations.AddField(
            "languagemodel",
            "ends_on",
            models.DateField(
                blank=True,
                help_text="From this day on its providers may not serve it. Whoever used it is told.",
                null=True,
            ),
        ),
        migrations.AddField(
            "languagemodel",
            "successor",
            models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                help_text="The model to use instead. Whoever used this one is told.",
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="completions.languagemodel",
            ),
        ),
        migrations.AddField(
            "languagemodel",
            "end_set_at",
            models.DateTimeField(editable=False, help_text="When a trigger saw these two change.", null=True),
        ),
        migrations.RunSQL([NOTE, NOTED], UNDO, hints={"is_owned": False}),
    ]
