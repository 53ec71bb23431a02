"""Credits that wait for a second person."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import gateway_project.identifiers


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0010_password_links"),
    ]

    operations = [
        migrations.CreateModel(
            name="CreditRequest",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gateway_project.identifiers.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "reference",
                    models.CharField(db_collation="C", help_text="Of the form that asked for it.", max_length=64, unique=True),
                ),
                ("amount_cents", models.BigIntegerField()),
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
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="credit_requests", to="billing.account"
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "entry",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="credit_request",
                        to="billing.ledgerentry",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="credit_requests", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "permissions": [("approve_support_credit", "Can approve a SUPPORT_CREDIT that somebody else asks for")],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("decision", "")), fields=["requested_by"], name="waiting_credits_by_requester"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("amount_cents__gte", 1)), name="a_credit_is_asked_for_in_whole_cents"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision", "APPROVED"), _negated=True),
                            models.Q(("decided_by", models.F("requested_by")), _negated=True),
                            _connector="OR",
                        ),
                        name="nobody_approves_what_they_asked_for",
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
                        name="a_credit_waits_until_it_is_decided",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision", "APPROVED"), ("entry__isnull", False)),
                            models.Q(models.Q(("decision", "APPROVED"), _negated=True), ("entry__isnull", True)),
                            _connector="OR",
                        ),
                        name="only_an_approved_credit_is_booked",
                    ),
                ],
            },
        ),
    ]
