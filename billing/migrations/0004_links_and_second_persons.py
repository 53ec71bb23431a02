"""Links are bound to credentials, changes of address can be undone, and more acts of staff wait for a second person."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

import gateway_project.identifiers

DECIDED_ONCE = """
CREATE FUNCTION billing_check_owner_request() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the owner request %% stays as it is: %% is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.id, NEW.account_id, NEW.user_id, NEW.reason, NEW.ticket, NEW.requested_by_id, NEW.requested_at)
        IS DISTINCT FROM
       (OLD.id, OLD.account_id, OLD.user_id, OLD.reason, OLD.ticket, OLD.requested_by_id, OLD.requested_at)
    THEN
        RAISE EXCEPTION 'the terms of owner request %% are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER owner_requests_are_decided_once BEFORE UPDATE OR DELETE ON billing_ownerrequest
    FOR EACH ROW EXECUTE FUNCTION billing_check_owner_request();
"""

DECIDED_ONCE_UNDO = """
DROP TRIGGER owner_requests_are_decided_once ON billing_ownerrequest;
DROP FUNCTION billing_check_owner_request();
"""

# As in 0002_triggers, with the kind and the bank's id.
TERMS_OF_CREDITS = """
CREATE OR REPLACE FUNCTION billing_check_credit_request() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decision <> '' THEN
        RAISE EXCEPTION 'the credit request %% stays as it is: %% is refused', OLD.id, TG_OP USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.id, NEW.reference, NEW.account_id, NEW.amount_cents, NEW.reason, NEW.ticket, NEW.requested_by_id, NEW.requested_at,
        NEW.kind, NEW.payment_id)
        IS DISTINCT FROM
       (OLD.id, OLD.reference, OLD.account_id, OLD.amount_cents, OLD.reason, OLD.ticket, OLD.requested_by_id, OLD.requested_at,
        OLD.kind, OLD.payment_id)
    THEN
        RAISE EXCEPTION 'the terms of credit request %% are fixed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("billing", "0003_ready_groups"),
    ]

    operations = [
        migrations.CreateModel(
            name="AddressChange",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gateway_project.identifiers.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("former", models.EmailField(max_length=254)),
                ("address", models.EmailField(max_length=254)),
                ("asked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("changed_at", models.DateTimeField(null=True)),
                ("undone_at", models.DateTimeField(null=True)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="OwnerRequest",
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
            ],
            options={
                "default_permissions": ("view",),
            },
        ),
        migrations.AddField(
            model_name="creditrequest",
            name="kind",
            field=models.CharField(
                choices=[("SUPPORT_CREDIT", "credit"), ("CREDIT_PURCHASE", "payment by bank transfer")],
                db_default="SUPPORT_CREDIT",
                default="SUPPORT_CREDIT",
                editable=False,
                max_length=20,
            ),
        ),
        migrations.AddField(
            model_name="creditrequest",
            name="payment_id",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="The bank's, of a payment.", max_length=200
            ),
        ),
        migrations.AddField(
            model_name="user",
            name="last_code_step",
            field=models.BigIntegerField(
                db_default=0,
                default=0,
                editable=False,
                help_text="The step of time of the last code of an app that was accepted.",
            ),
        ),
        migrations.AddField(
            model_name="user",
            name="links_generation",
            field=models.IntegerField(
                db_default=0, default=0, editable=False, help_text="Links that were mailed under an earlier one are void."
            ),
        ),
        migrations.AlterField(
            model_name="topuprule",
            name="base_url",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Not used any more; a later release removes it.",
                max_length=300,
            ),
        ),
        AddConstraintNotValid(
            model_name="creditrequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "SUPPORT_CREDIT"), ("payment_id", "")),
                    models.Q(("kind", "CREDIT_PURCHASE"), models.Q(("payment_id", ""), _negated=True)),
                    _connector="OR",
                ),
                name="a_payment_that_waits_has_the_banks_id",
            ),
        ),
        migrations.AddField(
            model_name="addresschange",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="address_changes", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="ownerrequest",
            name="account",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="billing.account"),
        ),
        migrations.AddField(
            model_name="ownerrequest",
            name="decided_by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="ownerrequest",
            name="requested_by",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name="ownerrequest",
            name="user",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name="addresschange",
            constraint=models.UniqueConstraint(
                condition=models.Q(("changed_at__isnull", True), ("undone_at__isnull", True)),
                fields=("user",),
                name="a_user_asks_for_one_change_of_address",
            ),
        ),
        migrations.AddConstraint(
            model_name="ownerrequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decision", "APPROVED"), _negated=True),
                    models.Q(("decided_by", models.F("requested_by")), _negated=True),
                    _connector="OR",
                ),
                name="nobody_approves_an_owner_they_asked_for",
            ),
        ),
        migrations.AddConstraint(
            model_name="ownerrequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decided_at__isnull", True), ("decided_by__isnull", True), ("decision", "")),
                    models.Q(
                        ("decided_at__isnull", False), ("decided_by__isnull", False), ("decision__in", ["APPROVED", "DECLINED"])
                    ),
                    _connector="OR",
                ),
                name="an_owner_waits_until_it_is_decided",
            ),
        ),
        migrations.AddConstraint(
            model_name="ownerrequest",
            constraint=models.UniqueConstraint(
                condition=models.Q(("decision", "")), fields=("account", "user"), name="an_owner_is_asked_for_once_at_a_time"
            ),
        ),
        migrations.RunSQL([(DECIDED_ONCE, [])], reverse_sql=[(DECIDED_ONCE_UNDO, [])]),
        migrations.RunSQL([(TERMS_OF_CREDITS, [])], reverse_sql=migrations.RunSQL.noop),
    ]
