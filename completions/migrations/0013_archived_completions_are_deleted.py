"""Lets completions of archived days be deleted; of others, none. It changes a function, and locks no table."""

from django.db import migrations

IS_ARCHIVED = """
CREATE OR REPLACE FUNCTION completions_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN -- of a completion: the trigger of prices is for updates
        IF OLD.settlement IS NOT NULL AND billing_is_archived(OLD.finished_at) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION '% of % is refused: what was charged stays as it is', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'check_violation';
END $$
"""
BEFORE = """
CREATE OR REPLACE FUNCTION completions_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: what was charged stays as it is', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'check_violation';
END $$
"""


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0011_signed_and_archived_days"),
        ("completions", "0012_times_to_the_first_token_by_hour"),
    ]

    operations = [migrations.RunSQL(IS_ARCHIVED, BEFORE)]
