"""Members have roles, existing ones that of owners, and owners invite others."""

import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

import gateway_project.identifiers


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0023_groups_act_on_accounts"),
    ]

    operations = [
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=gateway_project.identifiers.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                (
                    "role",
                    models.CharField(
                        choices=[("OWNER", "Owner"), ("DEVELOPER", "Developer"), ("BILLING", "Billing"), ("VIEWER", "Viewer")],
                        max_length=10,
                    ),
                ),
                (
                    "digest",
                    models.CharField(db_collation="C", help_text="SHA-256 of the link's secret.", max_length=64, unique=True),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options={
                "default_permissions": ("view",),
            },
        ),
        migrations.AddField(
            model_name="membership",
            name="role",
            field=models.CharField(
                choices=[("OWNER", "Owner"), ("DEVELOPER", "Developer"), ("BILLING", "Billing"), ("VIEWER", "Viewer")],
                db_default="OWNER",
                default="OWNER",
                max_length=10,
            ),
        ),
        AddConstraintNotValid(
            model_name="membership",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["OWNER", "DEVELOPER", "BILLING", "VIEWER"])), name="a_member_has_a_role"
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="account",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="invitations", to="billing.account"
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="invited_by",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["OWNER", "DEVELOPER", "BILLING", "VIEWER"])), name="an_invitation_is_to_a_role"
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("email", django.db.models.functions.text.Lower("email"))),
                name="an_invited_email_is_in_lower_case",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("accepted_at__isnull", True), ("revoked_at__isnull", True), _connector="OR"),
                name="an_invitation_ends_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("accepted_at__isnull", True), ("revoked_at__isnull", True)),
                fields=("account", "email"),
                name="an_address_is_invited_once",
            ),
        ),
    ]
