"""What waits for a second person keeps in which state it was about, which is a term that stays fixed."""

from django.db import migrations, models

# ``completions_check_price_request`` compares all columns already.
_FIXED = """
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the {name} %% stays as it is: %% is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
    END IF;
    IF to_jsonb(NEW) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'entry_id']
        IS DISTINCT FROM to_jsonb(OLD) - ARRAY['decision', 'decided_by_id', 'decided_at', 'decision_reason', 'entry_id']
    THEN
        RAISE EXCEPTION 'the terms of {name} %% are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$
"""
_KINDS = {"creditrequest": "credit request", "ownerrequest": "owner request", "secondfactorrequest": "second factor request"}


def _seen() -> models.Field:
    return models.JSONField(
        default=dict,
        db_default={},
        editable=False,
        help_text="By name, the state of what it is about when it was asked for.",
    )


class Migration(migrations.Migration):
    dependencies = [("billing", "0018_addresses_have_one_spelling")]

    # The former release works with either function, so nothing is undone.
    operations = [
        *(migrations.AddField(model, "seen", _seen()) for model in _KINDS),
        *(
            migrations.RunSQL(
                [(_FIXED.format(function=f"billing_check_{name.replace(' ', '_')}", name=name), [])],
                migrations.RunSQL.noop,
                hints={"is_owned": True},
            )
            for name in _KINDS.values()
        ),
    ]
