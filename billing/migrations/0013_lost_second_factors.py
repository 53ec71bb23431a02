"""Support asks for the removal of a lost second factor, and a second person approves it."""

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import gateway_project.identifiers
from gateway_project.activity import staff_groups

DECIDED_ONCE = """
CREATE FUNCTION billing_check_second_factor_request() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the second factor request %% stays as it is: %% is refused', OLD.id, TG_OP
            USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.id, NEW.account_id, NEW.user_id, NEW.reason, NEW.ticket, NEW.requested_by_id, NEW.requested_at)
        IS DISTINCT FROM
       (OLD.id, OLD.account_id, OLD.user_id, OLD.reason, OLD.ticket, OLD.requested_by_id, OLD.requested_at)
    THEN
        RAISE EXCEPTION 'the terms of second factor request %% are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER removals_are_decided_once BEFORE UPDATE OR DELETE ON billing_secondfactorrequest
    FOR EACH ROW EXECUTE FUNCTION billing_check_second_factor_request();
"""

DECIDED_ONCE_UNDO = """
DROP TRIGGER removals_are_decided_once ON billing_secondfactorrequest;
DROP FUNCTION billing_check_second_factor_request();
"""

GROUPS = {
    "Support": ["view_secondfactorrequest"],
    "Support lead": ["view_secondfactorrequest", "remove_second_factor"],
}


def fill(apps: Any, schema_editor: Any) -> None:
    staff_groups.extend(apps, "billing", GROUPS)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("billing", "0012_receipts_are_found_by_number"),
    ]

    operations = [
        migrations.CreateModel(
            name="SecondFactorRequest",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gateway_project.identifiers.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("reason", models.CharField(max_length=500)),
                ("ticket", models.CharField(blank=True, max_length=100)),
                ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                (
                    "decision",
                    models.CharField(
                        blank=True, choices=[("APPROVED", "approved"), ("DECLINED", "declined")], default="", max_length=8
                    ),
                ),
                ("decided_at", models.DateTimeField(null=True)),
                ("decision_reason", models.CharField(blank=True, max_length=500)),
                (
                    "account",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="billing.account"),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "permissions": [("remove_second_factor", "Can approve the removal of somebody's two-factor authentication")],
                "default_permissions": ("view",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision", "APPROVED"), _negated=True),
                            models.Q(("decided_by", models.F("requested_by")), _negated=True),
                            _connector="OR",
                        ),
                        name="nobody_approves_a_removal_they_asked_for",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decided_at__isnull", True), ("decided_by__isnull", True), ("decision", "")),
                            models.Q(
                                ("decided_at__isnull", False),
                                ("decided_by__isnull", False),
                                ("decision__in", ["APPROVED", "DECLINED"]),
                            ),
                            _connector="OR",
                        ),
                        name="a_removal_waits_until_it_is_decided",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("decision", "")), fields=("user",), name="a_removal_is_asked_for_once_at_a_time"
                    ),
                ],
            },
        ),
        migrations.RunSQL([(DECIDED_ONCE, [])], reverse_sql=[(DECIDED_ONCE_UNDO, [])]),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
