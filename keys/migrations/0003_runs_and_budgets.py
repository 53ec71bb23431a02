"""Budgets of runs and of months."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Now

from gateway_project import identifiers

PROTECT = django.db.models.deletion.PROTECT
SCOPES = [("ACCOUNT", "the account"), ("TAG", "keys with a tag"), ("MEMBER", "keys that a member created")]
ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0031_accounts_may_have_budgets"),
        ("keys", "0002_ready_groups"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            "Budget",
            [
                (
                    "id",
                    models.CharField(
                        default=identifiers.short_uuid7, editable=False, max_length=22, primary_key=True, serialize=False
                    ),
                ),
                ("scope", models.CharField(choices=SCOPES, max_length=10)),
                (
                    "tag",
                    models.CharField(blank=True, help_text="Of keys. Empty: it is not about a tag.", max_length=40),
                ),
                ("amount_cents", models.BigIntegerField()),
                ("action", models.CharField(choices=[("WARN", "only warn"), ("STOP", "refuse requests")], max_length=10)),
                ("created_at", models.DateTimeField(db_default=Now())),
                (
                    "ended_at",
                    models.DateTimeField(help_text="Since when nothing counts on it. Empty: it is in force.", null=True),
                ),
                (
                    "account",
                    models.ForeignKey(db_index=False, on_delete=PROTECT, related_name="budgets", to="billing.account"),
                ),
                (
                    "member",
                    models.ForeignKey(
                        help_text="Who created the keys.",
                        null=True,
                        on_delete=PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(scope="ACCOUNT", tag="", member=None)
                        | Q(scope="TAG", member=None) & ~Q(tag="")
                        | Q(scope="MEMBER", tag="", member__isnull=False),
                        name="a_budget_is_of_one_scope",
                    ),
                    models.CheckConstraint(
                        condition=Q(amount_cents__gte=1, amount_cents__lte=922337203685), name="a_budget_is_a_positive_amount"
                    ),
                    models.CheckConstraint(condition=Q(action__in=("WARN", "STOP")), name="a_budget_warns_or_stops"),
                    models.UniqueConstraint(
                        condition=Q(ended_at__isnull=True),
                        fields=("account", "scope", "tag", "member"),
                        name="a_scope_has_one_budget",
                        nulls_distinct=False,
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            "BudgetMonth",
            [
                ("id", ID.clone()),
                ("month", models.DateField(help_text="Its first day.")),
                ("amount_cents", models.BigIntegerField(help_text="The budget's, as it was last in this month.")),
                ("spent_nanos", models.BigIntegerField(default=0)),
                ("held_nanos", models.BigIntegerField(default=0)),
                (
                    "budget",
                    models.ForeignKey(db_index=False, on_delete=PROTECT, related_name="months", to="keys.budget"),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(held_nanos__gte=0, spent_nanos__gte=0), name="a_budgets_month_is_never_negative"
                    ),
                    models.CheckConstraint(condition=Q(month__day=1), name="a_budgets_month_begins_with_its_first_day"),
                    models.UniqueConstraint(fields=("budget", "month"), name="a_budget_has_one_row_a_month"),
                ],
            },
        ),
        migrations.CreateModel(
            "Run",
            [
                ("id", ID.clone()),
                ("name", models.CharField(db_collation="C", help_text="The caller's id of it.", max_length=100)),
                ("budget_nanos", models.BigIntegerField()),
                (
                    "deadline",
                    models.DateTimeField(help_text="From then on its requests are refused. Empty: it has none.", null=True),
                ),
                ("spent_nanos", models.BigIntegerField(default=0)),
                ("held_nanos", models.BigIntegerField(default=0)),
                ("requests", models.BigIntegerField(default=0, help_text="Those that were admitted.")),
                ("created_at", models.DateTimeField(db_default=Now())),
                (
                    "key",
                    models.ForeignKey(db_index=False, on_delete=PROTECT, related_name="runs", to="keys.apikey"),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(spent_nanos__gte=0, held_nanos__gte=0)
                        & Q(budget_nanos__gte=F("spent_nanos") + F("held_nanos")),
                        name="a_run_stays_within_its_budget",
                    ),
                    models.UniqueConstraint(fields=("key", "name"), name="a_key_has_one_run_of_a_name"),
                ],
            },
        ),
    ]
