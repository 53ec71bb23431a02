"""Entries that no payment explains say who booked them, and members are recorded as they join and leave: for the audit.

Of what is there already, the entries and members of now are recorded as they are.
"""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

MANUAL_ENTRIES = """
CREATE TRIGGER manual_entries_are_never_changed BEFORE UPDATE OR DELETE ON billing_manualentry
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_change();

INSERT INTO billing_manualentry
    (entry_id, account_id, type, amount_nanos, reference, metadata, issued_by_id, operator, created_at)
SELECT id, account_id, type, amount_nanos, reference, metadata, issued_by_id,
    CASE WHEN issued_by_id IS NULL THEN 'booked before operators were recorded' ELSE '' END, created_at
FROM billing_ledgerentry AS entry
WHERE NOT (type = 'USAGE_DEBIT')
    AND NOT EXISTS (SELECT FROM billing_payment WHERE credit_id = entry.id)
    AND NOT EXISTS (
        SELECT FROM billing_payment
        WHERE account_id = entry.account_id AND intent_id = split_part(reference, ':', 3)
            AND split_part(reference, ':', 1) IN ('refund', 'unrefund') AND processor = split_part(reference, ':', 2)
    );
"""

# What a membership is about never changes: another member is another row. So two accounts cannot swap their members in silence.
MEMBERS = """
CREATE FUNCTION billing_record_membership() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.account_id, NEW.user_id) IS DISTINCT FROM (OLD.account_id, OLD.user_id) THEN
        RAISE EXCEPTION 'a membership stays that of its user and account' USING ERRCODE = 'check_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO billing_membershipchange (account_id, user_id, role) VALUES (OLD.account_id, OLD.user_id, '');
    ELSE
        INSERT INTO billing_membershipchange (account_id, user_id, role) VALUES (NEW.account_id, NEW.user_id, NEW.role);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER memberships_are_recorded AFTER INSERT OR UPDATE OR DELETE ON billing_membership
    FOR EACH ROW EXECUTE FUNCTION billing_record_membership();

CREATE FUNCTION billing_refuse_membership_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'changes of members are append-only: % is refused', TG_OP USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER membership_changes_are_never_changed BEFORE UPDATE OR DELETE ON billing_membershipchange
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_membership_change();

INSERT INTO billing_membershipchange (account_id, user_id, role, changed_at)
SELECT account_id, user_id, role, created_at FROM billing_membership ORDER BY id;
"""

UNDO = """
DROP TRIGGER membership_changes_are_never_changed ON billing_membershipchange;
DROP FUNCTION billing_refuse_membership_change();
DROP TRIGGER memberships_are_recorded ON billing_membership;
DROP FUNCTION billing_record_membership();
DROP TRIGGER manual_entries_are_never_changed ON billing_manualentry;
"""


class Migration(migrations.Migration):
    atomic = False  # PostgreSQL runs the statements of one string as one transaction: nobody joins between its lines
    dependencies = [("billing", "0005_validate_what_waits")]

    operations = [
        migrations.CreateModel(
            name="MembershipChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("account_id", models.UUIDField()),
                ("user_id", models.BigIntegerField()),
                ("role", models.CharField(blank=True, help_text="Empty: the membership ended.", max_length=10)),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["account_id", "user_id", "-id"], name="changes_by_membership")],
            },
        ),
        migrations.CreateModel(
            name="ManualEntry",
            fields=[
                (
                    "entry",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="manual_entry",
                        serialize=False,
                        to="billing.ledgerentry",
                    ),
                ),
                ("type", models.CharField(max_length=20)),
                ("amount_nanos", models.BigIntegerField()),
                ("reference", models.CharField(db_collation="C", max_length=255)),
                ("metadata", models.JSONField(default=dict)),
                (
                    "operator",
                    models.CharField(blank=True, help_text="Of a command: the user and the host that ran it.", max_length=200),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="billing.account"
                    ),
                ),
                (
                    "issued_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("issued_by__isnull", False), ("operator", "")),
                            models.Q(("issued_by__isnull", True), models.Q(("operator", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="a_manual_entry_names_who_booked_it",
                    )
                ],
            },
        ),
        migrations.RunSQL(MANUAL_ENTRIES, migrations.RunSQL.noop),
        migrations.RunSQL(MEMBERS, UNDO),
    ]
