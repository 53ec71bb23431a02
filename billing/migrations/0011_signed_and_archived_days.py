"""Days that the audit signs off, and days whose details are archived: holds that ended on these may be deleted."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

# An hour more, as the clocks of a hold and of its entry may be on two sides of midnight.
IS_ARCHIVED = """
CREATE FUNCTION billing_is_archived(ended_at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(ended_at < max(day + 1)::timestamp AT TIME ZONE 'UTC' + interval '1 hour', false)
    FROM billing_archivedday WHERE written_at IS NOT NULL
$$
"""
HOLDS = """
CREATE OR REPLACE FUNCTION billing_check_hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.state <> 'HELD' AND billing_is_archived(OLD.resolved_at) THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'DELETE' OR OLD.state <> 'HELD' THEN
        RAISE EXCEPTION 'hold %% is %% and stays so', OLD.reference, OLD.state USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.reference, NEW.account_id, NEW.amount_nanos) IS DISTINCT FROM (OLD.reference, OLD.account_id, OLD.amount_nanos) THEN
        RAISE EXCEPTION 'the terms of hold %% are fixed', OLD.reference USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$
"""
HOLDS_BEFORE = """
CREATE OR REPLACE FUNCTION billing_check_hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.state <> 'HELD' THEN
        RAISE EXCEPTION 'hold %% is %% and stays so', OLD.reference, OLD.state USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.reference, NEW.account_id, NEW.amount_nanos) IS DISTINCT FROM (OLD.reference, OLD.account_id, OLD.amount_nanos) THEN
        RAISE EXCEPTION 'the terms of hold %% are fixed', OLD.reference USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0010_email_is_one_word"),
    ]

    operations = [
        migrations.CreateModel(
            name="ArchivedDay",
            fields=[
                ("day", models.DateField(primary_key=True, serialize=False)),
                (
                    "files",
                    models.JSONField(default=list, help_text="Of each file: name, rows, bytes and SHA-256. Empty: dropped."),
                ),
                ("completions", models.BigIntegerField(default=0)),
                ("holds", models.BigIntegerField(default=0)),
                ("written_at", models.DateTimeField(null=True)),
                ("deleted_at", models.DateTimeField(null=True)),
                ("restored_at", models.DateTimeField(null=True)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="AuditedDay",
            fields=[
                ("day", models.DateField(primary_key=True, serialize=False)),
                ("digest", models.CharField(db_collation="C", max_length=64)),
                ("signed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "checked_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="When its rows were last read and found as signed.",
                    ),
                ),
                (
                    "rows_changed",
                    models.BigIntegerField(
                        help_text="Changes of entries that PostgreSQL had counted: none, unless triggers are disabled."
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="RetentionMark",
            fields=[
                ("what", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("since", models.DateField()),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="AuditedLedger",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("last_seq", models.BigIntegerField()),
                ("last_at", models.DateTimeField()),
                ("balance_nanos", models.BigIntegerField()),
                ("debited_nanos", models.BigIntegerField(help_text="Of all usage until then.")),
                (
                    "digest",
                    models.CharField(db_collation="C", help_text="SHA-256 over that of each entry of the day.", max_length=64),
                ),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="billing.account"
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["day"], name="audited_ledgers_by_day")],
                "constraints": [models.UniqueConstraint(fields=("account", "day"), name="a_ledgers_day_is_signed_once")],
            },
        ),
        # With parameters, so that Django neither splits a function body at its semicolons nor leaves a % undoubled.
        migrations.RunSQL([(IS_ARCHIVED, []), (HOLDS, [])], [(HOLDS_BEFORE, []), ("DROP FUNCTION billing_is_archived", [])]),
    ]
